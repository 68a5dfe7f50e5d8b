"""The queues of publishers that come and go while the gatekeeper runs: what the server lets it read is what it reads.

The server's configuration is made from the identities, and says by what this connection may do which publishers there are. So
no list of ours can be behind it, and no gatekeeper is started anew for a publisher. It handles no message.
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

#: Seconds between two looks at which publishers there are.
LOOK = 5.0
_PATIENCE_SECONDS = 5.0


@dataclass
class PublisherQueues:
    """``inputs`` is what the queues are fed to."""

    bus: Bus
    inputs: InputConsumer
    log: Logger
    _joined: dict[str, Consumer] = field(default_factory=dict)

    @property
    def publishers(self) -> tuple[str, ...]:
        """Those whose queues are read, beside the standing ones."""
        return tuple(self._joined)

    async def keep(self, stop: asyncio.Event) -> None:
        """Look again and again until the process is told to leave; what cannot be had now is tried at the next look."""
        while isinstance(self.bus, JetStreamBus) and not stop.is_set():
            try:
                await self.look(self.bus)
            except GatewrightError as error:
                self.log.warning("publishers_unseen", code=error.reason, cause=error.message)
            await pause_unless(stop, LOOK)

    async def look(self, bus: JetStreamBus) -> None:
        """Read from the queues of the publishers that have come, and no more from those that are gone.

        Raises BusError, ConfigurationError, HostError when there is no room for the streams of a new one.
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
