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
from gatewright.tasks.heartbeat import SIGNS, kept
from gatewright.telemetry.logs import Logger

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
        options = LoopOptions(self.places, MEND_PAUSE, self.drain)
        loop = ConsumerLoop(options, self.log, self._mend, beside=self._beside)
        await loop.run(
            [DeliverySource(consumer.durable, queue, self._handling(consumer)) for consumer, queue in queues], self.stop
        )

    def _beside(self) -> set[asyncio.Task[Any]]:
        return {*self.requests, *self.results.background}

    def _handling(self, consumer: Consumer) -> Callable[[Delivery], Coroutine[Any, Any, None]]:
        async def handle(delivery: Delivery) -> None:
            async with kept(delivery, every=consumer.ack_wait / SIGNS, log=self.log, longest=LONGEST):
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
