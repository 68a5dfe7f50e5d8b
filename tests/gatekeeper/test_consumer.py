"""Leaving in good order: what is in hand is finished or given back at once, and nothing more is taken."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Delivery, Message, Reply
from gatewright.bus.topology import RESULT_CONSUMER
from gatewright.services.gatekeeper import consumer
from gatewright.services.gatekeeper.consumer import InputConsumer
from gatewright.services.gatekeeper.intake.result_consumer import ResultConsumer
from gatewright.telemetry.logs import make_logger

SUBJECT = "gw.result.worker"


@dataclass
class SlowConsumer:
    """Handles a message in the given way, and acknowledges it."""

    work: Callable[[], Awaitable[object]]
    background: set[asyncio.Task[None]] = field(default_factory=set)
    begun: int = 0
    done: int = 0

    async def handle(self, delivery: Delivery) -> None:
        self.begun += 1
        await self.work()
        await delivery.ack()
        self.done += 1


@dataclass
class Running:
    results: SlowConsumer
    consumer: InputConsumer
    stop: asyncio.Event
    task: asyncio.Task[None]

    async def leave(self) -> float:
        """Seconds that it took."""
        started = time.monotonic()
        self.stop.set()
        await self.task
        return time.monotonic() - started


async def no_mending() -> None:
    """The queues of a bus in memory are not lost."""


async def start(bus: MemoryBus, work: Callable[[], Awaitable[object]], *, drain: float = 5.0, messages: int = 1) -> Running:
    for number in range(messages):
        await bus.publish(SUBJECT, b"{}", schema="error.v1", message_id=f"m{number}")
    results, stop = SlowConsumer(work), asyncio.Event()
    fed = InputConsumer(cast("ResultConsumer", results), stop, make_logger(), places=2, drain=drain, mend=no_mending)
    queue = await bus.consume(RESULT_CONSUMER)
    task = asyncio.create_task(fed.run([(RESULT_CONSUMER, queue)]))
    await asyncio.sleep(0.05)
    return Running(results, fed, stop, task)


async def left(bus: MemoryBus) -> list[int]:
    """How often each message that can be taken now had been delivered before."""
    queue = await bus.consume(RESULT_CONSUMER)
    found = []
    while (delivery := await queue.next(0.02)) is not None:
        found.append(delivery.attempts - 1)
    return found


async def test_what_is_in_hand_is_finished_and_nothing_more_is_taken(bus: MemoryBus) -> None:
    running = await start(bus, lambda: asyncio.sleep(0.2), messages=5)
    assert running.results.begun == 2
    assert await running.leave() < 2
    assert (running.results.begun, running.results.done) == (2, 2)
    assert await left(bus) == [0, 0, 0]


async def test_an_endless_input_is_returned_immediately_at_shutdown(bus: MemoryBus) -> None:
    """Another gatekeeper can take it immediately, without waiting for ``ack_wait``."""
    running = await start(bus, lambda: asyncio.sleep(60), drain=0.1)
    assert await running.leave() < 2
    assert running.results.done == 0
    assert await left(bus) == [1]


async def test_an_idle_process_leaves_at_once(bus: MemoryBus) -> None:
    running = await start(bus, lambda: asyncio.sleep(0), messages=0)
    assert await running.leave() < 0.5


async def test_a_submission_that_is_being_judged_is_answered_before_the_process_leaves(bus: MemoryBus) -> None:
    running = await start(bus, lambda: asyncio.sleep(0), messages=0)

    async def submit(_message: Message) -> Reply:
        await asyncio.sleep(0.2)
        return Reply(b"{}", "submit_reply.v1")

    asked = asyncio.create_task(_ask(running.consumer, submit))
    await asyncio.sleep(0.01)
    await running.leave()
    assert asked.done()
    assert (await asked).schema == "submit_reply.v1"


async def _ask(fed: InputConsumer, handler: Callable[[Message], Awaitable[Reply]]) -> Reply:
    return await fed.attend_handler(handler)(Message("gw.submit", b"{}"))


async def test_a_defect_ends_the_process(bus: MemoryBus) -> None:
    async def defect() -> None:
        raise ZeroDivisionError

    running = await start(bus, defect)
    with pytest.raises(ExceptionGroup) as ended:
        await running.task
    assert ended.value.subgroup(ZeroDivisionError) is not None


async def test_a_stuck_input_does_not_extend_its_deadline_for_ever(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its progress signals end, so that another gatekeeper receives it after ``ack_wait``."""
    monkeypatch.setattr(consumer, "LONGEST", 0.0)
    beats: list[float] = []

    class Counting:
        message = Message(SUBJECT, b"{}")
        attempts = 1

        async def in_progress(self) -> None:
            beats.append(time.monotonic())

        async def ack(self) -> None:
            """Settled."""

    results = SlowConsumer(lambda: asyncio.sleep(0.1))
    feed = InputConsumer(cast("ResultConsumer", results), asyncio.Event(), make_logger(), places=1, drain=1.0, mend=no_mending)
    await feed._handling(replace(RESULT_CONSUMER, ack_wait=0.003))(cast("Delivery", Counting()))
    assert (results.done, beats) == (1, [])
