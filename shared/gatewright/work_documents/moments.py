"""Seconds between two recorded times."""

from __future__ import annotations

from datetime import datetime


def seconds_between(first: str, last: str) -> float:
    """Seconds from one RFC 3339 timestamp to another; 0 where one is missing, is none, or they are the wrong way round."""
    try:
        return max(0.0, (datetime.fromisoformat(last) - datetime.fromisoformat(first)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
