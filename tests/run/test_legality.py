"""When events may follow: the decider appends no illegal event, and ``verify`` finds recorded ones by the same method."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from gatewright.run import events as e
from gatewright.run.evolve import evolve, objection
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.draft import Draft, IllegalEventError
from gatewright.services.gatekeeper.decider.inputs import Continue
from tests.gatekeeper.simulated_run import Script, SimulatedRun

LATER = datetime(2026, 3, 1, tzinfo=UTC)


def run_in(state: str) -> Run:
    """A simulated run that has just come to ``state``."""
    world = SimulatedRun(Script())
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
