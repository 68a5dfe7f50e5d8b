"""Calls to a system that hangs, fails and recovers: who waits for it, and who does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from gatewright.errors import StoreError, UnavailableError
from gatewright.outside_calls import CallLimits, CircuitBreaker, OutsideCalls

LIMITS = CallLimits(places=2, patience=0.05, failures=2, pause=2.0, longest=8.0)


@dataclass
class System:
    """An outside system that answers once ``going`` is set, and fails while it is ``away``."""

    going: threading.Event = field(default_factory=threading.Event)
    began: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    away: bool = False
    asked: int = 0

    def ask(self, word: str) -> str:
        self.asked += 1
        self.began.release()
        self.going.wait()
        if self.away:
            raise StoreError("it is away")
        return word


@dataclass
class StillClock:
    """A clock that stands still."""

    now: float = 100.0


def calls_to(clock: StillClock, limits: CallLimits = LIMITS) -> OutsideCalls:
    def outage(error: BaseException) -> bool:
        return isinstance(error, StoreError)

    return OutsideCalls("the system", limits, UnavailableError, outage, lambda: clock.now)


def lets_through(calls: OutsideCalls) -> bool:
    return calls.closed


@pytest.fixture
async def system() -> AsyncIterator[System]:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    system = System()
    yield system
    system.going.set()


async def test_calls_that_hang_take_no_thread_of_anybody_else(system: System) -> None:
    calls = calls_to(StillClock())
    hanging = [asyncio.ensure_future(calls.call(None, system.ask, "late")) for _ in range(2)]
    for _ in range(2):
        assert await asyncio.to_thread(system.began.acquire, timeout=30)
    assert await asyncio.to_thread(lambda: "at once") == "at once"
    with pytest.raises(UnavailableError, match="2 calls are under way"):
        await calls.call(None, system.ask, "one too many")
    system.going.set()
    assert await asyncio.gather(*hanging) == ["late", "late"]
    assert await calls.call(None, system.ask, "now") == "now"


async def test_a_call_that_was_given_up_keeps_its_place_until_it_ends(system: System) -> None:
    calls = calls_to(StillClock(), CallLimits(places=1, patience=0.05, failures=9))
    with pytest.raises(UnavailableError, match="no answer within"):
        await calls.call(0.05, system.ask, "late")
    with pytest.raises(UnavailableError, match="1 calls are under way"):
        await calls.call(0.05, system.ask, "next")
    assert system.asked == 1


async def test_a_caller_that_is_cancelled_leaves_the_call_to_its_end(system: System) -> None:
    calls = calls_to(StillClock(), CallLimits(places=1, patience=30.0))
    calling = asyncio.ensure_future(calls.call(None, system.ask, "late"))
    assert await asyncio.to_thread(system.began.acquire, timeout=30)
    calling.cancel()
    await asyncio.wait({calling})
    assert calling.cancelled()
    system.going.set()
    assert await calls.call(None, system.ask, "next") == "next"


async def test_repeated_outages_suspend_calls_for_a_while(system: System) -> None:
    clock = StillClock()
    calls = calls_to(clock)
    system.going.set()
    system.away = True
    for _ in range(2):
        with pytest.raises(StoreError):
            await calls.call(None, system.ask, "a")
    with pytest.raises(UnavailableError, match="it is away; it is asked again after a pause"):
        await calls.call(None, system.ask, "b")
    assert (system.asked, calls.closed) == (2, False)
    clock.now += LIMITS.pause
    system.away = False
    assert await calls.call(None, system.ask, "c") == "c"
    assert calls.closed


async def test_an_answer_that_comes_late_has_the_system_asked_again(system: System) -> None:
    calls = calls_to(StillClock())
    for _ in range(2):
        with pytest.raises(UnavailableError, match="no answer within"):
            await calls.call(0.01, system.ask, "late")
    assert not lets_through(calls)
    system.going.set()
    while not lets_through(calls):  # noqa: ASYNC110 - its threads report it
        await asyncio.sleep(0)
    assert await calls.call(None, system.ask, "now") == "now"


def test_an_open_circuit_lets_one_call_try_and_waits_longer_each_time() -> None:
    breaker, now, pauses = CircuitBreaker(LIMITS), 0.0, []
    for _ in range(2):
        assert breaker.admit(now)
        breaker.failed("away", now)
    for _ in range(5):
        pause = 0.0
        while not breaker.admit(now + pause):
            pause += 1.0
        assert not breaker.admit(now + pause), "one tries at a time"
        pauses.append(pause)
        now += pause
        breaker.failed("away", now)
    assert pauses == [2.0, 4.0, 8.0, 8.0, 8.0]


def test_a_system_that_refuses_has_answered() -> None:
    breaker = CircuitBreaker(LIMITS)
    for _ in range(9):
        breaker.failed("away", 0.0)
        breaker.succeeded()
    assert breaker.admit(0.0)
