"""Location of runs in the streams of a ledger, and the meaning of a ledger position. Pure; only the buses use it.

All other code names a run by ``gw.run.<run id>`` and a message by one number, its position. A run's partition follows from
its id: 32-bit FNV-1a modulo the number of partitions, as in the NATS server's ``partition()``. All messages of a run are
therefore in one stream, in order, and an append can require the last one, as in an unpartitioned ledger. A position is the
sequence in that stream times the number of partitions, plus the partition: with one partition, the sequence itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gatewright.bus.subjects import matches
from gatewright.bus.topology import MOST_PARTITIONS, ledger_stream, run_subject
from gatewright.errors import ConfigurationError

#: The environment variable with the number of streams of the ledger.
PARTITIONS = "GATEWRIGHT_LEDGER_PARTITIONS"
_EVERY_RUN = frozenset({run_subject("*"), run_subject(">")})
_BASIS, _PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF

#: How far a ledger was read: a position, or several, of which the last per partition applies. 0: nothing was read.
Seen = int | Iterable[int]


@dataclass(frozen=True, slots=True)
class StoredRuns:
    """The messages of a subject in one stream of the ledger: the stream, and their subject in it."""

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
                f"the ledger of this server uses {subject}, and this process is configured for {own}: {PARTITIONS} must be the "
                "number with which the ledger was begun, for every process and in the server's configuration",
                code="ledger_partitions_differ",
            )

    def partition_of(self, run_id: str) -> int:
        """Return the partition of a run."""
        found = _BASIS
        for byte in run_id.encode():
            found = (found ^ byte) * _PRIME & _MASK
        return found % self.partitions

    def stored_runs(self, subject: str) -> tuple[StoredRuns, ...]:
        """Return the streams that hold ``gw.run.<run id>`` (one) or ``gw.run.*`` (all)."""
        every = subject in _EVERY_RUN
        run_id = "*" if every else subject.removeprefix(run_subject(""))
        parts = range(self.partitions) if every else (self.partition_of(run_id),)
        streams = ((part, ledger_stream(part, self.partitions)) for part in parts)
        return tuple(StoredRuns(part, stream.name, stream.subjects[0].replace("*", run_id)) for part, stream in streams)

    def stream_at(self, place: int) -> str:
        """The stream that has the message at this place."""
        return ledger_stream(self.partition_at(place), self.partitions).name

    def place(self, partition: int, sequence: int) -> int:
        """Return the position of the message with this sequence in the partition's stream."""
        return sequence * self.partitions + partition

    def sequence(self, place: int) -> int:
        """Return a position's sequence in the stream of its partition; 0 for position 0, where no message is."""
        return place // self.partitions

    def logical_subject(self, subject: str) -> str:
        """The subject of a stored message as everybody else knows it."""
        return run_subject(subject.rpartition(".")[2])

    def last_sequences(self, places: Seen) -> tuple[int, ...]:
        """Return the last sequence among these positions, by partition."""
        found = [0] * self.partitions
        for place in (places,) if isinstance(places, int) else places:
            part = self.partition_at(place)
            found[part] = max(found[part], self.sequence(place))
        return tuple(found)

    def partition_at(self, place: int) -> int:
        """The one that has the message at this place."""
        return place % self.partitions

    def has_seen(self, places: Seen, place: int) -> bool:
        """Return whether a reader that has read up to ``places`` has read the message at ``place``."""
        return self.sequence(place) <= self.last_sequences(places)[self.partition_at(place)]


def read_partitions(text: str) -> int:
    """Return the value of the variable, 1 if it is empty. Raises ConfigurationError."""
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 4):
        raise ConfigurationError(f"{PARTITIONS}: {text[:20]!r} is no number")
    return LedgerLayout(int(text or 1)).partitions
