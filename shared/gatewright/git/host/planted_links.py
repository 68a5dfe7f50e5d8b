"""Search for links, pipes and devices that a repository planted where git expects plain files.

git follows a link below its folder like any other path: it appends to a linked log, creates files in a linked folder, and
quotes lines of a linked file in its errors. At a pipe it waits for ever. None of these are legitimate in a repository,
except in the parts that serving a fetch or a push never touches (hooks, the folders of extensions).
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from gatewright.errors import GitError
from gatewright.git.command import GitCommand
from gatewright.git.host.local_repository import LEADS_ELSEWHERE, LocalRepository

HAS_LINKS = "repository_has_links"
HAS_SPECIAL_FILES = "repository_has_special_files"
#: The files that git reads at the top of a git folder, and the trees below it.
_FILES = ("HEAD", "commondir", "config", "config.worktree", "gitdir", "packed-refs", "shallow")
_TREES = ("refs", "objects", "reftable")
#: Folders that git creates in an object store, besides those named by two digits of an id.
_OF_A_STORE = ("info", "pack")
_TWO_DIGITS = frozenset(f"{number:02x}" for number in range(256))
_ADVICE = "replace it by what it leads to (for folders that repositories share: git worktree, or objects/info/alternates)"
#: A folder that changed this recently may change again without a trace in its times.
_SETTLED_NS = 1_000_000_000
_MOST_CONFIGS = 64
#: Top-level folders whose files the kernel generates on reading, some of them endlessly.
_NOT_STORED = (("dev",), ("proc",), ("sys",))
#: A folder in one of those that holds plain files, in memory.
_SHARED_MEMORY = ("dev", "shm")
_MOST_STORES = 32
#: Prefix of the file of a symbolic ref.
_SYMBOLIC = b"ref:"
_LONGEST_REF = 8192
_MOST_LED = 16


@dataclass(frozen=True, slots=True)
class _Known:
    """The state of a clean folder when it was searched, and its subfolders."""

    facts: tuple[int, int, int]
    folders: tuple[str, ...]


class PlantedLinks:
    """A cache of folders that were found clean, valid while their change times stay the same."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def refuse(self, repository: LocalRepository, *, writing: bool, refs: Sequence[str] = ()) -> None:
        """Raise GitError that names a planted path.

        ``repository_has_links``, ``repository_has_special_files`` or ``repository_leads_elsewhere``.

        Args:
            writing: also check the logs, which git appends to.
            refs: full names of the only refs that git will open; other refs, perhaps many thousands, are not checked.
        """
        names = _refs_opened_with(repository.folders, refs)
        for folder in repository.folders:
            self._git_folder(folder, writing=writing, refs=names)
        worktrees = repository.common / "worktrees"
        if _find_plain_entry(worktrees, stat.S_IFDIR):
            for name in os.listdir(worktrees):  # noqa: PTH208 - names are all that is wanted
                if _find_plain_entry(worktrees / name, stat.S_IFDIR):
                    self._git_folder(worktrees / name, writing=writing)
        self._stores(repository.common / "objects")
        for folder in repository.folders:
            _check_includes(folder)

    def _git_folder(self, folder: Path, *, writing: bool, refs: Sequence[str] = ()) -> None:
        for name in _FILES:
            _find_plain_entry(folder / name, stat.S_IFREG)
        if _find_plain_entry(folder / "info", stat.S_IFDIR):
            _find_plain_entry(folder / "info" / "grafts", stat.S_IFREG)
        for name in (*_TREES, "logs") if writing else _TREES:
            if name in ("refs", "logs") and refs:
                top = folder if name == "refs" else folder / name
                # Moving the checked-out branch also writes to the log of HEAD.
                for ref in {*refs, "HEAD"}:
                    self._ref(top, ref, single=name == "logs")
            else:
                self._tree(folder / name, single=name == "logs")

    def _ref(self, top: Path, ref: str, *, single: bool) -> None:
        """Check the path to ``ref`` below ``top``, and its file."""
        path = top
        for part in ref.split("/"):
            if not path.is_dir() or not _find_plain_entry(path, stat.S_IFDIR):
                return  # nothing can exist below it
            path /= part
        if path.is_dir() and not path.is_symlink():
            self._tree(path, single=single)
        elif _find_plain_entry(path, stat.S_IFREG) and single and path.lstat().st_nlink > 1:
            _refuse_second_name(str(path))

    def _tree(self, top: Path, *, single: bool) -> None:
        """Look at ``top`` and all below it. ``single``: a file with a second name is a link too."""
        if not _find_plain_entry(top, stat.S_IFDIR):
            return
        waiting = [str(top)]
        while waiting:
            folder = waiting.pop()
            try:
                facts = os.lstat(folder)
            except FileNotFoundError:
                continue  # git packs its objects concurrently and removes empty folders
            if not stat.S_ISDIR(facts.st_mode):
                _refuse_path(folder, facts.st_mode)
            seen = (facts.st_dev, facts.st_ino, facts.st_ctime_ns)
            known = self._known.get(folder)
            if known is None or known.facts != seen:
                known = _Known(seen, tuple(_folders_in(folder, single=single)))
                if time.time_ns() - facts.st_ctime_ns > _SETTLED_NS:
                    self._known[folder] = known
                else:
                    self._known.pop(folder, None)
            waiting += (f"{folder}/{name}" for name in known.folders)

    def _stores(self, objects: Path) -> None:
        """The object stores that ``objects`` borrows from, and those that these borrow from: read, never written."""
        waiting, seen = [objects], {objects}
        while waiting:
            for store in _alternate_folders(waiting.pop()):
                if store in seen:
                    continue
                seen.add(store)
                if len(seen) > _MOST_STORES:
                    raise GitError(f"{objects} borrows from more than {_MOST_STORES} object stores", code=LEADS_ELSEWHERE)
                self._tree(store, single=False)
                waiting.append(store)


def _folders_in(folder: str, *, single: bool) -> Iterator[str]:
    """Yield the direct subfolders of ``folder``; one that disappears during the check is harmless."""
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield entry.name
            else:
                _check_entry(entry, single=single)


def _check_entry(entry: os.DirEntry[str], *, single: bool) -> None:
    with contextlib.suppress(FileNotFoundError):
        if not entry.is_file(follow_symlinks=False):
            _refuse_path(entry.path, entry.stat(follow_symlinks=False).st_mode)
        elif single and entry.stat(follow_symlinks=False).st_nlink > 1:
            _refuse_second_name(entry.path)


def _refuse_second_name(path: str) -> NoReturn:
    raise GitError(f"{path!a} has a second name elsewhere; replace it by a copy", code=HAS_LINKS)


def _refs_opened_with(folders: Sequence[Path], refs: Sequence[str]) -> tuple[str, ...]:
    """Return ``refs`` and the targets of symbolic ones; empty if a target cannot be determined, so that all refs are
    checked."""
    found = list(refs)
    for name in found:
        for folder in folders:
            content = _first_bytes(folder / name)
            if not content.startswith(_SYMBOLIC):
                continue
            led = os.fsdecode(content.removeprefix(_SYMBOLIC).strip())
            if not led.startswith("refs/") or not {"", ".", ".."}.isdisjoint(led.split("/")) or len(found) > _MOST_LED:
                return ()
            found.append(led)
    return tuple(found)


def _first_bytes(ref: Path) -> bytes:
    """Return the first bytes of a regular file; nothing for any other file, which is refused elsewhere or missing."""
    try:
        handle = os.open(ref, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, _LONGEST_REF) if stat.S_ISREG(os.fstat(handle).st_mode) else b""
    finally:
        os.close(handle)


def _find_plain_entry(path: Path, kind: int) -> bool:
    """Return whether ``path`` exists; refuse it unless it is of the expected kind (regular file or folder)."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    if stat.S_IFMT(mode) != kind:
        _refuse_path(str(path), mode)
    return True


def _refuse_path(path: str, mode: int) -> NoReturn:
    if stat.S_ISLNK(mode):
        raise GitError(f"{path!a} is a link, and git would follow it; {_ADVICE}", code=HAS_LINKS)
    raise GitError(f"{path!a} is not what git keeps there (mode {mode:o}); remove it", code=HAS_SPECIAL_FILES)


def _alternate_folders(objects: Path) -> Iterator[Path]:
    """The real folders that ``info/alternates`` names, as far as they exist."""
    alternates = objects / "info" / "alternates"
    if not _find_plain_entry(objects / "info", stat.S_IFDIR) or not _find_plain_entry(alternates, stat.S_IFREG):
        return
    for line in alternates.read_bytes().split(b"\n"):
        if line.startswith(b'"'):
            raise GitError(f"{str(alternates)!a} quotes a path; write it plainly", code=LEADS_ELSEWHERE)
        if line and not line.startswith(b"#"):
            if b"\0" in line:
                raise GitError(f"{str(alternates)!a} holds a zero byte: remove that line", code=LEADS_ELSEWHERE)
            store = Path(os.path.realpath(objects / os.fsdecode(line)))
            if not store.is_dir():
                continue  # git passes it over; an object that it lacks then is named
            if not _may_be_store(store):
                words = f"{str(alternates)!a} names {str(store)!a}, which is no store of objects"
                raise GitError(f"{words}: remove or correct that line", code=LEADS_ELSEWHERE)
            yield store


def _may_be_store(folder: Path) -> bool:
    """Return whether the folder may be an object store: no other folder of this host is searched, or named in errors."""
    with os.scandir(folder) as entries:
        kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    return not kinds or any(kinds[name] and (name in _OF_A_STORE or name in _TWO_DIGITS) for name in kinds)


def _check_includes(folder: Path) -> None:
    """Check that every file that the configuration includes is regular: git might wait for ever at any other."""
    waiting, seen = [folder / "config", folder / "config.worktree"], set[Path]()
    while waiting:
        config = waiting.pop()
        if config in seen or not config.exists():
            continue
        seen.add(config)
        if len(seen) > _MOST_CONFIGS:
            raise GitError(f"{folder / 'config'} includes more than {_MOST_CONFIGS} files", code=LEADS_ELSEWHERE)
        stored = config.parts[1:2] not in _NOT_STORED or config.parts[1:3] == _SHARED_MEMORY
        if not (stored and config.is_file()):
            raise GitError(f"{folder / 'config'} includes {config}, which is no file; remove it", code=HAS_SPECIAL_FILES)
        if b"include" in config.read_bytes().lower():
            waiting += _included_files(folder, config)


def _included_files(folder: Path, config: Path) -> Iterator[Path]:
    query = ("config", "--file", str(config), "--no-includes", "--null", "--get-regexp", r"^include(if\..*)?\.path$")
    for record in GitCommand(folder).execute(*query, ok=(0, 1)).split(b"\0"):
        value = os.fsdecode(record.partition(b"\n")[2])
        # A path below a user's home: git has no home here, and finds nothing.
        if value and not value.startswith(("~", "%(")):
            yield Path(os.path.realpath(config.parent / value))
