"""Blocking calls to an outside system: a bundle store, a git server, an identity provider.

Each system has its own threads, limits and circuit breaker. A system that hangs delays only its own callers: its calls
never run in the default executor of asyncio, which decisions need. The threads are daemons, so a call that never returns
does not stop its process from exiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from gatewright.errors import UnavailableError

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CallLimits:
    """``places``: calls at a time; a call keeps its place until its thread ends.

    ``patience``: seconds that a caller waits for a place while no call ends. After ``failures`` outages in a row no call
    reaches the system for ``pause`` seconds. Each further outage doubles the pause, up to ``longest``.
    """

    places: int
    patience: float = 30.0
    failures: int = 3
    pause: float = 2.0
    longest: float = 30.0


class CircuitBreaker:
    """Decides whether a system that failed may be asked again. Pure; times are monotonic seconds.

    *Closed*: calls go through. *Open*, after ``failures`` outages in a row: no call goes through. *Half open*, after the pause:
    one call goes through, and its outcome closes or opens the circuit.
    """

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._failed = 0
        self._until = 0.0
        self._trying = False
        #: The last outage; empty after an answer.
        self.cause = ""

    @property
    def closed(self) -> bool:
        return self._failed < self._limits.failures

    def may_be_asked(self, now: float) -> bool:
        """Return whether a call may go through now."""
        return self.closed or (now >= self._until and not self._trying)

    def admit(self, now: float) -> bool:
        """Let one call through, which must report its outcome. False: the call must not begin."""
        if not self.may_be_asked(now):
            return False
        self._trying = not self.closed
        return True

    def succeeded(self) -> None:
        """The system answered, even if it refused."""
        self._failed, self._trying, self.cause = 0, False, ""

    def failed(self, cause: str, now: float) -> None:
        """The system was not reachable, or did not answer in time."""
        self._failed += 1
        self._trying, self.cause = False, cause
        doubled = self._limits.pause * 2.0 ** min(max(0, self._failed - self._limits.failures), 30)
        self._until = now + min(self._limits.longest, doubled)


class OutsideCalls:
    """The calls to one system; one event loop uses it.

    ``unavailable`` makes the error of a call without a free place, or without an answer in time. ``outage`` decides whether
    a call's error means that the system is away. Every other error is an answer.
    """

    def __init__(
        self,
        name: str,
        limits: CallLimits,
        unavailable: Callable[[str], UnavailableError],
        outage: Callable[[BaseException], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._limits = limits
        self._unavailable = unavailable
        self._outage = outage
        self._clock = clock
        self._places = asyncio.Semaphore(limits.places)
        self._breaker = CircuitBreaker(limits)
        #: Number of calls that have ended: a caller without a place waits as long as this grows.
        self._ended = 0

    @property
    def closed(self) -> bool:
        """Return whether calls go through, because the system answered the last ones."""
        return self._breaker.closed

    async def call(self, seconds: float | None, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run ``work`` in a thread of its own and return its result.

        Raises what ``work`` raises. Raises the ``unavailable`` error at once while the circuit is open, when no place becomes
        free, and after ``seconds`` without an answer (None: never). A call whose caller has left still runs to its end.
        """
        if not self._breaker.may_be_asked(self._clock()):
            raise self._refusal()
        await self._take_place()
        if not self._breaker.admit(self._clock()):
            self._places.release()
            raise self._refusal()
        answer = self._begin(lambda: work(*args, **kwargs))
        await asyncio.wait({answer}, timeout=seconds)
        if not answer.done():
            cause = f"{self._name}: no answer within {seconds:g} s"
            self._breaker.failed(cause, self._clock())
            raise self._unavailable(cause)
        return answer.result()

    async def _take_place(self) -> None:
        while True:
            ended = self._ended
            try:
                async with asyncio.timeout(self._limits.patience):
                    await self._places.acquire()
            except TimeoutError:
                if self._ended != ended:
                    continue  # the system answers others: this caller only waits for its turn
                limits = self._limits
                words = f"{self._name}: {limits.places} calls are under way, and none has ended for {limits.patience:g} s"
                raise self._unavailable(words) from None
            return

    def _refusal(self) -> UnavailableError:
        return self._unavailable(f"{self._breaker.cause}; it is asked again after a pause")

    def _begin(self, work: Callable[[], _T]) -> asyncio.Future[_T]:
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        answer: asyncio.Future[_T] = loop.create_future()

        def ended(result: _T | None, error: BaseException | None) -> None:
            self._ended += 1
            self._places.release()
            if error is None:
                self._breaker.succeeded()
                answer.set_result(result)  # type: ignore[arg-type] # it is work's, which may be None
                return
            if self._outage(error):
                self._breaker.failed(str(error), self._clock())
            else:
                self._breaker.succeeded()
            answer.set_exception(error)
            answer.exception()  # mark it as retrieved: the caller may have left

        def run() -> None:
            result: _T | None = None
            failure: BaseException | None = None
            try:
                result = context.run(work)
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process leaves
                loop.call_soon_threadsafe(ended, result, failure)

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return answer
