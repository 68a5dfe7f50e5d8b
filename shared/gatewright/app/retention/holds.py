"""Legal holds: bundles that must be kept, despite any policy. An append-only book beside the bundles.

The last act about a run applies. A book that cannot be read completely is not used at all: nothing may then be pruned (fail
closed). The book is on the same volume as the bundles, and so lives as long as they do.
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

#: In the home folder. No bundle has a name that begins with a dot.
BOOK: Final = "runs/.holds.jsonl"
#: Its former location: a book that is still there holds bundles, and blocks everything until it is moved.
_FORMER: Final = "holds.jsonl"
#: Errors of a read-only folder.
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
        """Return all acts, oldest first. Raises ConfigurationError (``holds_unreadable``)."""
        self._refuse_former()
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise ConfigurationError(f"{self._path} cannot be read: {error.strerror}", code="holds_unreadable") from error
        return _parse_holds(data, self._path)

    def write(self, act: LegalHold) -> None:
        """Append one act durably, after removing a line that a crash cut off.

        Raises MalformedError (``already_held``, ``not_held``), ConfigurationError (``holds_unreadable``).
        """
        with self.locked() as fd:
            data = os.pread(fd, os.fstat(fd).st_size, 0)
            whole = data[: data.rfind(b"\n") + 1]
            is_held = act.run_id in standing(_parse_holds(whole, self._path))
            if act.act == "place" and is_held:
                raise MalformedError(f"{act.run_id} is on hold already", code="already_held")
            if act.act == "release" and not is_held:
                raise MalformedError(f"{act.run_id} is not on hold", code="not_held")
            os.ftruncate(fd, len(whole))
            os.pwrite(fd, codec.encode(act) + b"\n", len(whole))
            os.fsync(fd)

    @contextmanager
    def locked(self) -> Iterator[int]:
        """Yield the book, locked exclusively: no hold can be added between a check and the resulting action."""
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


def _parse_holds(data: bytes, path: Path) -> tuple[LegalHold, ...]:
    *lines, rest = data.split(b"\n")
    if rest:
        words = f"{path}: the last line is incomplete; the next `gatewright hold` repairs it"
        raise ConfigurationError(words, code="holds_unreadable")
    try:
        return tuple(codec.decode(line, LegalHold) for line in lines)
    except MalformedError as error:
        raise ConfigurationError(f"{path}: {error.message}", code="holds_unreadable") from error
