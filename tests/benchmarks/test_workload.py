"""A benchmark measures runs that ended as they should, or says how they ended."""

from __future__ import annotations

import dataclasses

import pytest

from benchmarks.workload import proved
from gatewright.ledger.run import RunFailure
from tests.evidence.recorded_runs import RecordedRun

REFUSED = RunFailure(code="target_checked_out", message="policy gate: refs/heads/main is checked out")


def test_a_benchmark_stops_at_a_failed_run_and_says_why() -> None:
    recorded = RecordedRun()
    recorded.accept()
    failed = dataclasses.replace(recorded.run, state="FAILED", failure=REFUSED)
    with pytest.raises(SystemExit, match=r"ended as FAILED: .*target_checked_out.*is checked out"):
        proved(failed)
    with pytest.raises(SystemExit, match="target_checked_out"):
        proved(failed, "landing_conflict")
    assert proved(failed, "target_checked_out") is failed
