"""The queues of one role's pool as one: urgent tasks first, and no task waits forever.

A process with a free slot asks the queues one after the other, and waits for all of them only when all are empty. It handles
deliveries, not tasks.

The rules:
1. high before normal, normal before low.
2. Of 16 tasks that a process takes, one is searched in the order normal, high, low and one in the order low, high, normal. So a
   class that is always outranked still gets a sixteenth.
3. When two arrive at the same time at a waiting process, it takes the one with more deliveries, then the more urgent one; the
   other is returned at once.
4. A task that arrives a moment later, at a process that has its task, is returned soon, unless that task is done
   (``deliveries.py``).
So urgency is strict among the tasks in the queues when a process looks, but not among those published while it waits.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from gatewright.bus.port import Bus, Delivery, Subscription
from gatewright.bus.topology import Consumer
from gatewright.errors import BusError

#: Tasks after which rule 2 begins again.
ROUND = 16


def search_order(taken: int, classes: int) -> tuple[int, ...]:
    """In which order to look through ``classes`` queues, the most urgent being 0, after ``taken`` tasks. Rules 1 and 2."""
    turns = {ROUND * number // classes: number for number in range(1, classes)}
    first = turns.get(taken % ROUND, 0)
    return (first, *(number for number in range(classes) if number != first))


class ClassQueue:
    """Make it with ``open``. One task at a time calls ``next``."""

    def __init__(self, subscriptions: Sequence[Subscription]) -> None:
        self._subscriptions = subscriptions
        self._taken = 0
        self._standing = False
        self._asking: asyncio.Task[Delivery | None] | None = None

    @classmethod
    async def open(cls, bus: Bus, consumers: Sequence[Consumer]) -> ClassQueue:
        """Pull from ``consumers``, the most urgent first. Raises BusError when one of them does not exist."""
        return cls([await bus.consume(consumer) for consumer in consumers])

    async def next(self, timeout: float) -> Delivery | None:  # noqa: ASYNC109 - it bounds one wait, not the caller's work
        """The next delivery, or None when none came within ``timeout`` seconds. Raises BusError.

        When it is cancelled, what came too late is given back, by ``close`` at the latest.
        """
        delivery = None if self._standing else await self._first_delivery()
        if delivery is None:
            delivery = await self._stand(timeout)
        if delivery is not None:
            self._taken += 1
        return delivery

    async def close(self) -> None:
        """Stop, and give back what came and was not taken. Safe to call twice."""
        with contextlib.suppress(BusError):
            if self._asking is not None:
                await give_back(await self._asking)
        self._asking = None
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))

    async def _first_delivery(self) -> Delivery | None:
        """What there is in the first queue that is not empty."""
        for number in search_order(self._taken, len(self._subscriptions)):
            # Shielded: the answer to a question that was asked is a task of ours.
            self._asking = self._asking or asyncio.create_task(self._subscriptions[number].take())
            delivery = await asyncio.shield(self._asking)
            self._asking = None
            if delivery is not None:
                return delivery
        return None

    async def _stand(self, seconds: float) -> Delivery | None:
        """Wait before all queues; the requests stay open at the server until something comes."""
        self._standing = True
        waiting = [asyncio.create_task(subscription.next(seconds)) for subscription in self._subscriptions]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            arrived = await _settle_waiting(waiting)
        except asyncio.CancelledError:
            for _, delivery in await _settle_waiting(waiting):
                await give_back(delivery)
            raise
        if not arrived:
            return None
        self._standing = False
        arrived.sort(key=lambda each: (-each[1].attempts, each[0]))  # 3
        for _, surplus in arrived[1:]:
            await give_back(surplus)
        return arrived[0][1]


async def _settle_waiting(waiting: Sequence[asyncio.Task[Delivery | None]]) -> list[tuple[int, Delivery]]:
    """End what still waits; what came, with the number of its queue. Raises BusError when nothing came and one failed."""
    for task in waiting:
        task.cancel()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    arrived = [
        (number, each) for number, each in enumerate(outcomes) if each is not None and not isinstance(each, BaseException)
    ]
    failures = [each for each in outcomes if isinstance(each, Exception)]
    if failures and not arrived:
        raise failures[0]
    return arrived


async def give_back(delivery: Delivery | None) -> None:
    """Return a message at once; without an answer it comes again later."""
    if delivery is not None:
        with contextlib.suppress(BusError):  # it comes again after ack_wait
            await delivery.nak()
