"""Requests to people beside a run: open questions that tasks answered by a guess, and permission requests of agents."""
