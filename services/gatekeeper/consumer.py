"""Input loop of the gatekeeper: feeds the result consumer from its queues and drains open requests at shutdown.

This module does not interpret messages.
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
from gatewright.tasks.watchdog import SIGNS, keep_alive
from gatewright.telemetry.logs import Logger

#: Seconds before an unreadable queue is read again.
MEND_PAUSE = 1.0
#: Maximum number of messages in progress per joined queue.
JOINED_PLACES = 4
#: Seconds after which an input in progress is no longer kept alive. Every git operation is shorter: a longer input is stuck,
#: and the bus redelivers it to another gatekeeper.
LONGEST = 1800.0


@dataclass
class InputConsumer:
    """Consumer of all queues of the gatekeeper.

    ``places`` is the maximum number of inputs in progress. ``drain`` is how many seconds they get at shutdown.
    ``repair_queues`` creates missing queues; the consumer calls it when a queue cannot be read.
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
        """Wrap ``handler`` so that shutdown also waits for its open requests."""

        async def attend(message: Message) -> Reply:
            request = asyncio.ensure_future(_call(handler, message))
            self.requests.add(request)
            request.add_done_callback(self.requests.discard)
            return await request

        return attend

    async def run(self, queues: Sequence[tuple[Consumer, Subscription]]) -> None:
        """Feed until shutdown, then drain.

        An unreachable bus is retried. Exceptions that indicate a defect propagate.
        """
        # Each queue waits on a slot of its own, even when ``places`` is smaller.
        options = LoopOptions(max(self.places, len(queues)), MEND_PAUSE, self.drain)
        self._loop = ConsumerLoop(options, self.log, self._mend, beside=self._beside)
        await self._loop.run([self._source(consumer, queue) for consumer, queue in queues], self.stop)

    def join(self, consumer: Consumer, queue: Subscription) -> bool:
        """Start to feed from one more queue.

        Returns:
            False when this consumer is not running.
        """
        return self._loop is not None and self._loop.join(self._source(consumer, queue), JOINED_PLACES)

    async def dismiss(self, consumer: Consumer) -> None:
        """Stop feeding from a queue."""
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
        """Create queues that are missing, for example after all servers restarted.

        Errors are ignored: the next failed read retries.
        """
        try:
            await self.mend()
        except GatewrightError as error:
            self.log.warning("queues_not_mended", code=error.reason, cause=error.message)


async def _call(handler: Handler, message: Message) -> Reply:
    return await handler(message)
