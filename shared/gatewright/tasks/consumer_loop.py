"""The common loop of all consumers of work queues: limited concurrency, and an orderly shutdown.

It pulls when a slot is free, has every delivery handled, retries an unreadable queue, and stops at shutdown: then nothing more
is pulled, and deliveries in progress are finished or returned. The differences between roles and gatekeeper are parameters
(docs/adr/0018). It does not interpret messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gatewright.bus.port import Delivery
from gatewright.errors import BusError
from gatewright.tasks.priority_queue import give_back
from gatewright.telemetry.logs import Logger

#: Maximum seconds of one wait for a message; shutdown ends it at once.
POLL = 10.0


class Queue(Protocol):
    """What deliveries are pulled from."""

    async def next(self, timeout: float) -> Delivery | None:  # noqa: ASYNC109 - it bounds one poll, not the caller's work
        """The next delivery, or None when none came in time. Raises BusError.

        When it is cancelled, what came too late is given back, by ``close`` at the latest.
        """

    async def close(self) -> None:
        """Stop, and give back what came and was not taken. Safe to call twice."""


@dataclass(frozen=True, slots=True)
class DeliverySource:
    """A queue, its name in the log, and what settles each of its deliveries; what that raises ends the loop."""

    name: str
    queue: Queue
    attend: Callable[[Delivery], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """``places``: deliveries in progress, over all sources.

    ``pause``: seconds before a failed queue is retried. ``drain``: seconds for deliveries in progress at shutdown.
    """

    places: int
    pause: float
    drain: float


class Unavailable(Protocol):
    """Called after ``pause``, with the failure of a queue and its number of consecutive failures.

    It may repair the queue; an exception ends the loop.
    """

    def __call__(self, error: BusError, failures: int, /) -> Awaitable[None]: ...


def cancel(late: Collection[asyncio.Task[Any]]) -> None:
    for task in late:
        task.cancel()


@dataclass
class ConsumerLoop:
    """``beside``: what else is waited for at the end. ``release`` ends what was not finished in ``drain``."""

    options: LoopOptions
    log: Logger
    unavailable: Unavailable
    beside: Callable[[], Collection[asyncio.Task[Any]]] = tuple
    release: Callable[[Collection[asyncio.Task[Any]]], None] = cancel
    _in_hand: set[asyncio.Task[None]] = field(default_factory=set)
    _pulls: list[tuple[DeliverySource, asyncio.Task[None]]] = field(default_factory=list)
    _begin: Callable[[DeliverySource, asyncio.Semaphore], asyncio.Task[None]] | None = None

    async def run(self, sources: Sequence[DeliverySource], stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then drain. Raises a group of what attending or ``unavailable`` raised."""
        shared = asyncio.Semaphore(self.options.places)
        try:
            async with asyncio.TaskGroup() as group:
                self._begin = lambda source, free: group.create_task(self._pull(source, free, group, stop))
                self._pulls += [(source, self._begin(source, shared)) for source in sources]
                await stop.wait()
                self._begin = None
                pulls = [pull for _, pull in self._pulls]
                cancel(pulls)
                await asyncio.wait(pulls)
                await self._close()  # what came too late for us goes back
                await self._leave()
        finally:
            self._begin = None
            await self._close()

    def join(self, source: DeliverySource, places: int) -> bool:
        """Serve one more queue while ``run`` does; False when it does not.

        It brings places of its own: however much the other queues have, and however many there are, it waits for none of them.
        """
        if self._begin is None:
            return False
        self._pulls.append((source, self._begin(source, asyncio.Semaphore(places))))
        return True

    async def dismiss(self, name: str) -> None:
        """Stop serving a queue of this name; its deliveries in progress are finished."""
        gone = [each for each in self._pulls if each[0].name == name]
        self._pulls = [each for each in self._pulls if each not in gone]
        for source, pull in gone:
            pull.cancel()
            await asyncio.wait([pull])
            await source.queue.close()

    async def _close(self) -> None:
        await asyncio.gather(*(source.queue.close() for source, _ in self._pulls))

    async def _pull(
        self, source: DeliverySource, free: asyncio.Semaphore, group: asyncio.TaskGroup, stop: asyncio.Event
    ) -> None:
        failures = 0
        while True:
            await free.acquire()
            try:
                delivery = await source.queue.next(POLL)
            except BusError as error:
                free.release()
                failures += 1
                self.log.warning("queue_unavailable", queue=source.name, code=error.reason, cause=error.message)
                await asyncio.sleep(self.options.pause)
                await self.unavailable(error, failures)
                continue
            failures = 0
            if delivery is None or stop.is_set():
                free.release()
                await give_back(delivery)
                continue
            held = group.create_task(_attend(source, delivery, free))
            self._in_hand.add(held)
            held.add_done_callback(self._in_hand.discard)

    async def _leave(self) -> None:
        in_hand = {*self._in_hand, *self.beside()}
        if not in_hand:
            return
        self.log.info("draining", in_hand=len(in_hand), seconds=self.options.drain)
        _, late = await asyncio.wait(in_hand, timeout=self.options.drain)
        self.release(late)
        if late:
            await asyncio.wait(late)


async def _attend(source: DeliverySource, delivery: Delivery, free: asyncio.Semaphore) -> None:
    try:
        await source.attend(delivery)
    except asyncio.CancelledError:
        await give_back(delivery)  # it is not to wait for ack_wait; where it was settled before, this does nothing
        raise
    finally:
        free.release()
