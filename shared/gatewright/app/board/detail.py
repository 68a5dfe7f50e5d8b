"""One run in detail: what was asked, its timeline, every verdict, and in one sentence why it failed and what to do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gatewright.app.board.rows import BoardRow, OpenRun, row_of
from gatewright.app.report.timeline import Timeline, timeline_of
from gatewright.contracts import GateReport, OrchestratorEvent
from gatewright.reasons import Family, advice_for
from gatewright.run import events as e
from gatewright.run.evolve import evolve
from gatewright.run.families import ToldFamilies, failure_family, told_after
from gatewright.run.state import Run
from gatewright.work_documents.request_summary import gate_standing


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
    run: Run | None = None
    told: ToldFamilies = {}
    gates: list[GateReport] = []
    given_out: dict[str, str] = {}
    holders: tuple[str, ...] = ()
    since = ""
    for record in records:
        run = evolve(run, record)
        payload = e.event_of(record)
        told = told_after(told, payload)
        match payload:
            case e.GateJudged(report=report):
                gates.append(report)
            case e.TaskDispatched(task_id=task_id):
                given_out[task_id] = record.ts
            case e.LocksWaiting(holders=names):
                holders, since = names, record.ts
            case _:
                pass
    if run is None:
        return None
    family = failure_family(run.failure.code, told) if run.failure is not None else None
    row = row_of(OpenRun(run, given_out, holders, since, tuple(map(gate_standing, gates))), 0)
    return RunDetail(run, row, tuple(records), tuple(gates), timeline_of(records, run.run_id, now), family)
