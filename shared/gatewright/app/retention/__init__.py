"""Retention of bundles and runs: what may be removed, what must stay, and what replaces it."""
