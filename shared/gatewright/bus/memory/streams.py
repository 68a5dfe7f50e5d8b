"""Streams and work queues of the in-memory bus, by JetStream's rules. Nothing here waits or is async.

The clock is passed in: redelivery after ``ack_wait``, the delay of a nak and the dedupe window are decided at each access.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gatewright.bus.port import MESSAGE_ID_HEADER, Message, PublishAck
from gatewright.bus.subjects import matches
from gatewright.bus.topology import Consumer, StreamSpec
from gatewright.clock import Clock
from gatewright.errors import ConflictError


class MemoryStream:
    """Messages by sequence; a work queue loses a message when it is settled."""

    def __init__(self, config: StreamSpec, clock: Clock) -> None:
        self.config = config
        self._clock = clock
        self._messages: dict[int, Message] = {}
        self._last_sequence = 0
        self._of_subject: dict[str, dict[int, None]] = {}
        self._seen: dict[str, tuple[int, float]] = {}

    def append(self, subject: str, data: bytes, headers: dict[str, str], expected: int | None) -> PublishAck:
        """Store a message, once per message id. As in JetStream the expected sequence is looked at before the id."""
        now = self._clock.monotonic()
        message_id = headers[MESSAGE_ID_HEADER]
        last = self._last_of(subject)
        seen = self._seen.get(message_id)
        if seen is not None and now - seen[1] >= self.config.dedupe_seconds:
            seen = None
        if expected is not None and (expected != last or seen is not None):
            stored = self._messages.get(last)
            if stored is not None and stored.headers[MESSAGE_ID_HEADER] == message_id and stored.data == data:
                return PublishAck(self.config.name, last, duplicate=True)
            raise ConflictError(f"{subject} has moved on: its last message is {last}, not {expected}")
        if seen is not None:
            return PublishAck(self.config.name, seen[0], duplicate=True)
        self._last_sequence += 1
        sequence = self._last_sequence
        self._messages[sequence] = Message(subject, data, headers, sequence, self._clock.now().timestamp())
        self._of_subject.setdefault(subject, {})[sequence] = None
        self._remember(message_id, sequence, now)
        return PublishAck(self.config.name, sequence, duplicate=False)

    def after(self, sequence: int, pattern: str) -> Iterator[Message]:
        """Stored messages later than ``sequence`` that ``pattern`` covers."""
        for number in range(sequence + 1, self._last_sequence + 1):
            message = self._messages.get(number)
            if message is not None and matches(pattern, message.subject):
                yield message

    def get(self, sequence: int) -> Message | None:
        return self._messages.get(sequence)

    @property
    def last_sequence(self) -> int:
        return self._last_sequence

    def settle(self, sequence: int) -> None:
        """A message was done with: a work queue drops it."""
        if self.config.retention == "workqueue" and sequence in self._messages:
            message = self._messages.pop(sequence)
            del self._of_subject[message.subject][sequence]

    def _last_of(self, subject: str) -> int:
        return next(reversed(self._of_subject.get(subject, {})), 0)

    def _remember(self, message_id: str, sequence: int, now: float) -> None:
        for old, (_, when) in tuple(self._seen.items()):
            if now - when < self.config.dedupe_seconds:
                break  # ids are in order of their time
            del self._seen[old]
        self._seen.pop(message_id, None)
        self._seen[message_id] = (sequence, now)


@dataclass(slots=True)
class _Pending:
    """A message that was handed out: how often, and when it may be handed out again."""

    attempts: int
    due: float


class MemoryQueue:
    """A durable consumer over a stream."""

    def __init__(
        self, config: Consumer, stream: MemoryStream, clock: Clock, exhausted: Callable[[Consumer, int, int], None]
    ) -> None:
        """Create a queue; ``exhausted`` is called with queue, sequence and delivery count of an exhausted message."""
        self.config = config
        self._exhausted = exhausted
        self.stream = stream
        self._clock = clock
        self._position = 0
        self._pending: dict[int, _Pending] = {}

    def take(self) -> tuple[Message, int] | None:
        """A message to be handled now, with the number of this delivery; None when there is none."""
        now = self._clock.monotonic()
        for sequence, pending in tuple(self._pending.items()):
            if pending.due > now:
                continue
            message = self.stream.get(sequence)
            if message is None or 0 < self.config.max_deliver <= pending.attempts:
                del self._pending[sequence]
                if message is not None:
                    self._exhausted(self.config, sequence, pending.attempts)
            else:
                return self._hand_out(message, pending.attempts + 1, now)
        if len(self._pending) >= self.config.max_ack_pending:
            return None
        for message in self.stream.after(self._position, self.config.subject):
            self._position = message.sequence
            return self._hand_out(message, 1, now)
        self._position = self.stream.last_sequence
        return None

    def next_due(self) -> float:
        """Return the clock time at which an unsettled message may be delivered again."""
        return min((pending.due for pending in self._pending.values()), default=math.inf)

    def settle(self, sequence: int) -> None:
        self._pending.pop(sequence, None)
        self.stream.settle(sequence)

    def postpone(self, sequence: int, seconds: float) -> None:
        """Deliver the message again after ``seconds``, unless it has been settled."""
        if sequence in self._pending:
            self._pending[sequence].due = self._clock.monotonic() + seconds

    def _hand_out(self, message: Message, attempts: int, now: float) -> tuple[Message, int]:
        self._pending[message.sequence] = _Pending(attempts, now + self.config.ack_wait)
        return message, attempts
