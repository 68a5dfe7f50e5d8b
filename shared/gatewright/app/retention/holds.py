"""Legal holds: bundles that must be kept, whatever the policy says. An append-only book beside the bundles.

The last act about a run counts. A book that cannot be read whole is not read at all: nothing may be pruned then (fail closed).
A volume that outlives the process with the bundles outlives it with the book.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gatewright.contracts import LegalHold, codec
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.file_locks import lock_file

#: In the home folder. Nothing whose name begins with a dot is a bundle.
BOOK: Final = "runs/.holds.jsonl"
#: Where it lay before: one that is still there holds bundles, and stops everything until it is moved.
_FORMER: Final = "holds.jsonl"
#: What a folder says that may only be read.
_READ_ONLY: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class HoldBook:
    """The book of the home folder ``home``. Any number of processes may use it; one at a time does."""

    def __init__(self, home: Path) -> None:
        self._path = home / BOOK
        self._former = home / _FORMER

    def held(self) -> dict[str, LegalHold]:
        """Run id -> the act that holds its bundle. Raises ConfigurationError (``holds_unreadable``)."""
        return standing(self.acts())

    def acts(self) -> tuple[LegalHold, ...]:
        """Everything that was written, oldest first. Raises ConfigurationError (``holds_unreadable``)."""
        self._refuse_former()
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be read: {error.strerror}", code="holds_unreadable") from error
        return _parse(data, self._path)

    def write(self, act: LegalHold) -> None:
        """One more act, durable when it returns; a line that a crash cut off before is taken away first.

        Raises MalformedError (``already_held``, ``not_held``), ConfigurationError (``holds_unreadable``).
        """
        with self.locked() as fd:
            data = os.pread(fd, os.fstat(fd).st_size, 0)
            whole = data[: data.rfind(b"\n") + 1]
            is_held = act.run_id in standing(_parse(whole, self._path))
            if act.act == "place" and is_held:
                raise MalformedError(f"{act.run_id} is on hold already", code="already_held")
            if act.act == "release" and not is_held:
                raise MalformedError(f"{act.run_id} is not on hold", code="not_held")
            os.ftruncate(fd, len(whole))
            os.pwrite(fd, codec.encode(act) + b"\n", len(whole))
            os.fsync(fd)

    @contextmanager
    def locked(self) -> Iterator[int]:
        """The book, ours alone until it is left: no hold can come in between a look and what follows from it."""
        self._refuse_former()
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fd = lock_file(self._path, seconds=None)
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be opened: {error.strerror}", code="holds_unreadable") from error
        try:
            yield fd
        finally:
            os.close(fd)

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """While it is open no act is written; any number may have it open, also those who may only read the bundles.

        Where no act was ever written, and the book cannot be made, the very first one is not kept out.
        """
        self._refuse_former()
        try:
            fd = self._lock_to_read()
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be opened: {error.strerror}", code="holds_unreadable") from error
        try:
            yield
        finally:
            if fd is not None:
                os.close(fd)

    def _lock_to_read(self) -> int | None:
        with suppress(FileNotFoundError):
            return lock_file(self._path, shared=True, reading=True, seconds=None)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            return lock_file(self._path, shared=True, seconds=None)
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            return None

    def _refuse_former(self) -> None:
        if os.path.lexists(self._former):
            words = f"{self._former}: the book of holds lies beside the bundles: move it to {self._path}"
            raise ConfigurationError(words, code="holds_unreadable")


def standing(acts: tuple[LegalHold, ...]) -> dict[str, LegalHold]:
    """Run id -> the act that holds it now."""
    last = {act.run_id: act for act in acts}
    return {run_id: act for run_id, act in last.items() if act.act == "place"}


def _parse(data: bytes, path: Path) -> tuple[LegalHold, ...]:
    *lines, rest = data.split(b"\n")
    if rest:
        words = f"{path}: the last line is not whole; the next `gatewright hold` mends it"
        raise ConfigurationError(words, code="holds_unreadable")
    try:
        return tuple(codec.decode(line, LegalHold) for line in lines)
    except MalformedError as error:
        raise ConfigurationError(f"{path}: {error.message}", code="holds_unreadable") from error
