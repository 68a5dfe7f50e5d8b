"""A bus in simulated time: the queues of the topology with their rules, and the ledger. It lists what can be delivered.

The rules are those of the server: ids are remembered for the stream's window, a consumer delivers again after ``ack_wait`` and
``max_deliver`` times at most, the most urgent class first. Whatever a process asks may be its last act (``Line``).
"""

from __future__ import annotations

import hashlib
import pickle
import zlib
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache

from gatewright.bus import topology as t
from gatewright.bus.ledger_layout import LedgerLayout
from gatewright.bus.port import MESSAGE_ID_HEADER, SCHEMA_HEADER, Message, PublishAck
from gatewright.bus.subjects import matches
from gatewright.errors import ConflictError

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_RUN = t.run_subject("")
_WINDOWS = {stream.name: stream.dedupe_seconds for stream in t.STREAMS}
#: After so many seconds a message id is known in no stream any more.
_WIDEST = max(_WINDOWS.values())
_kept_by = cache(t.stream_of)


class ProcessDied(BaseException):
    """The process whose call this was is gone; no code of the product may catch it."""


@dataclass
class SimulatedClock:
    """Seconds since the beginning, moved by the world alone."""

    seconds: float = 0.0

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


@dataclass(slots=True)
class Queue:
    """One durable consumer of a work queue: what waits, and what is in hand with the number of its delivery."""

    config: t.Consumer
    waiting: deque[Message] = field(default_factory=deque)
    in_hand: dict[int, tuple[Message, int]] = field(default_factory=dict)
    delivered: dict[int, int] = field(default_factory=dict)

    def take(self) -> tuple[Message, int] | None:
        while self.waiting:
            message = self.waiting.popleft()
            if message.sequence not in self.delivered:
                continue  # it was taken off
            self.delivered[message.sequence] += 1
            self.in_hand[message.sequence] = (message, self.delivered[message.sequence])
            return self.in_hand[message.sequence]
        return None

    def put(self, message: Message) -> None:
        self.delivered[message.sequence] = 0
        self.waiting.append(message)

    def settle(self, sequence: int) -> None:
        self.in_hand.pop(sequence, None)
        self.delivered.pop(sequence, None)

    def again(self, sequence: int, delivery: int) -> bool:
        """After ``ack_wait``: back into the queue, unless it was settled or delivered anew."""
        held = self.in_hand.get(sequence)
        if held is None or held[1] != delivery:
            return False
        del self.in_hand[sequence]
        self.waiting.append(held[0])
        return True


class SimulatedBus:
    """What lies on the bus. ``arrived`` is called with each consumer that has something to deliver.

    ``partitions``: in how many streams the ledger lies, each with sequences and message ids of its own.
    """

    def __init__(self, clock: SimulatedClock, arrived: Callable[[t.Consumer], None], partitions: int = 1) -> None:
        self.clock = clock
        self.layout = LedgerLayout(partitions)
        self._ends = [0] * partitions
        self.queues = {queue.subject: Queue(queue) for queue in t.consumers()}
        self._found: dict[str, Queue] = {}
        self.ledger: dict[str, list[Message]] = {}
        self._shelf: dict[str, bytes] = {}
        self.published = self.repeated = self.conflicts = 0
        self._arrived = arrived
        self._sequence = 0
        self._seen: OrderedDict[tuple[str, str], tuple[int, float]] = OrderedDict()

    def queue_of(self, subject: str) -> Queue:
        found = self.queues.get(subject) or self._found.get(subject)
        if found is None:
            found = next(queue for pattern, queue in self.queues.items() if matches(pattern, subject))
            self._found[subject] = found
        return found

    def store(self, subject: str, data: bytes, headers: Mapping[str, str], expected: int | None = None) -> PublishAck:
        runs = subject.startswith(_RUN)
        part = self.layout.partition_of(subject.removeprefix(_RUN)) if runs else 0
        stream = t.LEDGER if runs else _kept_by(subject)
        if expected is not None and expected != self._last(subject):
            self.conflicts += 1
            raise ConflictError(f"{subject} has moved on")
        key, now = (f"{stream}-{part}", headers[MESSAGE_ID_HEADER]), self.clock.seconds
        known = self._seen.get(key)
        if known is not None and now - known[1] < _WINDOWS[stream]:
            self.repeated += 1
            return PublishAck(stream, known[0], duplicate=True)
        sequence = self._next(part) if runs else self._next()
        self.published += 1
        self._forget(now)
        self._seen.pop(key, None)  # ids stand in the order of their time
        self._seen[key] = (sequence, now)
        message = Message(subject, data, headers, sequence, self.clock.now().timestamp())
        if runs:
            self.entries(subject)
            self.ledger.setdefault(subject, []).append(message)
        else:
            queue = self.queue_of(subject)
            queue.put(message)
            self._arrived(queue.config)
        return PublishAck(stream, sequence, duplicate=False)

    def _next(self, part: int | None = None) -> int:
        """The sequence of a message; of one of the ledger its place there."""
        if part is None:
            self._sequence += 1
            return self._sequence
        self._ends[part] += 1
        return self.layout.place(part, self._ends[part])

    def entries(self, subject: str) -> list[Message]:
        """What the ledger holds of a run."""
        if (packed := self._shelf.pop(subject, None)) is not None:
            self.ledger[subject] = pickle.loads(zlib.decompress(packed))  # noqa: S301 - packed below
        return self.ledger.get(subject, [])

    def shelve(self, subject: str) -> None:
        """The run is over: its entries take little room until they are wanted again."""
        self._shelf[subject] = zlib.compress(pickle.dumps(self.entries(subject)), 1)
        del self.ledger[subject]

    def drop(self, subject: str) -> list[Message]:
        """The entries of a run, which the ledger holds no more."""
        entries = self.entries(subject)
        del self.ledger[subject]
        return entries

    def _last(self, subject: str) -> int:
        entries = self.entries(subject)
        return entries[-1].sequence if entries else 0

    def _forget(self, now: float) -> None:
        while self._seen and now - next(iter(self._seen.values()))[1] >= _WIDEST:
            self._seen.popitem(last=False)


class Line:
    """A gatekeeper's connection. Armed, its process dies at the given call: before it is done, or after."""

    def __init__(self, bus: SimulatedBus) -> None:
        self.bus = bus
        self.calls_left = -1
        self.after = False

    def arm(self, calls: int, *, after: bool) -> None:
        self.calls_left, self.after = calls, after

    def _before(self) -> None:
        if self.calls_left == 0 and not self.after:
            raise ProcessDied

    def _done(self) -> None:
        if self.calls_left == 0:
            raise ProcessDied
        self.calls_left -= self.calls_left > 0

    @property
    def process(self) -> str:
        return ""

    def keyed_hashes(self, text: str) -> tuple[str, ...]:
        return (hashlib.sha256(text.encode()).hexdigest(),)

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        schema: str,
        message_id: str,
        expected_subject_sequence: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PublishAck:
        self._before()
        named = {**(headers or {}), SCHEMA_HEADER: schema, MESSAGE_ID_HEADER: message_id}
        stored = self.bus.store(subject, data, named, expected_subject_sequence)
        self._done()
        return stored

    async def replay(self, subject: str, *, follow: bool = False, after: int = 0) -> AsyncGenerator[Message, None]:
        for message in tuple(self.bus.entries(subject)):
            if message.sequence > after and not follow:
                yield message

    async def unsettled(self, subject: str) -> AsyncGenerator[Message, None]:
        for pattern, queue in self.bus.queues.items():
            if matches(subject, pattern) or pattern.startswith(subject.rstrip(">*")):
                for message in (*queue.waiting, *(held for held, _ in queue.in_hand.values())):
                    if message.sequence in queue.delivered and matches(subject, message.subject):
                        yield message

    async def remove(self, stream: str, sequence: int) -> None:
        for queue in self.bus.queues.values():
            if queue.config.stream == stream:
                queue.settle(sequence)

    async def broadcast(self, subject: str, data: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        """No role listens: they finish what they have in hand, and are not heard."""
