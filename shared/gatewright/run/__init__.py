"""Domain model of a run: its events, its state, and computations over both. Pure."""
