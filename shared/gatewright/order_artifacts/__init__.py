"""Artifacts of an order and their readers: memory of earlier runs, and hidden acceptance checks."""
