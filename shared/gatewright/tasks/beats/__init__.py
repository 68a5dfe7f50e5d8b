"""Periodic claims of a role: every beat, that a task is still in progress."""
