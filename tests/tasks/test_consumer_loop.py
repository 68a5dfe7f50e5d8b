"""The loop of roles and gatekeeper: places, queues that fail, and what becomes of deliveries when it ends."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from gatewright.bus.port import Delivery, Message
from gatewright.errors import BusError
from gatewright.tasks.consumer_loop import ConsumerLoop, DeliverySource, LoopOptions
from gatewright.telemetry.logs import make_logger
from tests.waiting import PATIENCE

OPTIONS = LoopOptions(places=2, pause=0.001, drain=5.0)


@dataclass
class Given:
    """A delivery that remembers how it was settled."""

    message: Message = field(default_factory=lambda: Message("gw.result.worker", b""))
    attempts: int = 1
    settled: list[str] = field(default_factory=list)

    async def ack(self) -> None:
        self.settled.append("ack")

    async def nak(self, delay: float = 0.0) -> None:
        self.settled.append("nak")

    async def term(self) -> None:
        self.settled.append("term")

    async def in_progress(self) -> None: ...


@dataclass
class Lines:
    """A queue that gives what it was made of, one after the other, and nothing more then."""

    coming: list[Given | BusError]
    empty: asyncio.Event = field(default_factory=asyncio.Event)
    closed: int = 0

    async def next(self, timeout: float) -> Delivery | None:  # noqa: ASYNC109 - as the port has it
        if not self.coming:
            self.empty.set()
            await asyncio.sleep(timeout)
            return None
        if isinstance(first := self.coming.pop(0), BusError):
            raise first
        return first

    async def close(self) -> None:
        self.closed += 1


async def go_on(_error: BusError, _failures: int) -> None: ...


def make_loop(options: LoopOptions = OPTIONS, unavailable: Callable[[BusError, int], Awaitable[None]] = go_on) -> ConsumerLoop:
    return ConsumerLoop(options, make_logger(io.BytesIO()), unavailable)


async def test_a_delivery_during_shutdown_is_returned_unhandled() -> None:
    stop, given, attended = asyncio.Event(), Given(), []

    class Late(Lines):
        async def next(self, timeout: float) -> Delivery | None:  # noqa: ASYNC109 - as the port has it
            stop.set()
            return await super().next(timeout)

    async def attend(delivery: Delivery) -> None:
        attended.append(delivery)

    await make_loop().run([DeliverySource("queue", Late([given]), attend)], stop)
    assert (attended, given.settled) == ([], ["nak"])


async def test_sources_share_the_places() -> None:
    stop, in_hand, most = asyncio.Event(), 0, 0
    queues = [Lines([Given() for _ in range(4)]) for _ in range(3)]

    async def attend(delivery: Delivery) -> None:
        nonlocal in_hand, most
        in_hand += 1
        most = max(most, in_hand)
        for _ in range(3):
            await asyncio.sleep(0)
        in_hand -= 1
        await delivery.ack()
        if all(not queue.coming for queue in queues):
            stop.set()

    async with asyncio.timeout(PATIENCE):
        await make_loop().run([DeliverySource(str(number), queue, attend) for number, queue in enumerate(queues)], stop)
    assert most == OPTIONS.places


async def test_a_failing_queue_is_retried_and_failures_reset_on_success() -> None:
    stop, counted = asyncio.Event(), []
    away = BusError("away")
    queue = Lines([away, away, Given(), away, Given()])

    async def count(_error: BusError, failures: int) -> None:
        counted.append(failures)

    async def attend(delivery: Delivery) -> None:
        await delivery.ack()
        if not queue.coming:
            stop.set()

    async with asyncio.timeout(PATIENCE):
        await make_loop(unavailable=count).run([DeliverySource("queue", queue, attend)], stop)
    assert counted == [1, 2, 1]


async def test_a_final_failure_ends_the_loop_and_closes_its_queues() -> None:
    queues = [Lines([BusError("gone")]), Lines([])]

    async def give_up(error: BusError, _failures: int) -> None:
        raise error

    async def attend(_delivery: Delivery) -> None: ...

    with pytest.raises(ExceptionGroup) as ended:
        await make_loop(unavailable=give_up).run([DeliverySource("queue", queue, attend) for queue in queues], asyncio.Event())
    assert ended.value.subgroup(BusError) is not None
    assert all(queue.closed for queue in queues)


async def test_a_defect_over_one_delivery_gives_the_others_in_hand_back() -> None:
    harmless, harmful = Given(), Given(Message("gw.result.worker", b"harmful"))
    begun = asyncio.Event()

    async def attend(delivery: Delivery) -> None:
        if delivery.message.data:
            await begun.wait()
            raise ZeroDivisionError
        begun.set()
        await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as ended:
        await make_loop().run([DeliverySource("queue", Lines([harmless, harmful]), attend)], asyncio.Event())
    assert ended.value.subgroup(ZeroDivisionError) is not None
    assert harmless.settled == ["nak"]


async def test_a_new_queue_adds_capacity_and_is_read_under_load() -> None:
    stop, blocked, joined = asyncio.Event(), asyncio.Event(), []
    busy = Lines([Given() for _ in range(5)])
    late = Lines([Given()])

    async def block(delivery: Delivery) -> None:
        blocked.set()
        await stop.wait()
        await delivery.ack()

    async def attend(delivery: Delivery) -> None:
        joined.append(delivery)
        await delivery.ack()
        stop.set()

    # Of the five that lie there, the loop has places for two.
    loop = make_loop()
    assert not loop.join(DeliverySource("early", late, attend), 1)
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(loop.run([DeliverySource("busy", busy, block)], stop))
        await blocked.wait()
        assert loop.join(DeliverySource("late", late, attend), 1)
    assert len(joined) == 1
    assert (busy.closed, late.closed) == (2, 2)


async def test_a_removed_queue_is_closed_while_the_others_continue() -> None:
    stop, gone, other = asyncio.Event(), Lines([]), Lines([])

    async def attend(delivery: Delivery) -> None:
        await delivery.ack()

    loop = make_loop()
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        group.create_task(loop.run([DeliverySource("other", other, attend), DeliverySource("gone", gone, attend)], stop))
        await gone.empty.wait()
        await loop.dismiss("gone")
        assert (gone.closed, other.closed) == (1, 0)
        gone.coming.append(left := Given())
        other.empty.clear()
        stop.set()
    assert left.settled == []
