"""One run in detail: what was asked, its timeline, every verdict, and in one sentence why it failed and what to do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gatewright.contracts import GateReport, OrchestratorEvent
from gatewright.reasons import Family, advice_for
from gatewright.run.history import follow_all
from gatewright.run.state import Run
from gatewright.view.rows import BoardRow, row_of
from gatewright.view.timeline import Timeline, timeline_of


@dataclass(frozen=True, slots=True)
class RunDetail:
    """``records`` are the events, ``gates`` every verdict, in their order; ``family`` is that of the reason of a failure."""

    run: Run
    row: BoardRow
    records: tuple[OrchestratorEvent, ...]
    gates: tuple[GateReport, ...]
    timeline: Timeline
    family: Family | None

    @property
    def advice(self) -> str:
        """What to do about a failure, in one sentence; empty where there is none, or none is known."""
        failure = self.run.failure
        return (advice_for(failure.code, self.run.run_id) or "") if failure is not None else ""


def detail_of(records: Sequence[OrchestratorEvent], now: datetime) -> RunDetail | None:
    """The run that these events tell until ``now``; None for none. Raises MalformedError where they do not follow on."""
    past = follow_all(records)
    if past is None:
        return None
    timeline = timeline_of(records, past.run.run_id, now)
    return RunDetail(past.run, row_of(past, 0), tuple(records), past.gates, timeline, past.failure_family)
