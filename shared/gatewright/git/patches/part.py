"""The part of a large index that a patch concerns: the tree's entries at the paths that the patch names.

git applies the patch to that part as it would to the whole index, at the cost of the part. If anything besides those paths
could matter (a directory or a link in place of a file, a path in an unsupported form), there is no part, and the whole
index is used. Pure; no process runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from gatewright.git.changes import Node, TreeChange
from gatewright.git.modes import ABSENT, DIRECTORY, REGULAR, SYMLINK

#: Paths beyond which the whole index is no dearer.
MOST_PATHS = 2000
_PLAIN = REGULAR | {SYMLINK}
_NOT_MERGED = b"0"

#: Ids of trees -> the direct entries of each.
Directories = Callable[[Iterable[str]], Mapping[str, tuple[Node, ...]]]


class Entry(NamedTuple):
    """A file or a link at a path."""

    mode: str
    object_id: str


class Part(NamedTuple):
    """The named ``paths``, and the entries that exist at them."""

    paths: frozenset[bytes]
    entries: Mapping[bytes, Entry]

    @property
    def index_info(self) -> bytes:
        """The entries for ``git update-index -z --index-info``."""
        return b"".join(b"%s %s\t%s\0" % (e.mode.encode(), e.object_id.encode(), path) for path, e in self.entries.items())

    def changes(self, listed: bytes) -> tuple[TreeChange, ...] | None:
        """Return the changed entries in the output of ``ls-files --stage -z``, by path; None if it has paths outside the
        part."""
        after = {}
        for record in listed.split(b"\0")[:-1]:
            facts, _, path = record.partition(b"\t")
            mode, object_id, stage = facts.split(b" ")
            if stage != _NOT_MERGED or path not in self.paths:
                return None
            after[path] = Entry(mode.decode(), object_id.decode())
        changed = sorted(path for path in self.paths if self.entries.get(path) != after.get(path))
        return tuple(_tree_change(path, self.entries.get(path), after.get(path)) for path in changed)


def part_of(tree: str, paths: Collection[bytes], directories: Directories) -> Part | None:
    """The part of ``tree`` at ``paths``; None where there is none: see above. Raises GitError."""
    if len(paths) > MOST_PATHS or not all(map(_is_plain, paths)):
        return None
    entries: dict[bytes, Entry] = {}
    #: By directory id: the rest of each path, with the full path.
    asked: dict[str, list[tuple[bytes, bytes]]] = {tree: [(path, path) for path in paths]}
    while asked:
        below: dict[str, list[tuple[bytes, bytes]]] = {}
        for directory, nodes in directories(asked).items():
            by_name = {node.name: node for node in nodes}
            if len(by_name) != len(nodes):
                return None
            for rest, path in asked[directory]:
                name, slash, deeper = rest.partition(b"/")
                node = by_name.get(name)
                if node is None:
                    continue
                if node.mode not in ({DIRECTORY} if slash else _PLAIN):
                    return None
                if slash:
                    below.setdefault(node.object_id, []).append((deeper, path))
                else:
                    entries[path] = Entry(node.mode, node.object_id)
        asked = below
    named = frozenset(paths)
    return None if any(_is_below(path, named) for path in named) else Part(named, entries)


def _is_plain(path: bytes) -> bool:
    return b"\0" not in path and not {b"", b".", b".."}.intersection(path.split(b"/"))


def _is_below(path: bytes, others: frozenset[bytes]) -> bool:
    at = path.find(b"/")
    while at >= 0:
        if path[:at] in others:
            return True
        at = path.find(b"/", at + 1)
    return False


def _tree_change(path: bytes, old: Entry | None, new: Entry | None) -> TreeChange:
    nothing = Entry(ABSENT, "0" * len((old or new or Entry("", "")).object_id))
    before, after = old or nothing, new or nothing
    kind = "M" if (before.mode in REGULAR) == (after.mode in REGULAR) else "T"
    status = "A" if old is None else "D" if new is None else kind
    return TreeChange(path, before.mode, after.mode, before.object_id, after.object_id, status)
