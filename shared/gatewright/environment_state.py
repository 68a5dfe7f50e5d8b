"""The content of an environment, so that a change during a run is noticed: names, sizes and times, never contents.

Bytecode in ``__pycache__`` is left out, because every interpreter that uses the environment writes it. So are environments
of the system (below /usr), which every command sees anyway.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
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
_BYTECODE = "__pycache__"
_SYSTEM = Path("/usr")
_BOOT = Path("/proc/sys/kernel/random/boot_id")
#: Names that a refusal lists.
_MOST_NAMED = 5
#: A file's mode, inode, size in bytes and change time in nanoseconds; a description of other entries.
Facts = tuple[int, int, int, int] | str


@dataclass(frozen=True)
class EnvironmentSnapshot:
    """An environment as it was once: what is known of each entry by its path below the prefix; ``others`` were seen with it."""

    prefix: Path
    device: int
    entries: Mapping[str, Facts]
    others: tuple[EnvironmentSnapshot, ...] = ()

    def document(self) -> EnvironmentState:
        """Two states of one place can be compared by their digests; states of two places cannot."""
        return self._document

    @cached_property
    def _document(self) -> EnvironmentState:
        # Cached because a task uses it several times; sorting and hashing ten thousands of entries takes as long as a small
        # test.
        place = "\n".join((_boot(), str(self.device), str(self.prefix.resolve())))
        files = self._files_hash()
        for other in self.others:
            beside = other.document()
            place += f"\n{beside.place_sha256}"
            files.update(beside.files_sha256.encode())
        place_sha256 = hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()
        return EnvironmentState(prefix=str(self.prefix), place_sha256=place_sha256, files_sha256=files.hexdigest())

    @property
    def files_sha256(self) -> str:
        """Return the digest of this folder alone, without those seen with it."""
        return self._files_sha256

    @cached_property
    def _files_sha256(self) -> str:
        return self._files_hash().hexdigest()

    def _files_hash(self) -> hashlib._Hash:
        # Names are unique: facts are never compared.
        words = "".join(f"{name}\0{_describe_facts(facts)}\0" for name, facts in sorted(self.entries.items()))
        return hashlib.sha256(words.encode("utf-8", "surrogateescape"))


def see_environment(shown: Shown) -> EnvironmentSnapshot | None:
    """Return a snapshot of all ``shown`` environments; None if there is nothing to watch. Reads folders: not for an event
    loop.

    Raises ConfigurationError when a prefix cannot be read.
    """
    seen = [see_folder(path) for path in environments_of(shown).watched if not path.resolve().is_relative_to(_SYSTEM)]
    return replace(seen[0], others=tuple(seen[1:])) if seen else None


def see_folder(prefix: Path) -> EnvironmentSnapshot:
    """Return a snapshot of the folder ``prefix``. Raises ConfigurationError when it cannot be read."""
    top = str(prefix.resolve())
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
    named = ", ".join(repr(name) for name in changed[:_MOST_NAMED])
    more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
    raise DeniedError(f"{before.prefix} changed while commands used it: {named}{more}; {ADVICE}", code=CHANGED)


def _entries(top: str) -> dict[str, Facts]:
    """Return all entries below ``top``. Two threads would take longer: the kernel's part of each call is too short to share."""
    found: dict[str, Facts] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        # A file that disappears meanwhile is missing from the snapshot: a difference like any other.
        with contextlib.suppress(FileNotFoundError), _open_folder(f"{top}/{folder}") as opened, os.scandir(opened) as entries:
            for entry in entries:
                name = folder + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    found[name] = _facts(entry, opened)
                elif entry.name != _BYTECODE:
                    found[name] = "folder"
                    waiting.append(name + "/")
    return found


@contextlib.contextmanager
def _open_folder(folder: str) -> Iterator[int]:
    """Open a folder as a descriptor: below it, the kernel need not resolve the whole path for each entry."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _facts(entry: os.DirEntry[str], folder: int) -> Facts:
    try:
        if entry.is_symlink():
            return f"link {os.readlink(os.fsencode(entry.name), dir_fd=folder)!r}"
        facts = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return "gone"
    return facts.st_mode, facts.st_ino, facts.st_size, facts.st_mtime_ns


def _describe_facts(facts: Facts) -> str:
    if isinstance(facts, str):
        return facts
    mode, inode, size, changed = facts
    return f"{mode:o} {inode} {size} {changed}"


@cache
def _boot() -> str:
    try:
        return _BOOT.read_text("ascii")
    except OSError:
        return os.uname().nodename
