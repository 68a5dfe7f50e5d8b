"""A task whose role was killed on every delivery ends its run, is kept for operators, and leaves its queue."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.port import Delivery, Message
from gatewright.bus.topology import EXHAUSTED_CONSUMER, Consumer, consumers, task_consumer
from gatewright.errors import BusError, MalformedError
from gatewright.services.gatekeeper.intake.exhausted_tasks import EXHAUSTED, give_up
from gatewright.tasks.dead_letters import DeadLetters
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, open_gatekeeper
from tests.git.repositories import MakeRepository

PLANS = dataclasses.replace(task_consumer("techlead"), ack_wait=0.05, max_deliver=2)


@pytest.fixture
async def house(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[Gatekeeper]:
    """A run that waits for its plan, in a system whose tech lead is delivered a task twice."""
    repository = make_repository()
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        others = tuple(queue for queue in consumers() if queue.durable != PLANS.durable)
        await ensure_topology(gatekeeper.bus, queues=(*others, PLANS))
        run = await gatekeeper.submit(contract_on(repository))
        assert run.state == "S1"
        yield gatekeeper


async def killed_each_time(house: Gatekeeper, queue: Consumer = PLANS) -> Delivery:
    """A role that takes its task and says nothing more, until the server gives up; the server's report."""
    subscription = await house.bus.consume(queue)
    for _ in range(queue.max_deliver):
        assert await subscription.next(2) is not None
    assert await subscription.next(0.2) is None
    report = await (await house.bus.consume(EXHAUSTED_CONSUMER)).next(2)
    assert report is not None
    return report


async def handled(house: Gatekeeper, report: Message) -> None:
    await give_up(report, house.bus, house.orchestrator, make_logger(io.BytesIO()), Metrics("gatekeeper"))


async def test_the_run_ends_with_the_reason(house: Gatekeeper) -> None:
    report = await killed_each_time(house)
    await handled(house, report.message)
    run = await house.run()
    assert (run.status, run.failure and run.failure.code) == ("FAILED", "attempts_exhausted")
    assert run.sealed is not None


async def test_the_task_is_kept_for_operators_and_leaves_its_queue(house: Gatekeeper) -> None:
    (task,) = [message async for message in house.bus.unsettled(PLANS.subject)]
    report = await killed_each_time(house)
    await handled(house, report.message)
    (letter,) = await DeadLetters(house.bus).all()
    assert (letter.role, letter.code, letter.attempts, letter.subject) == ("gatekeeper", "attempts_exhausted", 2, PLANS.subject)
    assert await DeadLetters(house.bus).original(letter) == task.data
    assert [message async for message in house.bus.unsettled("gw.task.>")] == []


async def test_a_report_that_comes_twice_changes_nothing_more(house: Gatekeeper) -> None:
    report = await killed_each_time(house)
    for _ in range(2):
        await handled(house, report.message)
    transitions = (await house.run()).transitions
    await handled(house, report.message)
    assert (await house.run()).transitions == transitions
    assert len(await DeadLetters(house.bus).all()) == 1


@pytest.mark.parametrize("step", ["publish", "remove"])
async def test_what_was_broken_off_is_done_when_the_report_comes_again(
    house: Gatekeeper, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    report = await killed_each_time(house)

    async def away(*_words: object, **_named: object) -> None:
        raise BusError("the server is away")

    with monkeypatch.context() as broken:
        broken.setattr(house.bus, step, away)
        with pytest.raises(BusError):
            await handled(house, report.message)
    await handled(house, report.message)
    assert (await house.run()).status == "FAILED"
    assert len(await DeadLetters(house.bus).all()) == 1
    assert [message async for message in house.bus.unsettled("gw.task.>")] == []


async def test_a_task_that_was_answered_late_is_left_alone(house: Gatekeeper) -> None:
    report = await killed_each_time(house)
    (task,) = [message async for message in house.bus.unsettled(PLANS.subject)]
    await house.bus.remove("TASKS", task.sequence)
    await handled(house, report.message)
    assert (await house.run()).status == "RUNNING"
    assert await DeadLetters(house.bus).all() == ()


async def test_a_task_that_names_no_run_is_put_aside_all_the_same(house: Gatekeeper) -> None:
    await house.bus.publish(PLANS.subject, b"\xff", schema="task_contract.v1", message_id="poison")
    subscription = await house.bus.consume(PLANS)
    for _ in range(2 * PLANS.max_deliver):
        assert await subscription.next(2) is not None
    assert await subscription.next(0.2) is None
    reports = await house.bus.consume(EXHAUSTED_CONSUMER)
    for _ in range(2):
        report = await reports.next(2)
        assert report is not None
        await handled(house, report.message)
        await report.ack()
    assert len(await DeadLetters(house.bus).all()) == 2


@pytest.mark.parametrize("data", [b"", b"{}", b"\xff", b'{"stream": "TASKS", "stream_seq": "1", "deliveries": 2}'])
async def test_what_is_no_report_is_refused(house: Gatekeeper, data: bytes) -> None:
    with pytest.raises(MalformedError):
        await handled(house, Message(f"{EXHAUSTED}x", data))


async def test_a_report_about_another_stream_touches_nothing(house: Gatekeeper) -> None:
    data = b'{"stream": "RUNS", "stream_seq": 1, "deliveries": 2}'
    await handled(house, Message(f"{EXHAUSTED}x", data))
    assert (await house.run()).status == "RUNNING"
