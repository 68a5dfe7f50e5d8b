"""The in-memory bus of one process: the same rules, nothing stored."""
