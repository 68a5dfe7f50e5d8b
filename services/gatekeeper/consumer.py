"""Takes from the queues what the result consumer handles: so many in hand at a time, a sign of life for each, an orderly end.

When the process is told to leave, nothing more is taken. What is in hand is finished, or given back for another gatekeeper to
take at once. It knows nothing of what the messages are about.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gatewright.bus.port import Delivery, Handler, Message, Reply, Subscription
from gatewright.bus.topology import Consumer
from gatewright.errors import BusError, GatewrightError
from gatewright.services.gatekeeper.intake.result_consumer import ResultConsumer
from gatewright.telemetry.logs import Logger

#: One wait for a message.
POLL = 10.0
#: Seconds after which a queue that could not be read is tried again.
MEND_PAUSE = 1.0
#: Seconds after which an input in hand is said to be alive no more. Whatever git may take is shorter: it is stuck, and comes to
#: another gatekeeper.
LONGEST = 1800.0


@dataclass
class InputConsumer:
    """``places``: inputs in hand at a time. ``drain``: seconds that they are given when it is time to leave.

    ``mend`` makes what is missing of the queues; it is called when one cannot be read.
    """

    results: ResultConsumer
    stop: asyncio.Event
    log: Logger
    places: int
    drain: float
    mend: Callable[[], Awaitable[None]]
    inputs: set[asyncio.Task[None]] = field(default_factory=set)
    requests: set[asyncio.Task[Reply]] = field(default_factory=set)

    def attended(self, handler: Handler) -> Handler:
        """``handler``, whose requests are waited for at the end, too."""

        async def attend(message: Message) -> Reply:
            request = asyncio.ensure_future(_call(handler, message))
            self.requests.add(request)
            request.add_done_callback(self.requests.discard)
            return await request

        return attend

    async def run(self, queues: Sequence[tuple[Consumer, Subscription]]) -> None:
        """Feed until it is time to leave, then drain. A bus that is away is waited for; raises what a defect raises."""
        slots = asyncio.Semaphore(self.places)
        async with asyncio.TaskGroup() as group:
            pulls = [group.create_task(self._pull(queue, consumer, slots, group)) for consumer, queue in queues]
            await self.stop.wait()
            for pull in pulls:
                pull.cancel()
            await asyncio.wait(pulls)
            await asyncio.gather(*(queue.close() for _, queue in queues))  # what came too late for us goes back
            await self._leave()

    async def _leave(self) -> None:
        in_hand = {*self.inputs, *self.requests, *self.results.background}
        if not in_hand:
            return
        self.log.info("draining", inputs=len(in_hand), seconds=self.drain)
        _, late = await asyncio.wait(in_hand, timeout=self.drain)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)

    async def _pull(self, queue: Subscription, consumer: Consumer, slots: asyncio.Semaphore, group: asyncio.TaskGroup) -> None:
        while True:
            await slots.acquire()
            try:
                delivery = await queue.next(POLL)
            except BusError as error:
                slots.release()
                self.log.warning("queue_unavailable", queue=consumer.durable, code=error.reason, cause=error.message)
                await asyncio.sleep(MEND_PAUSE)
                await self._mend()
                continue
            if delivery is None:
                slots.release()
                continue
            held = group.create_task(_hold(delivery, consumer.ack_wait, self.results, slots))
            self.inputs.add(held)
            held.add_done_callback(self.inputs.discard)

    async def _mend(self) -> None:
        """See that the queues exist: servers that all started anew may have lost them. It is tried again when that fails."""
        try:
            await self.mend()
        except GatewrightError as error:
            self.log.warning("queues_not_mended", code=error.reason, cause=error.message)


async def _call(handler: Handler, message: Message) -> Reply:
    return await handler(message)


async def _hold(delivery: Delivery, ack_wait: float, results: ResultConsumer, slots: asyncio.Semaphore) -> None:
    """Handle one message, saying meanwhile that it is in hand; give it back when there is no more time for it."""

    async def beat() -> None:
        for _ in range(int(3 * LONGEST / ack_wait)):
            await asyncio.sleep(ack_wait / 3)
            with contextlib.suppress(BusError):
                await delivery.in_progress()

    heart = asyncio.create_task(beat())
    try:
        await results.handle(delivery)
    except asyncio.CancelledError:
        with contextlib.suppress(BusError):
            await delivery.nak()
        raise
    finally:
        heart.cancel()
        slots.release()
