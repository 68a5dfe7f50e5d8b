"""Hostile input in bulk: generators, and what must hold whatever they make."""
