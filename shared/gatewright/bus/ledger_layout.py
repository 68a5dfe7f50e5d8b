"""Where in its streams a ledger keeps a run, and what a place in it is. Pure; the buses alone know of it.

Everybody else names a run by ``gw.run.<run id>`` and a message by one number, its place. Which partition a run lies in follows
from its id alone: FNV-1a of 32 bits, modulo the number of partitions, as the NATS server's own ``partition()`` has it. So the
messages of a run lie in one stream, in order, and an append can expect which is the last, as in a ledger of one stream. A place
is the sequence in that stream times the number of partitions, plus the partition: with one partition the sequence itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gatewright.bus.subjects import matches
from gatewright.bus.topology import MOST_PARTITIONS, ledger_stream, run_subject
from gatewright.errors import ConfigurationError

#: The variable of the environment that says in how many streams the ledger lies.
PARTITIONS = "GATEWRIGHT_LEDGER_PARTITIONS"
_EVERY_RUN = frozenset({run_subject("*"), run_subject(">")})
_BASIS, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF

#: Up to where a ledger was read: a place, or several of which the last of each partition counts. 0: nothing was read.
Seen = int | Iterable[int]


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """What one stream of the ledger holds of a subject: where, and under which subject it lies there."""

    partition: int
    stream: str
    subject: str


@dataclass(frozen=True, slots=True)
class LedgerLayout:
    """A ledger of so many partitions. Raises ConfigurationError for a number that none can have."""

    partitions: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.partitions <= MOST_PARTITIONS:
            raise ConfigurationError(f"{PARTITIONS}: a ledger lies in 1 to {MOST_PARTITIONS} streams, not in {self.partitions}")

    def check(self, subject: str) -> None:
        """Raises ConfigurationError (``ledger_partitions_differ``) for a subject that the first stream does not have."""
        own = ledger_stream(0, self.partitions).subjects[0]
        if not matches(own, subject):
            raise ConfigurationError(
                f"the ledger of this server lies under {subject}, and this process was told {own}: {PARTITIONS} has to be the "
                "number with which the ledger was begun, for every process and in the server's configuration",
                code="ledger_partitions_differ",
            )

    def partition_of(self, run_id: str) -> int:
        """Which one a run lies in."""
        found = _BASIS
        for byte in run_id.encode():
            found = (found ^ byte) * _PRIME & _MASK
        return found % self.partitions

    def stored(self, subject: str) -> tuple[StoredRuns, ...]:
        """Where what ``gw.run.<run id>`` or ``gw.run.*`` names lies: one stream for a run, all of them for every run."""
        every = subject in _EVERY_RUN
        run_id = "*" if every else subject.removeprefix(run_subject(""))
        parts = range(self.partitions) if every else (self.partition_of(run_id),)
        streams = ((part, ledger_stream(part, self.partitions)) for part in parts)
        return tuple(StoredRuns(part, stream.name, stream.subjects[0].replace("*", run_id)) for part, stream in streams)

    def stream_at(self, place: int) -> str:
        """The stream that has the message at this place."""
        return ledger_stream(self.partition_at(place), self.partitions).name

    def place(self, partition: int, sequence: int) -> int:
        """Of the message with this sequence in the partition's stream."""
        return sequence * self.partitions + partition

    def sequence(self, place: int) -> int:
        """In the stream of its partition; of place 0, where there is no message, 0."""
        return place // self.partitions

    def named(self, subject: str) -> str:
        """The subject of a stored message as everybody else knows it."""
        return run_subject(subject.rpartition(".")[2])

    def seen(self, places: Seen) -> tuple[int, ...]:
        """By partition, the last sequence among these places."""
        found = [0] * self.partitions
        for place in (places,) if isinstance(places, int) else places:
            part = self.partition_at(place)
            found[part] = max(found[part], self.sequence(place))
        return tuple(found)

    def partition_at(self, place: int) -> int:
        """The one that has the message at this place."""
        return place % self.partitions

    def has_seen(self, places: Seen, place: int) -> bool:
        """Whether who has read up to ``places`` has read the message at ``place``."""
        return self.sequence(place) <= self.seen(places)[self.partition_at(place)]


def read_partitions(text: str) -> int:
    """What the variable says: 1 where it says nothing. Raises ConfigurationError."""
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 4):
        raise ConfigurationError(f"{PARTITIONS}: {text[:20]!r} is no number")
    return LedgerLayout(int(text or 1)).partitions
