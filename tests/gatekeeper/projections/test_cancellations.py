"""Notices of runs that have ended before their work was done: whom they name, how long, and that they go on."""

from __future__ import annotations

import asyncio

from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Message
from gatewright.bus.topology import CANCEL_SUBJECT
from gatewright.clock import SystemClock
from gatewright.contracts import AbortRequest
from gatewright.services.gatekeeper.decider.inputs import AbortReceived
from gatewright.services.gatekeeper.projections.cancellations import LASTING, RECENT, CancellationBroadcaster
from gatewright.tasks.protocol import read_cancel_notice
from tests.gatekeeper.entries import make_entry
from tests.gatekeeper.simulated_run import RUN_ID, Script, SimulatedRun

ABORT = AbortReceived(AbortRequest(run_id=RUN_ID, reason="enough", requested_by="tests"), "abort")


def aborted() -> SimulatedRun:
    simulated = SimulatedRun(Script())
    simulated.deliver(simulated.under_way.pop(0))
    simulated.deliver(ABORT)
    assert simulated.run is not None
    assert simulated.run.status == "ABORTED"
    return simulated


def noted(simulated: SimulatedRun, age: float = 0.0) -> CancellationBroadcaster:
    notices = CancellationBroadcaster()
    for transition in simulated.transitions:
        notices.saw(make_entry(transition), 1000.0, age)
    return notices


def test_an_aborted_run_is_named_often_then_seldom_then_not_at_all() -> None:
    notices = noted(aborted())
    assert notices.to_name(1000.0 + RECENT, all_of_them=False) == (RUN_ID,)
    assert notices.to_name(1001.0 + RECENT, all_of_them=False) == ()
    assert notices.to_name(1001.0 + RECENT, all_of_them=True) == (RUN_ID,)
    assert notices.to_name(1001.0 + LASTING, all_of_them=True) == ()


def test_a_run_that_goes_on_or_succeeded_is_not_named() -> None:
    simulated = SimulatedRun(Script())
    while simulated.under_way:
        assert noted(simulated).to_name(1000.0, all_of_them=True) == ()
        simulated.deliver(simulated.under_way.pop(0))
    assert simulated.run is not None
    assert simulated.run.status == "SUCCESS"
    assert noted(simulated).to_name(1000.0, all_of_them=True) == ()


def test_a_gatekeeper_that_was_started_since_names_the_run_too() -> None:
    notices = noted(aborted(), age=LASTING - 1)
    assert notices.to_name(1000.0, all_of_them=True) == (RUN_ID,)
    assert notices.to_name(1002.0, all_of_them=True) == ()
    assert noted(aborted(), age=LASTING + 1).to_name(1000.0, all_of_them=True) == ()


async def test_notices_are_repeated() -> None:
    bus, stop, heard = MemoryBus(MemoryServer()), asyncio.Event(), list[tuple[str, ...]]()

    async def hear(message: Message) -> None:
        heard.append(read_cancel_notice(message.data))

    clock, notices = SystemClock(), CancellationBroadcaster()
    for transition in aborted().transitions:
        notices.saw(make_entry(transition), clock.monotonic())
    await bus.listen(CANCEL_SUBJECT, hear)
    keeping = asyncio.create_task(notices.keep(bus, clock, stop))
    await asyncio.sleep(1.2)
    stop.set()
    await keeping
    assert len(heard) >= 2
    assert set(heard) == {(RUN_ID,)}
    await bus.close()
