"""A benchmark measures runs that ended as they should, or says how they ended."""

from __future__ import annotations

import msgspec
import pytest

from benchmarks.run import longest_gap
from benchmarks.workload import proved
from gatewright.contracts.records import OrchestratorEvent
from gatewright.run.state import RunFailure
from tests.evidence.recorded_runs import RecordedRun


def event(kind: str, task_id: str, second: str, **payload: object) -> OrchestratorEvent:
    return OrchestratorEvent(
        ts=f"2026-01-01T00:00:{second}Z",
        level="INFO",
        event_type=kind,
        run_id="run-0123456789",
        task_id=task_id,
        attempt=1,
        payload=payload,
        trace_id="0" * 32,
    )


REFUSED = RunFailure(code="target_checked_out", message="policy gate: refs/heads/main is checked out")


def test_a_benchmark_stops_at_a_failed_run_and_reports_why() -> None:
    recorded = RecordedRun()
    recorded.accept()
    failed = msgspec.structs.replace(recorded.run, state="FAILED", failure=REFUSED)
    with pytest.raises(SystemExit, match=r"ended as FAILED: .*target_checked_out.*is checked out"):
        proved(failed)
    with pytest.raises(SystemExit, match="target_checked_out"):
        proved(failed, "landing_conflict")
    assert proved(failed, "target_checked_out") is failed


def test_the_longest_delay_is_that_of_the_longest_waiting_task() -> None:
    events = [
        event("task_dispatched", "w001", "00"),
        event("task_dispatched", "w002", "01"),
        event("result_received", "w002", "09", result={"started_at": "2026-01-01T00:00:03Z"}),
        event("result_received", "w001", "09", result={"started_at": "2026-01-01T00:00:01Z"}),
        event("task_dispatched", "test.a1", "10"),
        event("tests_received", "test.a1", "20", report={"started_at": "2026-01-01T00:00:16.5Z"}),
        event("review_received", "review.a1", "21", report={"verdict": "PASS"}),
    ]
    assert longest_gap(events) == 6.5
    assert longest_gap(events[:4]) == 2.0
    assert longest_gap(events[:1]) == 0.0
