"""Checkpoint file of the ledger projections in the gatekeeper's home, so that a start reads only newer messages.

The file is a sequence of blocks. Each block has a line with the runs settled since the previous block, as lists show them, a
line with all other kept data of these runs, which few starts need, and a line with the position. Each position contains the
digest of everything before it. What does not match (a crash during a write, a faulty disk) is cut off and read from the ledger
again. The ledger is authoritative: a file that names another message than the ledger has at that position is discarded.
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

#: Folder in the gatekeeper's home.
CHECKPOINTS: Final = "ledger"
#: Start value of the digest chain: a file of another format is discarded.
_BEGINNING: Final = "gatewright.ledger_checkpoint.v3"
_POSITION: Final = b"position "
_KEPT: Final = b"kept "
#: Maximum number of gatekeepers that share one home; a further one reads the ledger without a file.
MOST: Final = 64
#: Maximum bytes of a line.
_LINE: Final = 16 * 1024 * 1024


class ReadMessage(msgspec.Struct, frozen=True):
    """A message that was read. ``message``: its SHA-256."""

    sequence: int
    message: str

    @classmethod
    def of(cls, message: Message) -> ReadMessage:
        return cls(message.sequence, digest_of(message))

    def is_at(self, message: Message | None) -> bool:
        """Return whether ``message`` is the recorded one."""
        return message is not None and self.message == digest_of(message)


class LedgerPosition(ReadMessage, frozen=True, omit_defaults=True):
    """Position of the last message read. ``open``: runs that were not settled then.

    ``others``: the last message read of each other stream, for a ledger in several streams.
    """

    open: tuple[str, ...] = ()
    others: tuple[ReadMessage, ...] = ()

    @property
    def ends(self) -> tuple[ReadMessage, ...]:
        """The last message read of each stream."""
        return (ReadMessage(self.sequence, self.message), *self.others)


class SettledRun(IndexedRun, frozen=True, array_like=True, gc=False, kw_only=True):
    """A sealed run as lists show it; ``publisher`` is empty for a run that lists omit.

    ``ended_at``: when the bus stored its end, in seconds since 1970. ``more``: other projections also keep data of it.
    """

    run_id: str
    ended_at: float
    more: bool


class SettledBlock:
    """Runs in order of settlement. ``entries``: the kept data of each, in the same order."""

    def __init__(self, runs: list[SettledRun], kept: bytes) -> None:
        self.runs = runs
        self._kept = kept

    @cached_property
    def entries(self) -> list[LedgerEntry]:
        return _ENTRIES.decode(self._kept)


def digest_of(message: Message) -> str:
    """Return the SHA-256 of a message's subject and data, in hexadecimal digits."""
    return hashlib.sha256(message.subject.encode() + b"\0" + message.data).hexdigest()


class Checkpoint:
    """One file, exclusive to this process while it lives. All methods block; all raise OSError."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._chain, self._whole, self.position = self._look_through()
        self._block: list[tuple[SettledRun, LedgerEntry]] = []

    @classmethod
    def in_folder(cls, folder: Path) -> Checkpoint | None:
        """Open the first file of the folder that no other process uses; None when all are used."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(MOST):
            try:
                descriptor = lock_file(folder / f"{number}.checkpoint")
            except BlockingIOError:
                continue
            return cls(os.fdopen(descriptor, "r+b"))
        return None

    def settled(self) -> Iterator[SettledBlock]:
        """Yield the runs settled at the position, in order. A run that is in the file twice is yielded twice."""
        self._file.seek(0)
        runs: list[SettledRun] = []
        while self._file.tell() < self._whole:
            line = self._file.readline(_LINE)
            if line.startswith(_KEPT):
                yield SettledBlock(runs, line.removeprefix(_KEPT))
            elif not line.startswith(_POSITION):
                runs = _RUNS.decode(line)

    def clear(self) -> None:
        """Discard everything, because the ledger is another one."""
        self._file.truncate(0)
        self._chain, self._whole, self.position = _BEGINNING, 0, None
        self._block.clear()

    def add(self, run: SettledRun, entry: LedgerEntry) -> None:
        """Add a settled run; the next position writes it."""
        self._block.append((run, entry))

    def mark(self, position: LedgerPosition) -> None:
        """Write the added runs and the position. Data beyond the previous position is overwritten."""
        encoded = msgspec.json.encode(position)
        runs = b""
        if self._block:
            # A line break can only stand between two tokens of JSON, where a blank is equivalent.
            listed, kept = (msgspec.json.encode(part).replace(b"\n", b" ") for part in zip(*self._block, strict=True))
            runs = listed + b"\n" + _KEPT + kept + b"\n"
        chain = _link(self._chain, runs, encoded)
        line = _POSITION + chain.encode() + b" " + encoded + b"\n"
        self._file.truncate(self._whole)
        self._file.seek(self._whole)
        self._file.write(runs + line)
        self._file.flush()
        self._chain, self._whole, self.position = chain, self._whole + len(runs) + len(line), position
        self._block.clear()

    def close(self) -> None:
        """Release the file for other processes."""
        self._file.close()

    def _look_through(self) -> tuple[str, int, LedgerPosition | None]:
        """Return the digest of the last complete block, its end, and its position."""
        chain, whole, position = _BEGINNING, 0, None
        block = hashlib.sha256(chain.encode())
        while (line := self._file.readline(_LINE)).endswith(b"\n"):
            if not line.startswith(_POSITION):
                block.update(line)
                continue
            named, _, encoded = line.removeprefix(_POSITION).rstrip(b"\n").partition(b" ")
            block.update(encoded)
            if named.decode("ascii", "replace") != block.hexdigest():
                break
            chain, whole, position = block.hexdigest(), self._file.tell(), _DECODER.decode(encoded)
            block = hashlib.sha256(chain.encode())
        return chain, whole, position


_DECODER = JsonReader(LedgerPosition)
_RUNS = JsonReader(list[SettledRun])
_ENTRIES = JsonReader(list[LedgerEntry])


def _link(chain: str, block: bytes, position: bytes) -> str:
    return hashlib.sha256(chain.encode() + block + position).hexdigest()
