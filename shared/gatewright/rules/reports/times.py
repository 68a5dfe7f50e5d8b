"""Plausibility of times in a document: within its run, as far as clocks of several hosts agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from gatewright.rules.broken import Broken
from gatewright.run.state import Run

#: Maximum difference between the clocks of two hosts. One may be a day ahead and another a day behind, and be corrected
#: meanwhile.
CLOCKS_APART: Final = timedelta(days=3)
CODE: Final = "times_contradict"
RULE: Final = "times"


def broken_by_times(run: Run, now: datetime, *times: str) -> Iterator[Broken]:
    """Yield a fault unless all ``times`` (RFC 3339) are from acceptance of ``run`` to ``now``, within ``CLOCKS_APART``."""
    if words := out_of_time(run, now, *times):
        yield Broken(CODE, RULE, words)


def out_of_time(run: Run, now: datetime, *times: str) -> str:
    """Return as text which of ``times`` are implausible; empty when all are plausible."""
    earliest, latest = datetime.fromisoformat(run.created_at) - CLOCKS_APART, now + CLOCKS_APART
    for text in times:
        try:
            inside = earliest <= datetime.fromisoformat(text) <= latest
        except (ValueError, TypeError):
            return f"{text[:40]!r} is no time with a zone"
        if not inside:
            return f"it names the time {text}, and the run was accepted {run.created_at} and is judged {now.isoformat()}"
    return ""
