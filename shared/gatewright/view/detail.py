"""One run in detail: request, timeline, gate reports, and for a failure its cause and advice in one sentence. Pure."""

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
    """Details of a run. ``records``: events. ``gates``: every gate report. ``family``: family of the failure's reason."""

    run: Run
    row: BoardRow
    records: tuple[OrchestratorEvent, ...]
    gates: tuple[GateReport, ...]
    timeline: Timeline
    family: Family | None

    @property
    def advice(self) -> str:
        """Return advice for the failure, in one sentence; empty without a failure or without known advice."""
        failure = self.run.failure
        return (advice_for(failure.code, self.run.run_id) or "") if failure is not None else ""


def detail_of(records: Sequence[OrchestratorEvent], now: datetime) -> RunDetail | None:
    """Return the details of the run that these events describe; None without events.

    Raises:
        MalformedError: an event is illegal in its place.
    """
    past = follow_all(records)
    if past is None:
        return None
    timeline = timeline_of(records, past.run.run_id, now)
    return RunDetail(past.run, row_of(past, 0), tuple(records), past.gates, timeline, past.failure_family)
