"""Tree differences, tree contents and requested changes, with the parsers of git's ``-z`` output.

Paths are bytes throughout: a tree may hold names that are not UTF-8, and they must survive. No git process runs here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from gatewright.errors import GitError
from gatewright.git.modes import ABSENT, canonical


@dataclass(frozen=True)
class TreeChange:
    """A line of ``git diff-tree -r -z --raw --no-renames``.

    Modes are six octal digits, ``000000`` on the side where the path is absent; ids are full, all zeros where absent.
    ``status`` is ``A`` added, ``D`` deleted, ``M`` modified or ``T`` type changed.
    """

    path: bytes
    old_mode: str
    new_mode: str
    old_id: str
    new_id: str
    status: str

    @property
    def sides(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """The object id and the mode before the change, and after it."""
        return (self.old_id, self.old_mode), (self.new_id, self.new_mode)


#: Digits of a size in bytes.
_LONGEST_SIZE = 15


class TreeEntry(NamedTuple):
    """A file of a tree. ``size`` is in bytes; 0 for a submodule (mode ``160000``), whose object is not in the repository."""

    path: bytes
    mode: str
    object_id: str
    size: int


class TreeListing:
    """The files of a tree, by path."""

    def __init__(self, entries: tuple[TreeEntry, ...]) -> None:
        self.entries = entries

    @cached_property
    def by_name(self) -> Mapping[str, TreeEntry]:
        """Return the files whose names are UTF-8."""
        named: dict[str, TreeEntry] = {}
        for entry in self.entries:
            with suppress(UnicodeDecodeError):
                named[entry.path.decode()] = entry
        return named

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of those."""
        return frozenset(self.by_name)

    def after(self, changes: Iterable[TreeChange], sizes: Mapping[str, int]) -> TreeListing:
        """The files of the tree that ``changes`` lead to; ``sizes`` are those of the contents that they bring."""
        entries = {entry.path: entry for entry in self.entries}
        for change in changes:
            entries.pop(change.path, None)
            if change.new_mode != ABSENT:
                size = sizes.get(change.new_id, 0)
                entries[change.path] = TreeEntry(change.path, change.new_mode, change.new_id, size)
        return TreeListing(tuple(sorted(entries.values())))


class TreeListings:
    """A cache of the most recently used listings of all repositories, with at most ``most`` files in total."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: dict[tuple[str, str], TreeListing] = {}

    def get(self, repository: str, tree: str) -> TreeListing | None:
        """Return the listing of ``tree`` and mark it as the most recently used."""
        known = self._known.pop((repository, tree), None)
        if known is not None:
            self._known[repository, tree] = known
        return known

    def keep(self, repository: str, tree: str, listing: TreeListing) -> None:
        """Add a listing as the most recently used."""
        known = self._known  # ``forget`` may put another table in its place at any moment
        known[repository, tree] = listing
        sizes = {key: len(each.entries) for key, each in list(known.items())}
        left = sum(sizes.values())
        for key, size in sizes.items():
            if left <= self._most:
                return
            known.pop(key, None)
            left -= size

    def forget(self, repository: str) -> None:
        """Remove all listings of one repository. The garbage collector calls this from any thread when a mirror ends."""
        self._known = {key: each for key, each in list(self._known.items()) if key[0] != repository}


class Node(NamedTuple):
    """An entry of a directory: a file, a link, a submodule, or a directory (mode ``40000``)."""

    mode: str
    name: bytes
    object_id: str


@dataclass(frozen=True)
class FileChange:
    """A requested change: the complete new ``content`` of ``path`` (the target, for a symbolic link).

    ``mode`` is ``100644``, ``100755`` or ``120000``; None deletes the path and everything below it.
    """

    path: bytes
    mode: str | None
    content: bytes = b""


def parse_changes(output: bytes) -> tuple[TreeChange, ...]:
    """The changes in the output of ``diff-tree --raw -z`` between two trees. GitError when it is not such output."""
    fields = output.split(b"\0")
    if fields.pop() or len(fields) % 2:
        raise _unreadable("diff-tree")
    return tuple(_parse_change(fields[at], fields[at + 1]) for at in range(0, len(fields), 2))


def parse_copies(output: bytes) -> dict[bytes, bytes]:
    """The new paths in the output of ``diff-tree --raw -z -C``, each with the one that it was copied or renamed from.

    GitError when it is not such output.
    """
    fields = output.split(b"\0")
    if fields.pop():
        raise _unreadable("diff-tree")
    found, at = {}, 0
    while at < len(fields):
        moved = fields[at].rpartition(b" ")[2][:1] in {b"C", b"R"}
        if at + 1 + moved >= len(fields):
            raise _unreadable("diff-tree")
        if moved:
            found[fields[at + 2]] = fields[at + 1]
        at += 2 + moved
    return found


def parse_entries(output: bytes) -> tuple[TreeEntry, ...]:
    """The files in the output of ``ls-tree -r -z -l``. GitError when it is not such output."""
    records = output.split(b"\0")
    if records.pop():
        raise _unreadable("ls-tree")
    return tuple(_entry(record) for record in records)


def parse_objects(output: bytes, kind: str) -> Iterator[tuple[str, bytes]]:
    """Id and content of each object in the output of ``cat-file --batch``.

    GitError (``object_missing``) for what is not there, or no ``kind`` (``blob``, ``tree``).
    """
    at = 0
    while at < len(output):
        end = output.find(b"\n", at)
        words = output[at:end].decode("ascii", "replace").split(" ")
        if end < 0 or len(words) != 3 or words[1] != kind or not _is_size(words[2]):
            raise GitError(f"not a {kind} that can be read: {' '.join(words)[:120]!a}", code="object_missing")
        start, stop = end + 1, end + 1 + int(words[2])
        if stop > len(output):
            raise _unreadable("cat-file")
        yield words[0], output[start:stop]
        at = stop + 1


def parse_sizes(output: bytes) -> Iterator[tuple[str, int]]:
    """Id and size in bytes of each blob in the output of ``cat-file --batch-check``. GitError (``object_missing``)."""
    for line in output.decode("ascii", "replace").splitlines():
        words = line.split(" ")
        if len(words) != 3 or words[1] != "blob" or not _is_size(words[2]):
            raise GitError(f"not a blob that can be read: {line[:120]!a}", code="object_missing")
        yield words[0], int(words[2])


def parse_directory(content: bytes, id_bytes: int) -> tuple[Node, ...]:
    """Return the entries of one tree object, whose ids have ``id_bytes`` bytes. Raises GitError if it is malformed."""
    nodes, at = [], 0
    while at < len(content):
        space, end = content.find(b" ", at), content.find(b"\0", at)
        stop = end + 1 + id_bytes
        if not at < space < end or stop > len(content):
            raise _unreadable("cat-file")
        try:
            mode = canonical(content[at:space])
        except ValueError:
            raise _unreadable("cat-file") from None
        nodes.append(Node(mode, content[space + 1 : end], content[end + 1 : stop].hex()))
        at = stop
    return tuple(nodes)


def _parse_change(head: bytes, path: bytes) -> TreeChange:
    words = head.decode("ascii", "replace").split(" ")
    if len(words) != 5 or not words[0].startswith(":") or not path:
        raise _unreadable("diff-tree")
    return TreeChange(path, words[0][1:], words[1], words[2], words[3], words[4])


def _entry(record: bytes) -> TreeEntry:
    head, tab, path = record.partition(b"\t")
    words = head.decode("ascii", "replace").split()
    if len(words) != 4 or not tab or not path or not (words[3] == "-" or _is_size(words[3])):
        raise _unreadable("ls-tree")
    return TreeEntry(path, sys.intern(words[0]), words[2], 0 if words[3] == "-" else int(words[3]))


def _is_size(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) <= _LONGEST_SIZE


def _unreadable(command: str) -> GitError:
    return GitError(f"the output of git {command} cannot be read")
