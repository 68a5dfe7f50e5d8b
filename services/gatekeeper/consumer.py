"""Feeds the result consumer from the gatekeeper's queues, and waits for its requests when the process leaves.

It knows nothing of what the messages are about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from gatewright.bus.port import Delivery, Handler, Message, Reply, Subscription
from gatewright.bus.topology import Consumer
from gatewright.errors import BusError, GatewrightError
from gatewright.services.gatekeeper.intake.result_consumer import ResultConsumer
from gatewright.tasks.consumer_loop import ConsumerLoop, DeliverySource, LoopOptions
from gatewright.tasks.heartbeat import SIGNS, keep_alive
from gatewright.telemetry.logs import Logger

#: Seconds after which a queue that could not be read is tried again.
MEND_PAUSE = 1.0
#: Messages of one queue that joined which are in hand at a time.
JOINED_PLACES = 4
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
    requests: set[asyncio.Task[Reply]] = field(default_factory=set)
    _loop: ConsumerLoop | None = None

    def attend_handler(self, handler: Handler) -> Handler:
        """``handler``, whose requests are waited for at the end, too."""

        async def attend(message: Message) -> Reply:
            request = asyncio.ensure_future(_call(handler, message))
            self.requests.add(request)
            request.add_done_callback(self.requests.discard)
            return await request

        return attend

    async def run(self, queues: Sequence[tuple[Consumer, Subscription]]) -> None:
        """Feed until it is time to leave, then drain. A bus that is away is waited for; raises what a defect raises."""
        # Each queue waits with a place of its own, however few there are.
        options = LoopOptions(max(self.places, len(queues)), MEND_PAUSE, self.drain)
        self._loop = ConsumerLoop(options, self.log, self._mend, beside=self._beside)
        await self._loop.run([self._source(consumer, queue) for consumer, queue in queues], self.stop)

    def join(self, consumer: Consumer, queue: Subscription) -> bool:
        """Feed from one more queue; False when this consumer does not run now."""
        return self._loop is not None and self._loop.join(self._source(consumer, queue), JOINED_PLACES)

    async def dismiss(self, consumer: Consumer) -> None:
        """Feed from a queue no more."""
        if self._loop is not None:
            await self._loop.dismiss(consumer.durable)

    def _source(self, consumer: Consumer, queue: Subscription) -> DeliverySource:
        return DeliverySource(consumer.durable, queue, self._handling(consumer))

    def _beside(self) -> set[asyncio.Task[Any]]:
        return {*self.requests, *self.results.background}

    def _handling(self, consumer: Consumer) -> Callable[[Delivery], Coroutine[Any, Any, None]]:
        async def handle(delivery: Delivery) -> None:
            async with keep_alive(delivery, every=consumer.ack_wait / SIGNS, log=self.log, longest=LONGEST):
                await self.results.handle(delivery)

        return handle

    async def _mend(self, _error: BusError, _failures: int) -> None:
        """See that the queues exist: servers that all started anew may have lost them. It is tried again when that fails."""
        try:
            await self.mend()
        except GatewrightError as error:
            self.log.warning("queues_not_mended", code=error.reason, cause=error.message)


async def _call(handler: Handler, message: Message) -> Reply:
    return await handler(message)
