"""The six roles, one process each."""
