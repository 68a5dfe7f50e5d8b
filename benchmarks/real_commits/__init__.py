"""Commits of real projects through `gatewright run`, as they are and with their sources broken: see ``__main__``."""
