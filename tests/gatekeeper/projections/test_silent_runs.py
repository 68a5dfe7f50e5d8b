"""Which runs are silent: two beats without a claim, by this process's own clock, and only while it could have heard one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from gatewright.contracts import StatusClaim
from gatewright.services.gatekeeper.policies.dispatch import BeatsPolicy
from gatewright.services.gatekeeper.projections.silent_runs import SilentRuns, TaskRole
from tests.gatekeeper.entries import make_entry

RUN, TASK = "run-0123456789", "task-1"
BEAT = BeatsPolicy(version="1", seconds=10)


def make_claim(task: str = TASK, role: TaskRole = "worker", **changes: Any) -> StatusClaim:
    plain = {"delivery": 1, "beat": 0, "beat_seconds": 10, "since": "1999-01-01T00:00:00.000Z", "phase": "working"}
    return StatusClaim(**{"run_id": RUN, "task_id": task, "role": role, "quiet_seconds": 0, **plain, **changes})


def tell(runs: SilentRuns, now: float, *events: tuple[str, dict[str, Any]], age: float = 0.0, run_id: str = RUN) -> None:
    said = [{"event_type": name, "ts": "", "payload": payload} for name, payload in events]
    runs.saw(make_entry(json.dumps({"number": 1, "run_id": run_id, "events": said}).encode(), run_id), now, age)


def given(task: str = TASK, role: str = "worker") -> tuple[str, dict[str, Any]]:
    return "task_dispatched", {"task_id": task, "role": role, "pool": "default"}


@pytest.fixture
def runs() -> SilentRuns:
    """One task was given out at 100, and claims have been heard since then."""
    made = SilentRuns(BEAT)
    made.hears(100.0)
    tell(made, 100.0, given())
    return made


def test_it_is_silent_after_two_beats_and_not_before(runs: SilentRuns) -> None:
    assert runs.silent_since(RUN, 120.0) is None
    assert runs.silent_since(RUN, 120.1) == 100.0
    assert runs.count(120.1) == 1


def test_a_claim_ends_the_silence_and_names_the_activity(runs: SilentRuns) -> None:
    assert runs.claimed(make_claim(activity="command"), 150.0)
    assert runs.silent_since(RUN, 170.0) is None
    life = runs.tasks(RUN, 170.1)[TASK]
    assert (life.last, life.silent, life.claim and life.claim.activity) == (150.0, True, "command")


@pytest.mark.parametrize("beat", [6, 7], ids=["older", "replayed"])
def test_a_claim_that_is_not_newer_is_ignored(runs: SilentRuns, beat: int) -> None:
    assert runs.claimed(make_claim(process="one", beat=7), 110.0)
    assert not runs.claimed(make_claim(process="one", beat=beat), 125.0)
    assert runs.silent_since(RUN, 130.1) == 110.0
    assert runs.claimed(make_claim(process="one", beat=8), 131.0)
    assert runs.claimed(make_claim(process="two", beat=0), 132.0)
    assert runs.silent_since(RUN, 140.0) is None


@pytest.mark.parametrize("since", ["2999-01-01T00:00:00.000Z", "not a time"])
def test_clocks_of_others_are_never_compared(runs: SilentRuns, since: str) -> None:
    runs.claimed(make_claim(since=since, beat=10**9, beat_seconds=86_400, quiet_seconds=10**9), 150.0)
    assert runs.silent_since(RUN, 170.0) is None
    assert runs.silent_since(RUN, 170.1) == 150.0


@pytest.mark.parametrize(
    "claim",
    [make_claim("task-2"), make_claim(role="reviewer"), make_claim(run_id="run-other00000")],
    ids=["task", "role", "run"],
)
def test_a_claim_of_an_unassigned_task_is_ignored(runs: SilentRuns, claim: StatusClaim) -> None:
    assert not runs.claimed(claim, 119.0)
    assert runs.silent_since(RUN, 121.0) == 100.0
    assert len(runs) == 1


@pytest.mark.parametrize(
    "event",
    [
        ("task_finished", {"result": {"task_id": TASK}, "accepted": True}),
        ("task_failed", {"error": {"task_id": TASK}}),
        ("fix_ordered", {}),
        ("run_finished", {"status": "ABORTED"}),
        ("bundle_sealed", {}),
        ("run_expired", {}),
    ],
    ids=lambda event: event[0],
)
def test_what_is_over_is_not_silent_and_cannot_be_claimed(runs: SilentRuns, event: tuple[str, dict[str, Any]]) -> None:
    tell(runs, 110.0, event)
    assert not runs.claimed(make_claim(), 111.0)
    assert (runs.silent_since(RUN, 999.0), len(runs), runs.count(999.0)) == (None, 0, 0)


@pytest.mark.parametrize(
    ("role", "event"),
    [
        ("pm", ("contract_compiled", {"contract": {"task_id": "another"}})),
        ("techlead", ("plan_accepted", {"plan": {}})),
        ("reviewer", ("review_received", {"report": {"task_id": "t"}})),
        ("testrunner", ("tests_received", {"report": {"task_id": "t"}})),
    ],
)
def test_every_role_s_answer_ends_its_task(role: TaskRole, event: tuple[str, dict[str, Any]]) -> None:
    runs = SilentRuns(BEAT)
    tell(runs, 0.0, given("t", role))
    assert runs.claimed(make_claim("t", role), 1.0)
    tell(runs, 2.0, event)
    assert len(runs) == 0


def test_a_waiting_shard_does_not_make_a_claimed_run_silent(runs: SilentRuns) -> None:
    tell(runs, 100.0, given("task-2"))
    runs.claimed(make_claim(), 125.0)
    assert runs.silent_since(RUN, 140.0) is None
    assert runs.tasks(RUN, 140.0)["task-2"].silent
    runs.claimed(make_claim("task-2"), 141.0)
    assert runs.silent_since(RUN, 150.0) == 125.0, "the first was claimed before, and is no more"


def test_a_process_that_has_just_started_holds_nothing_against_a_task() -> None:
    """After `kill -9` of the gatekeeper: the ledger's times are old, and what was claimed meanwhile is lost."""
    runs = SilentRuns(BEAT)
    tell(runs, 1000.0, given(), age=900.0)
    assert runs.silent_since(RUN, 5000.0) is None
    assert math.isnan(runs.count(5000.0))
    runs.hears(5000.0)
    assert runs.silent_since(RUN, 5020.0) is None
    assert runs.silent_since(RUN, 5020.1) == 100.0


def test_a_ledger_from_the_future_makes_no_task_claimed_later_than_now() -> None:
    runs = SilentRuns(BEAT)
    runs.hears(0.0)
    tell(runs, 5.0, given(), age=-3600.0)
    assert runs.silent_since(RUN, 25.1) == 5.0


def test_an_entry_that_is_none_is_passed_over(runs: SilentRuns) -> None:
    tell(runs, 110.0, ("task_dispatched", {"task_id": 7}), ("task_finished", {"result": []}), ("task_failed", {"error": {}}))
    assert runs.silent_since(RUN, 121.0) == 100.0


def test_ten_thousand_runs_are_counted() -> None:
    runs = SilentRuns(BEAT)
    runs.hears(0.0)
    for number in range(10_000):
        tell(runs, 0.0, given(f"t{number}"), run_id=f"run-{number:010d}")
    for number in range(0, 10_000, 2):
        assert runs.claimed(make_claim(f"t{number}", run_id=f"run-{number:010d}"), 15.0)
    assert runs.count(30.0) == 5_000
