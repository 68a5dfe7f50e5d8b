"""Dispatch of tasks to roles: priority class, token, and delivery exactly once."""
