"""Views of a run for people: its state, its history and what it needs. Pure; every surface renders these."""
