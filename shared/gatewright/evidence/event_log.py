"""``events.jsonl`` during a run: append-only, flushed and fsynced, and repaired after a crash.

It is always a valid prefix of the run's events; the seal completes it. Events are not interpreted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gatewright.contracts import OrchestratorEvent, codec
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence.disk import Disk
from gatewright.ledger import chain
from gatewright.run.state import GENESIS


@dataclass(frozen=True, slots=True)
class LogTail:
    """Content of a log: the hashes of its events in order, and their size in bytes. Later bytes are an incomplete write."""

    hashes: tuple[str, ...] = ()
    size: int = 0

    @property
    def head(self) -> str:
        return self.hashes[-1] if self.hashes else GENESIS


def line(record: OrchestratorEvent) -> bytes:
    """Return one event as a line of the file."""
    return codec.encode(record) + b"\n"


def read(path: Path) -> LogTail:
    """Return the valid prefix of the log: complete lines with an unbroken chain.

    A missing file gives an empty log.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return LogTail()
    hashes: list[str] = []
    size, head = 0, GENESIS
    while (end := data.find(b"\n", size)) >= 0:
        try:
            record = codec.decode(data[size:end], OrchestratorEvent)
            _, head = chain.check([record], seq=len(hashes), head=head)
        except (MalformedError, VerificationError):
            break
        hashes.append(head)
        size = end + 1
    return LogTail(tuple(hashes), size)


def append(path: Path, tail: LogTail, records: Sequence[OrchestratorEvent], disk: Disk) -> LogTail:
    """Append the ``records`` that the log lacks.

    A log of other events is replaced if ``records`` contain the first event. Records with a gap to the log are left to the
    seal.

    Returns:
        The content of the log afterwards.

    Raises:
        OSError: the file cannot be written.
    """
    if not _agree(tail, records):
        if records[0].seq != 1:
            return tail
        tail = LogTail()
    fresh = records[_known_length(tail, records) :]
    if not fresh or fresh[0].seq != len(tail.hashes) + 1 or fresh[0].prev_hash != tail.head:
        return tail
    data = b"".join(line(record) for record in fresh)
    disk.append(path, data, tail.size)
    return LogTail((*tail.hashes, *(record.hash for record in fresh)), tail.size + len(data))


def _known_length(tail: LogTail, records: Sequence[OrchestratorEvent]) -> int:
    return sum(1 for record in records if record.seq <= len(tail.hashes))


def _agree(tail: LogTail, records: Sequence[OrchestratorEvent]) -> bool:
    return all(tail.hashes[record.seq - 1] == record.hash for record in records[: _known_length(tail, records)])
