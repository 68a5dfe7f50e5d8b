"""How far a gatekeeper has read the ledger, and what it keeps of it: a file in its home, so that a start reads only the rest.

The file is a row of blocks: a line for each run that was settled since the block before, then a line with the position. Each
position names the digest of everything before it; what does not fit to one (a crash in the middle of a write, a disk that
forgets) is cut off, and read from the ledger again. The ledger alone is the truth: a file that names another message than the
ledger has at that position is thrown away whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from gatewright.bus.port import Message
from gatewright.file_locks import lock_file
from gatewright.services.gatekeeper.projections.entries import LedgerEntry

#: The folder in the home of a gatekeeper.
CHECKPOINTS: Final = "ledger"
#: What the first block goes on from: a file of another format is thrown away.
_BEGINNING: Final = "gatewright.ledger_checkpoint.v1"
_POSITION: Final = b"position "
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


def digest_of(message: Message) -> str:
    """SHA-256 of where a message was sent and what it says, in hexadecimal digits."""
    return hashlib.sha256(message.subject.encode() + b"\0" + message.data).hexdigest()


class Checkpoint:
    """One file, ours alone while the process lives. All methods block; all raise OSError."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._chain, self._whole, self.position = self._look_through()
        self._block = bytearray()

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

    def settled(self) -> Iterator[LedgerEntry]:
        """The runs that were settled at the position, in that order. Of a run that is in the file twice, both are told."""
        self._file.seek(0)
        block: list[bytes] = []
        while self._file.tell() < self._whole:
            line = self._file.readline(_LINE)
            if not line.startswith(_POSITION):
                block.append(line)
                continue
            # Together they are read in three quarters of the time.
            yield from _ENTRIES.decode(b"[" + b",".join(block) + b"]")
            block.clear()

    def clear(self) -> None:
        """Forget everything: the ledger is another."""
        self._file.truncate(0)
        self._chain, self._whole, self.position = _BEGINNING, 0, None
        self._block.clear()

    def add(self, entry: LedgerEntry) -> None:
        """A run is settled; it is written with the next position."""
        # A line break can only stand between two words of JSON, for which a blank does as well.
        self._block += msgspec.json.encode(entry).replace(b"\n", b" ") + b"\n"

    def mark(self, position: LedgerPosition) -> None:
        """Write what was added, and how far the ledger has been read. What was there beyond the last position is lost."""
        told = msgspec.json.encode(position)
        chain = _link(self._chain, bytes(self._block), told)
        line = _POSITION + chain.encode() + b" " + told + b"\n"
        self._file.truncate(self._whole)
        self._file.seek(self._whole)
        self._file.write(self._block + line)
        self._file.flush()
        self._chain, self._whole, self.position = chain, self._whole + len(self._block) + len(line), position
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


_DECODER = msgspec.json.Decoder(LedgerPosition)
_ENTRIES = msgspec.json.Decoder(list[LedgerEntry])


def _link(chain: str, block: bytes, told: bytes) -> str:
    return hashlib.sha256(chain.encode() + block + told).hexdigest()
