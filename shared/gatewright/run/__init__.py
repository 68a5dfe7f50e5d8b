"""What a run is and may become: its events, its state, and the arithmetic over both. Pure."""
