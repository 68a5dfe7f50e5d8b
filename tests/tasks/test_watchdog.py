"""Signs of life go out while work goes on, and stop when it is stuck: then the task is somebody else's."""

from __future__ import annotations

import asyncio
import io
import time
from dataclasses import dataclass, field

import pytest

from gatewright.bus.port import Message
from gatewright.clock import SystemClock
from gatewright.contracts import TaskResult
from gatewright.contracts.vocabulary import Document
from gatewright.errors import GatewrightError
from gatewright.tasks.watchdog import TaskWatch
from gatewright.telemetry.logs import make_logger
from tests.factories import make_contract
from tests.tasks.role_at_work import ACK_WAIT, Handler, RoleAtWork, make_result
from tests.waiting import PATIENCE, until

BEAT = 0.02


@dataclass
class Delivery:
    """Counts signs of life."""

    message: Message = field(default_factory=lambda: Message("gw.task.worker.default.normal", b""))
    attempts: int = 1
    signs: int = 0

    async def ack(self) -> None: ...

    async def nak(self, delay: float = 0.0) -> None: ...

    async def term(self) -> None: ...

    async def in_progress(self) -> None:
        self.signs += 1


def watching(delivery: Delivery, limit: float, patience: float = 0.2) -> TaskWatch:
    log = make_logger(io.BytesIO())
    return TaskWatch(delivery, limit=limit, beat=BEAT, patience=patience, clock=SystemClock(), log=log)


async def test_signs_go_out_all_the_while() -> None:
    delivery = Delivery()

    async def finish_after_five() -> Document:
        await until(lambda: delivery.signs >= 5)
        return make_result(make_contract())

    watch = watching(delivery, limit=2 * PATIENCE)
    await watch.watch(finish_after_five())
    assert watch.interruption is None


async def test_stalled_work_sends_no_progress_signal() -> None:
    delivery = Delivery()
    watch = watching(delivery, limit=5 * BEAT)
    await watch.watch(asyncio.sleep(2 * PATIENCE, make_result(make_contract())))
    assert watch.interruption == "timed_out"
    sent = delivery.signs
    await asyncio.sleep(5 * BEAT)
    assert delivery.signs == sent


async def test_no_sign_goes_out_for_work_that_cannot_even_be_ended() -> None:
    """It holds on to its task for its patience at most, without a word to the server; then the process ends."""
    delivery, release = Delivery(), asyncio.Event()
    sent: list[int] = []

    async def stuck() -> Document:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                sent.append(delivery.signs)
        return make_result(make_contract())

    with pytest.raises(GatewrightError) as failed:
        await watching(delivery, limit=5 * BEAT, patience=10 * BEAT).watch(stuck())
    release.set()
    assert failed.value.reason == "handler_stuck"
    assert delivery.signs == sent[0]


async def test_no_sign_goes_out_while_the_whole_process_is_stuck() -> None:
    delivery = Delivery()
    sent: list[int] = []

    async def block() -> Document:
        await until(lambda: delivery.signs >= 2)
        sent.append(delivery.signs)
        time.sleep(20 * BEAT)  # noqa: ASYNC251 - the defect that is meant
        return make_result(make_contract())

    await watching(delivery, limit=2 * PATIENCE).watch(block())
    assert delivery.signs <= sent[0] + 1


async def test_another_process_does_the_task_of_a_silent_one() -> None:
    role = RoleAtWork()
    await role.give(make_contract())
    frozen = await (await role.bus.consume(role.consumer)).next(1)
    assert frozen is not None
    begun = time.monotonic()
    async with role.working(Handler()):
        assert isinstance(await role.result(), TaskResult)
    assert time.monotonic() - begun > 0.5 * ACK_WAIT
    await frozen.in_progress()
    await frozen.ack()
    assert len(await role.results()) == 1
