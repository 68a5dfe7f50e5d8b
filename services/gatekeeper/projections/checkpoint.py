"""How far a gatekeeper has read the ledger, and what it keeps of it: a file in its home, so that a start reads only the rest.

The file is a row of blocks. Each has a line with the runs that were settled since the block before, as lists have them, one
with all that is kept of these, which few starts have to read, and one with the position. Each position names the digest of
everything before it; what does not fit to one (a crash in the middle of a write, a disk that forgets) is cut off, and read from
the ledger again. The ledger alone is the truth: a file that names another message than the ledger has at that position is
thrown away whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from gatewright.bus.port import Message
from gatewright.file_locks import lock_file
from gatewright.foreign_documents import JsonReader
from gatewright.services.gatekeeper.projections.entries import LedgerEntry
from gatewright.services.gatekeeper.projections.run_index import IndexedRun

#: The folder in the home of a gatekeeper.
CHECKPOINTS: Final = "ledger"
#: What the first block goes on from: a file of another format is thrown away.
_BEGINNING: Final = "gatewright.ledger_checkpoint.v2"
_POSITION: Final = b"position "
_KEPT: Final = b"kept "
#: Gatekeepers that share one home, at most; one more reads the ledger as if there were no file.
MOST: Final = 64
#: Bytes of one line, at most.
_LINE: Final = 16 * 1024 * 1024


class ReadMessage(msgspec.Struct, frozen=True):
    """A message that was read. ``message``: its SHA-256."""

    sequence: int
    message: str

    @classmethod
    def of(cls, message: Message) -> ReadMessage:
        return cls(message.sequence, digest_of(message))

    def is_at(self, message: Message | None) -> bool:
        """Whether this is the message which was there."""
        return message is not None and self.message == digest_of(message)


class LedgerPosition(ReadMessage, frozen=True, omit_defaults=True):
    """The last message that was read. ``open``: runs that were not settled then.

    ``others``: of a ledger in several streams, the last that was read of each other one.
    """

    open: tuple[str, ...] = ()
    others: tuple[ReadMessage, ...] = ()

    @property
    def ends(self) -> tuple[ReadMessage, ...]:
        """The last message of each stream of which any was read."""
        return (ReadMessage(self.sequence, self.message), *self.others)


class SettledRun(IndexedRun, frozen=True, array_like=True, gc=False, kw_only=True):
    """A run that is over and sealed, as lists have it; of one that they do not have ``publisher`` is empty.

    ``ended_at``: when the bus stored its end, in seconds since 1970. ``more``: not lists alone keep something of it.
    """

    run_id: str
    ended_at: float
    more: bool


class SettledBlock:
    """Runs that were settled one after another. ``entries``: what is kept of each, in the same order."""

    def __init__(self, runs: list[SettledRun], kept: bytes) -> None:
        self.runs = runs
        self._kept = kept

    @cached_property
    def entries(self) -> list[LedgerEntry]:
        return _ENTRIES.decode(self._kept)


def digest_of(message: Message) -> str:
    """SHA-256 of where a message was sent and what it says, in hexadecimal digits."""
    return hashlib.sha256(message.subject.encode() + b"\0" + message.data).hexdigest()


class Checkpoint:
    """One file, ours alone while the process lives. All methods block; all raise OSError."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._chain, self._whole, self.position = self._look_through()
        self._block: list[tuple[SettledRun, LedgerEntry]] = []

    @classmethod
    def in_folder(cls, folder: Path) -> Checkpoint | None:
        """The first file of the folder that no other process has; None where other processes have all of them."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(MOST):
            try:
                descriptor = lock_file(folder / f"{number}.checkpoint")
            except BlockingIOError:
                continue
            return cls(os.fdopen(descriptor, "r+b"))
        return None

    def settled(self) -> Iterator[SettledBlock]:
        """The runs that were settled at the position, in that order. Of a run that is in the file twice, both are told."""
        self._file.seek(0)
        runs: list[SettledRun] = []
        while self._file.tell() < self._whole:
            line = self._file.readline(_LINE)
            if line.startswith(_KEPT):
                yield SettledBlock(runs, line.removeprefix(_KEPT))
            elif not line.startswith(_POSITION):
                runs = _RUNS.decode(line)

    def clear(self) -> None:
        """Forget everything: the ledger is another."""
        self._file.truncate(0)
        self._chain, self._whole, self.position = _BEGINNING, 0, None
        self._block.clear()

    def add(self, run: SettledRun, entry: LedgerEntry) -> None:
        """A run is settled; it is written with the next position."""
        self._block.append((run, entry))

    def mark(self, position: LedgerPosition) -> None:
        """Write what was added, and how far the ledger has been read. What was there beyond the last position is lost."""
        told = msgspec.json.encode(position)
        runs = b""
        if self._block:
            # A line break can only stand between two words of JSON, for which a blank does as well.
            listed, kept = (msgspec.json.encode(part).replace(b"\n", b" ") for part in zip(*self._block, strict=True))
            runs = listed + b"\n" + _KEPT + kept + b"\n"
        chain = _link(self._chain, runs, told)
        line = _POSITION + chain.encode() + b" " + told + b"\n"
        self._file.truncate(self._whole)
        self._file.seek(self._whole)
        self._file.write(runs + line)
        self._file.flush()
        self._chain, self._whole, self.position = chain, self._whole + len(runs) + len(line), position
        self._block.clear()

    def close(self) -> None:
        """Another process may have the file."""
        self._file.close()

    def _look_through(self) -> tuple[str, int, LedgerPosition | None]:
        """The digest of the last whole block, where it ends, and its position."""
        chain, whole, position = _BEGINNING, 0, None
        block = hashlib.sha256(chain.encode())
        while (line := self._file.readline(_LINE)).endswith(b"\n"):
            if not line.startswith(_POSITION):
                block.update(line)
                continue
            named, _, told = line.removeprefix(_POSITION).rstrip(b"\n").partition(b" ")
            block.update(told)
            if named.decode("ascii", "replace") != block.hexdigest():
                break
            chain, whole, position = block.hexdigest(), self._file.tell(), _DECODER.decode(told)
            block = hashlib.sha256(chain.encode())
        return chain, whole, position


_DECODER = JsonReader(LedgerPosition)
_RUNS = JsonReader(list[SettledRun])
_ENTRIES = JsonReader(list[LedgerEntry])


def _link(chain: str, block: bytes, told: bytes) -> str:
    return hashlib.sha256(chain.encode() + block + told).hexdigest()
