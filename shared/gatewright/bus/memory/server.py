"""The place where in-memory buses meet: what is stored, who listens, who serves, and who waits for a change."""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gatewright.bus.identities import Credential
from gatewright.bus.ledger_layout import LedgerLayout
from gatewright.bus.memory.streams import MemoryQueue, MemoryStream
from gatewright.bus.port import MESSAGE_ID_HEADER, Handler, Message
from gatewright.bus.subjects import matches
from gatewright.bus.topology import INTAKE_CONSUMER, Consumer, StreamSpec, intake_publisher, stream_of
from gatewright.clock import Clock, SystemClock, new_id
from gatewright.errors import BusError, ConfigurationError, ConflictError

_EXHAUSTED = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"


@dataclass(frozen=True, eq=False, slots=True)
class Listening:
    """A subscriber; incoming messages are put into ``inbox``."""

    pattern: str
    inbox: asyncio.Queue[Message]


@dataclass(frozen=True, eq=False, slots=True)
class Offer:
    """The endpoints of a bus, by subject; ``start`` runs a task until that bus is closed."""

    service: str
    endpoints: Mapping[str, Handler]
    start: Callable[[Coroutine[Any, Any, None]], None]
    process: str = field(default_factory=new_id)


class MemoryServer:
    """The server shared by all in-memory buses of an event loop. ``clock`` decides on redelivery, delays and the dedupe
    window.

    ``partitions``: the number of streams of the ledger.
    """

    def __init__(self, clock: Clock | None = None, partitions: int = 1) -> None:
        self.layout = LedgerLayout(partitions)
        self.clock: Clock = clock or SystemClock()
        self.artifacts: dict[str, bytes] = {}
        self.credential = Credential("memory", secrets.token_hex())
        self.listening: set[Listening] = set()
        self.offers: list[Offer] = []
        self._streams: dict[str, MemoryStream] = {}
        self._queues: dict[tuple[str, str], MemoryQueue] = {}
        self._locks: dict[str, tuple[bytes, int]] = {}
        self._revision = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def ensure(self, streams: Iterable[StreamSpec], queues: Iterable[Consumer]) -> None:
        """Create or update streams and durable consumers. Raises ConfigurationError for what JetStream would not update."""
        for wanted in streams:
            stream = self._streams.setdefault(wanted.name, MemoryStream(wanted, self.clock))
            if stream.config.retention != wanted.retention:
                raise ConfigurationError(
                    f"stream {wanted.name}: retention is {stream.config.retention!r} and must be {wanted.retention!r}"
                )
            stream.config = wanted
        for config in queues:
            queue = self._queues.setdefault(
                (config.stream, config.durable),
                MemoryQueue(config, self._streams[config.stream], self.clock, self._store_report),
            )
            queue.config = config

    def stream(self, subject: str) -> MemoryStream:
        """The stream that keeps a subject; raises BusError when it was not set up."""
        name = stream_of(subject)
        # Without identities, all publishers share one intake.
        return self.stream_named(INTAKE_CONSUMER.stream if intake_publisher(name) else name)

    def stream_named(self, name: str) -> MemoryStream:
        """A stream; raises BusError when it was not set up."""
        if name not in self._streams:
            raise BusError(f"the stream {name} does not exist")
        return self._streams[name]

    def queue(self, consumer: Consumer) -> MemoryQueue:
        """A durable consumer; raises BusError when it was not set up."""
        try:
            return self._queues[consumer.stream, consumer.durable]
        except KeyError:
            raise BusError(f"the consumer {consumer.stream}.{consumer.durable} does not exist") from None

    def send(self, message: Message) -> None:
        for one in self.listening:
            if matches(one.pattern, message.subject):
                one.inbox.put_nowait(message)

    def lock(self, key: str) -> tuple[bytes, int] | None:
        return self._locks.get(key)

    def set_lock(self, key: str, value: bytes, revision: int) -> int:
        """Compare and set; raises ConflictError."""
        current = self._locks.get(key, (b"", 0))[1]
        if current != revision:
            raise ConflictError(f"{key} has moved on: its revision is {current}, not {revision}")
        self._revision += 1
        self._locks[key] = (value, self._revision)
        return self._revision

    def _store_report(self, queue: Consumer, sequence: int, deliveries: int) -> None:
        """Store the server's report of a message that reached its last delivery, if a stream keeps such reports."""
        subject = f"{_EXHAUSTED}.{queue.stream}.{queue.durable}"
        kept = next((each for each in self._streams.values() if any(matches(p, subject) for p in each.config.subjects)), None)
        if kept is not None:
            report = {"stream": queue.stream, "consumer": queue.durable, "stream_seq": sequence, "deliveries": deliveries}
            # The server gives its reports no id.
            kept.append(subject, msgspec.json.encode(report), {MESSAGE_ID_HEADER: f"{subject}:{sequence}"}, None)
            self.wake()

    def wake(self) -> None:
        """Let everybody who waits look again: something changed, or a clock that does not run by itself was moved."""
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, seconds: float = math.inf) -> None:
        """Wait until the next ``wake``, at most ``seconds`` of real time."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if seconds == math.inf else seconds):
                    await future
        finally:
            self._waiting.discard(future)
