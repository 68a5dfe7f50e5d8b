"""When events may follow: the decider appends no illegal event, and ``verify`` finds recorded ones by the same method."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from gatewright.contracts.task_contract import TaskType
from gatewright.run import events as e
from gatewright.run.evolve import evolve, objection
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.draft import Draft, IllegalEventError
from gatewright.services.gatekeeper.decider.inputs import Continue
from tests.gatekeeper.simulated_run import Script, SimulatedRun

LATER = datetime(2026, 3, 1, tzinfo=UTC)


def run_in(state: str, task_type: TaskType = "IMPLEMENT") -> Run:
    """A simulated run that has just come to ``state``."""
    world = SimulatedRun(Script(task_type=task_type))
    while world.run is None or world.run.state != state:
        world.deliver(world.under_way.pop(0))
    return world.run


def landed(_run: Run) -> e.Landed:
    return e.Landed(mode="branch", commit="c" * 40, tree="d" * 40, ref="refs/heads/x")


def second_review(run: Run) -> e.TaskDispatched:
    task = run.running("reviewer")
    assert task is not None
    return e.TaskDispatched(task_id=f"{task.task_id}.again", role="reviewer", pool="default", contract=task.contract)


@pytest.mark.parametrize(
    ("state", "event", "words"),
    [
        ("S3", landed, "it landed before its tests had passed"),
        ("S3", second_review, "the reviewer was asked twice"),
        ("S2", lambda _run: e.StateEntered(state="S3"), "S3 is entered without what it rests on"),
        ("S2", lambda run: e.LocksTaken(repository_url=run.accepted.repository_key, paths=(), token=1), "not the time to take"),
        ("S3", lambda run: replace(run.accepted), "accepted once"),
        ("S3", lambda _run: e.RunFinished(status="SUCCESS", code="ok", message=""), "the run ends once"),
    ],
)
def test_decider_cannot_append_an_illegal_event(state: str, event: object, words: str) -> None:
    run = run_in(state)
    made = event(run)  # type: ignore[operator]
    draft = Draft(run, Continue("next"), LATER)
    with pytest.raises(IllegalEventError, match=words):
        draft.add(made)
    assert draft.transition() is None
    assert words in objection(run, made)


@pytest.mark.parametrize(
    ("task_type", "state", "event", "words"),
    [
        ("REVIEW", "S3", landed, "it landed before"),
        ("TEST", "S4", landed, "it landed before"),
        ("PLAN", "S1", lambda _run: e.StateEntered(state="S6"), "S6 is entered without"),
        ("TEST", "S4", lambda _run: e.StateEntered(state="S6"), "S6 is entered without"),
        ("REVIEW", "S3", lambda _run: e.StateEntered(state="S6"), "S6 is entered without"),
        ("REVIEW", "S3", lambda _run: e.TaskDispatched(task_id="x.w01", role="worker", pool="default"), "worker is not asked"),
        (
            "REVIEW",
            "S3",
            lambda _run: e.TaskDispatched(task_id="x", role="testrunner", pool="default"),
            "testrunner is not asked",
        ),
        ("PLAN", "S1", lambda _run: e.LocksTaken(repository_url="/srv/project", paths=(), token=1), "not the time to take"),
    ],
)
def test_a_run_without_a_change_never_works_or_lands(task_type: TaskType, state: str, event: object, words: str) -> None:
    run = run_in(state, task_type)
    assert words in objection(run, event(run))  # type: ignore[operator]


def test_every_event_of_a_landed_run_was_legal_when_it_happened() -> None:
    world = SimulatedRun(Script(shards=2))
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    run: Run | None = None
    checked = 0
    for transition in world.transitions:
        for record in transition.events:
            event = e.event_of(record)
            if run is not None:
                assert objection(run, event) == "", record
                checked += 1
            run = evolve(run, record)
    assert run is not None
    assert run.status == "SUCCESS"
    assert checked > 20
