"""What lies in an environment now, so that a change of it during a run is noticed: names, sizes and times, never contents.

Bytecode in ``__pycache__`` is left out, because every interpreter that uses the environment writes it. So are environments of
the system (below /usr), which every command sees anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

from gatewright.contracts.vocabulary import EnvironmentState
from gatewright.errors import ConfigurationError, DeniedError
from gatewright.sandbox.environments import Shown, environments_of

CHANGED = "environment_changed"
#: Folder of the environments that were made for baselines, in a home.
MADE = "environments"
ADVICE = "give runs an environment that nothing else changes, and run it again"
_BYTECODE = b"__pycache__"
_SYSTEM = Path("/usr")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_THREADS = 2
#: Names that a refusal lists.
_MOST_NAMED = 5


@dataclass(frozen=True)
class EnvironmentSnapshot:
    """An environment as it was once: what is known of each entry by its path below the prefix; ``others`` were seen with it."""

    prefix: Path
    device: int
    entries: Mapping[bytes, str]
    others: tuple[EnvironmentSnapshot, ...] = ()

    def document(self) -> EnvironmentState:
        """Two states of one place can be compared by their digests; states of two places cannot."""
        return self._document

    @cached_property
    def _document(self) -> EnvironmentState:
        # Asked for several times in a task; sorting and hashing ten thousands of entries takes as long as a small test.
        place = "\n".join((_boot(), str(self.device), str(self.prefix.resolve())))
        files = self._files()
        for other in self.others:
            beside = other.document()
            place += f"\n{beside.place_sha256}"
            files.update(beside.files_sha256.encode())
        place_sha256 = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()
        return EnvironmentState(prefix=str(self.prefix), place_sha256=place_sha256, files_sha256=files.hexdigest())

    @property
    def files_sha256(self) -> str:
        """Of this one alone, without those that were seen with it."""
        return self._files_sha256

    @cached_property
    def _files_sha256(self) -> str:
        return self._files().hexdigest()

    def _files(self) -> hashlib._Hash:
        files = hashlib.sha256()
        for name, facts in sorted(self.entries.items()):
            files.update(name + b"\0" + facts.encode("utf-8", "surrogateescape") + b"\0")
        return files


def see_environment(shown: Shown) -> EnvironmentSnapshot | None:
    """What lies in all that is ``shown`` now; None where there is nothing to watch. Reads folders: not for an event loop.

    Raises ConfigurationError when a prefix cannot be read.
    """
    seen = [see_folder(path) for path in environments_of(shown).watched if not path.resolve().is_relative_to(_SYSTEM)]
    return replace(seen[0], others=tuple(seen[1:])) if seen else None


def see_folder(prefix: Path) -> EnvironmentSnapshot:
    """What lies in the one folder ``prefix`` now. Raises ConfigurationError when it cannot be read."""
    top = os.fsencode(prefix.resolve())
    try:
        return EnvironmentSnapshot(prefix, os.lstat(top).st_dev, _entries(top))
    except OSError as error:
        raise ConfigurationError(f"the environment {prefix} cannot be read: {error}") from error


def refuse_changed(before: EnvironmentSnapshot | None) -> None:
    """Look again. Raises DeniedError (``environment_changed``) when an environment is not what it was."""
    for one in (before, *before.others) if before is not None else ():
        _refuse_changed(one)


def _refuse_changed(before: EnvironmentSnapshot) -> None:
    after = see_folder(before.prefix)
    if before.entries == after.entries and before.device == after.device:
        return
    both = before.entries.keys() | after.entries.keys()
    changed = sorted(name for name in both if before.entries.get(name) != after.entries.get(name))
    named = ", ".join(repr(os.fsdecode(name)) for name in changed[:_MOST_NAMED])
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    raise DeniedError(f"{before.prefix} changed while commands used it: {named}{more}; {ADVICE}", code=CHANGED)


class _Folders:
    """The folders below ``top`` that are still to be read, by several threads."""

    def __init__(self, top: bytes) -> None:
        self._top = top
        self._waiting = [b""]
        self._left = 1  # those that wait, and those that are being read
        self._failed = False
        self._changed = threading.Condition()

    def read(self) -> dict[bytes, str]:
        """What is known of the entries of those that this thread came to."""
        found: dict[bytes, str] = {}
        while (folder := self._next()) is not None:
            below: list[bytes] = []
            try:
                below = self._read_one(folder, found)
            except OSError:
                self._failed = True
                raise
            finally:
                self._done(below)
        return found

    def _next(self) -> bytes | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or not self._left or self._failed)
            return self._waiting.pop() if self._waiting and not self._failed else None

    def _done(self, below: list[bytes]) -> None:
        with self._changed:
            self._waiting += below
            self._left += len(below) - 1
            self._changed.notify_all()

    def _read_one(self, folder: bytes, found: dict[bytes, str]) -> list[bytes]:
        below = []
        # What goes away meanwhile is missing from what is seen: a difference like any other.
        with contextlib.suppress(FileNotFoundError), os.scandir(self._top + b"/" + folder) as entries:
            for entry in entries:
                name = folder + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    found[name] = _facts(entry)
                elif entry.name != _BYTECODE:
                    below.append(name + b"/")
                    found[name] = "folder"
        return below


def _entries(top: bytes) -> dict[bytes, str]:
    """Of everything below ``top``. The kernel is at work half of the time, which threads can have at once."""
    folders = _Folders(top)
    with ThreadPoolExecutor(_THREADS) as threads:
        found = [threads.submit(folders.read) for _ in range(_THREADS)]
        return {name: facts for each in found for name, facts in each.result().items()}


def _facts(entry: os.DirEntry[bytes]) -> str:
    try:
        if entry.is_symlink():
            return f"link {os.readlink(entry.path)!r}"  # noqa: PTH115 - a path in bytes
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return "gone"
    return f"{facts.st_mode:o} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns}"


@cache
def _boot() -> str:
    try:
        return _BOOT.read_text("ascii")
    except OSError:
        return os.uname().nodename
