"""An answer to a task that is done, or of an attempt that is over, is recorded once and changes nothing."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gatewright.contracts import TaskResult
from gatewright.run.events import AnswerIgnored, event_of
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from tests.gatekeeper.simulated_run import Script, SimulatedRun


def worked(script: Script) -> tuple[SimulatedRun, RoleReplied]:
    """A run right after its first worker's answer counted, and another answer of the same worker."""
    world = SimulatedRun(script)
    while True:
        item = world.under_way.pop(0)
        world.deliver(item)
        if isinstance(item, RoleReplied) and isinstance(item.document, TaskResult):
            other = msgspec.structs.replace(item.document, summary="late")
            return world, replace(item, document=other, message_id="late")


def ignored(world: SimulatedRun) -> list[AnswerIgnored]:
    payloads = [event_of(event) for transition in world.transitions for event in transition.events]
    return [payload for payload in payloads if isinstance(payload, AnswerIgnored)]


def test_a_second_answer_is_recorded_and_does_not_count() -> None:
    world, late = worked(Script())
    assert world.run is not None
    before = world.run
    world.deliver(late)
    (event,) = ignored(world)
    assert (event.reason, event.message_id) == ("task_done", "late")
    assert world.run.tasks[event_task(world)].result == before.tasks[event_task(world)].result
    assert (world.run.state, world.run.candidate) == (before.state, before.candidate)


def event_task(world: SimulatedRun) -> str:
    (event,) = [e for t in world.transitions for e in t.events if e.event_type == "answer_ignored"]
    assert event.task_id is not None
    return event.task_id


def test_further_late_answers_and_repetitions_of_what_counted_leave_no_trace() -> None:
    world, late = worked(Script())
    counted = world.delivered[-1]
    world.deliver(counted)
    assert ignored(world) == []
    for _ in range(3):
        world.deliver(late)
        world.deliver(replace(late, message_id="later"))
    assert len(ignored(world)) == 1


def test_an_answer_of_an_attempt_that_is_over_is_recorded_as_such() -> None:
    world, late = worked(Script(retries=1, tests_fail_until=1))
    while world.run is not None and world.run.attempt == 1:
        world.deliver(world.under_way.pop(0))
    world.deliver(late)
    assert [event.reason for event in ignored(world)] == ["attempt_over"]
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    assert world.run is not None
    assert world.run.status == "SUCCESS"


def test_after_the_end_nothing_is_recorded() -> None:
    world, late = worked(Script())
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    world.deliver(late)
    assert ignored(world) == []


def test_a_result_naming_another_attempt_than_its_task_is_ignored() -> None:
    """The task id matches; only the attempt number shows that the result belongs to other work."""
    world = SimulatedRun(Script(retries=1, tests_fail_until=1))
    while world.run is None or world.run.attempt == 1:
        world.deliver(world.under_way.pop(0))
    while True:
        item = world.under_way.pop(0)
        if isinstance(item, RoleReplied) and isinstance(item.document, TaskResult):
            break
        world.deliver(item)
    assert item.document.attempt == 2
    old = replace(item, document=msgspec.structs.replace(item.document, attempt=1), message_id="old")
    world.deliver(old)
    assert world.run.tasks[item.document.task_id].status == "RUNNING"
    assert [event.reason for event in ignored(world)] == ["attempt_over"]
    world.under_way.insert(0, item)
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    assert world.run.status == "SUCCESS"
