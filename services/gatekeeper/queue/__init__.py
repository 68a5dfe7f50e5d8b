"""Merge queues: their stream, and the work that their state asks for."""
