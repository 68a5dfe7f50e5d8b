"""Structured logs, metrics and health, the same for every service."""
