"""Queues of publishers that are added or removed while the gatekeeper runs: it reads every queue that the server permits.

The server's configuration is generated from the identities, and the permissions of this connection list the publishers. So no
separate list can be outdated, and a new publisher needs no restart. It handles no message.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.rights import known_publishers
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.port import Bus
from gatewright.bus.topology import Consumer, intake_consumers
from gatewright.errors import GatewrightError
from gatewright.pause import pause_unless
from gatewright.services.gatekeeper.consumer import InputConsumer
from gatewright.telemetry.logs import Logger

#: Seconds between two checks for new publishers.
LOOK = 5.0
_PATIENCE_SECONDS = 5.0


@dataclass
class PublisherQueues:
    """Manager of publisher queues; ``inputs`` is the consumer that they feed."""

    bus: Bus
    inputs: InputConsumer
    log: Logger
    _joined: dict[str, Consumer] = field(default_factory=dict)

    @property
    def publishers(self) -> tuple[str, ...]:
        """Publishers whose queues are read, beside the standing ones."""
        return tuple(self._joined)

    async def keep(self, stop: asyncio.Event) -> None:
        """Check repeatedly until shutdown; a failed check is retried by the next one."""
        while isinstance(self.bus, JetStreamBus) and not stop.is_set():
            try:
                await self.look(self.bus)
            except GatewrightError as error:
                self.log.warning("publishers_unseen", code=error.reason, cause=error.message)
            await pause_unless(stop, LOOK)

    async def look(self, bus: JetStreamBus) -> None:
        """Start to read the queues of new publishers and stop reading those of removed ones.

        Raises:
            BusError: the server does not answer.
            ConfigurationError: the queues do not fit the configuration.
            HostError: the server has no space for the streams of a new publisher.
        """
        known = {
            publisher: queue
            for publisher in await known_publishers(bus.connection, _PATIENCE_SECONDS)
            for queue in intake_consumers((publisher,))
        }
        for publisher in self._joined.keys() - known.keys():
            await self.inputs.dismiss(self._joined.pop(publisher))
            self.log.info("publisher_gone", publisher=publisher)
        new = {publisher: queue for publisher, queue in known.items() if publisher not in self._joined}
        if new:
            await ensure_topology(bus, queues=())
        for publisher, queue in new.items():
            subscription = await bus.consume(queue)
            if not self.inputs.join(queue, subscription):
                await subscription.close()
                return
            self._joined[publisher] = queue
            self.log.info("publisher_joined", publisher=publisher, queue=queue.durable)
