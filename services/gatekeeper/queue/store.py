"""The stream of merge queues: loads a queue, appends a step, follows all queues. Optimistic concurrency is the only lock."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import queue_subject
from gatewright.bus.versions import read_version, written_here
from gatewright.clock import Clock, new_id, timestamp
from gatewright.contracts import QueueTransition, codec
from gatewright.contracts.queue_receipt import QueueReceipt
from gatewright.contracts.records import QueueRecord
from gatewright.errors import MalformedError
from gatewright.queue.events import EVENTS, EntryLeft, PositionLanded, QueueEvent, evolve
from gatewright.queue.receipt import receipt
from gatewright.queue.state import Queue

_SCHEMA = codec.schema_name(QueueTransition)
#: Endings that a process remembers for each queue; older ones are read from the stream again.
_REMEMBERED = 512


@dataclass(frozen=True, slots=True)
class KnownQueue:
    """A queue after the steps of its subject up to ``sequence``; the queue is None before its first event.

    ``endings``: how each ended run left, for the latest ones; a receipt still lacks reports and objects. ``stored_at``: when
    the last step was stored, in seconds since 1970.
    """

    queue_id: str
    queue: Queue | None = None
    number: int = 0
    sequence: int = 0
    endings: Mapping[str, QueueReceipt | EntryLeft] = field(default_factory=dict)
    #: Runs that the last step ended.
    ended: tuple[str, ...] = ()
    stored_at: float = 0.0


class QueueStore:
    """Queues by id. ``writer`` is part of every message id: only one of two gatekeepers may consider a step its own."""

    def __init__(self, bus: Bus, clock: Clock, *, writer: str | None = None) -> None:
        self._bus = bus
        self._clock = clock
        self._writer = writer or new_id()[:12]

    async def load(self, queue_id: str) -> KnownQueue:
        """Read a queue from the stream.

        Raises:
            BusError: the stream cannot be read.
            MalformedError: a step cannot be read.
        """
        known = KnownQueue(queue_id)
        async with aclosing(self._bus.replay(queue_subject(queue_id))) as messages:
            async for message in messages:
                known = self.after(known, message)
        return known

    async def ending(self, queue_id: str, run_id: str) -> QueueReceipt | EntryLeft | None:
        """Read from the stream how a run left its queue; None when it did not. Raises what ``load`` raises."""
        known = KnownQueue(queue_id)
        async with aclosing(self._bus.replay(queue_subject(queue_id))) as messages:
            async for message in messages:
                known = self.after(known, message)
                if run_id in known.ended:
                    return known.endings[run_id]
        return None

    async def append(self, known: KnownQueue, events: Sequence[QueueEvent]) -> KnownQueue:
        """Store the next step.

        Raises:
            ConflictError: another step was stored first.
            BusError: the outcome is unknown.
        """
        step = QueueTransition(
            queue_id=known.queue_id,
            number=known.number + 1,
            ts=timestamp(self._clock.now()),
            events=tuple(QueueRecord(event_type=each.event_type, payload=msgspec.to_builtins(each)) for each in events),
        )
        stored = await self._bus.publish(
            queue_subject(known.queue_id),
            codec.encode(step),
            schema=_SCHEMA,
            message_id=f"{known.queue_id}:{step.number}:{self._writer}:{new_id()[:12]}",
            expected_subject_sequence=known.sequence,
            headers=written_here(),
        )
        return _advance(known, step, stored.sequence, self._clock.now().timestamp())

    async def messages(self, *, follow: bool) -> AsyncGenerator[Message, None]:
        """Yield every message of every queue; with ``follow`` then the new ones until cancelled."""
        async with aclosing(self._bus.replay(queue_subject("*"), follow=follow)) as messages:
            async for message in messages:
                yield message

    def after(self, known: KnownQueue, message: Message) -> KnownQueue:
        """Return the queue after one more message.

        Raises:
            MalformedError: it cannot be read.
            UnavailableError: a gatekeeper of another version wrote it (``other_version``).
        """
        step = read_version(message, lambda: codec.decode(message.data, QueueTransition))
        if (step.queue_id, step.number) != (known.queue_id, known.number + 1):
            raise MalformedError(f"the queue {known.queue_id} has a step that does not follow", code="bad_event")
        return _advance(known, step, message.sequence, message.stored_at)


def queue_id_in(message: Message) -> str:
    """Return the queue that a message of the stream is about."""
    return message.subject.rpartition(".")[2]


def _advance(known: KnownQueue, step: QueueTransition, sequence: int, stored_at: float) -> KnownQueue:
    queue, endings = known.queue, dict(known.endings)
    ended: list[str] = []
    for record in step.events:
        event = _event_of(record)
        if isinstance(event, PositionLanded) and queue is not None:
            endings |= dict.fromkeys(event.runs, receipt(queue, event.number))
            ended += event.runs
        elif isinstance(event, EntryLeft):
            endings[event.run_id] = event
            ended.append(event.run_id)
        queue = evolve(queue, event)
    if len(endings) > _REMEMBERED:
        endings = dict(islice(endings.items(), len(endings) - _REMEMBERED, None))
    return KnownQueue(known.queue_id, queue, step.number, sequence, endings, tuple(ended), stored_at)


def _event_of(record: QueueRecord) -> QueueEvent:
    try:
        return msgspec.convert(record.payload, EVENTS[record.event_type])
    except KeyError:
        raise MalformedError(f"unknown event type {record.event_type!r}", code="unknown_event") from None
    except msgspec.ValidationError as error:
        raise MalformedError(f"{record.event_type}: {error}", code="bad_event") from error
