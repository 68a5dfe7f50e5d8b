"""Distributed traces: spans, how they are named, and where they go. What sends them away is ``telemetry/otlp.py``."""
