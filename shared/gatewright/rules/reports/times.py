"""Whether the times that a document names can be true: within its run, as far as clocks of several hosts agree."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from gatewright.rules.broken import Broken
from gatewright.run.state import Run

#: How far the clocks of two hosts may be apart. One may be a day ahead and another a day behind, and be set right meanwhile.
CLOCKS_APART: Final = timedelta(days=3)
CODE: Final = "times_contradict"
RULE: Final = "times"


def broken_by_times(run: Run, now: datetime, *times: str) -> Iterator[Broken]:
    """Each of ``times`` (RFC 3339) lies between the acceptance of ``run`` and ``now``, give or take ``CLOCKS_APART``."""
    if words := out_of_time(run, now, *times):
        yield Broken(CODE, RULE, words)


def out_of_time(run: Run, now: datetime, *times: str) -> str:
    """In words which of ``times`` cannot be true; empty when all of them can."""
    earliest, latest = datetime.fromisoformat(run.created_at) - CLOCKS_APART, now + CLOCKS_APART
    for text in times:
        try:
            inside = earliest <= datetime.fromisoformat(text) <= latest
        except (ValueError, TypeError):
            return f"{text[:40]!r} is no time with a zone"
        if not inside:
            return f"it names the time {text}, and the run was accepted {run.created_at} and is judged {now.isoformat()}"
    return ""
