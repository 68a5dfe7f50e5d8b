"""Git objects that prove a chain of commits without a repository, by hashing alone. Pure.

The trees of a base that lie on changed paths are a Merkle witness: from them and the changes follows the root id of the new
tree. Formats: git's documentation of objects, and ``base_name_compare`` of git for the order of a tree's entries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from gatewright.contracts.queue_receipt import Blob, Change, GitObject
from gatewright.errors import MalformedError
from gatewright.git.modes import DIRECTORY, ENTRIES, canonical
from gatewright.git.refs import object_id, write_tree
from gatewright.queue.composition import Conflict, compose

#: Maximum number of names in a path, which bounds the recursion.
_MOST_NAMES = 512
_Parts = tuple[bytes, ...]


class WitnessError(MalformedError):
    """Git objects do not prove what they have to. Do not trust the receipt that has them."""

    code = "receipt_contradicts"


class MissingObjectError(WitnessError):
    """A needed git object is not among the given ones."""

    def __init__(self, object_id: str) -> None:
        super().__init__(f"the git object {object_id} is missing")
        self.object_id = object_id


class Commit(NamedTuple):
    """The fields of a commit that matter here."""

    tree: str
    parents: tuple[str, ...]
    message: bytes


def parse_tree(data: bytes, digits: int) -> dict[bytes, Blob]:
    """Return the entries of a tree by name; a folder has mode ``40000``.

    Raises:
        WitnessError: it is no tree, or a name occurs twice.
    """
    entries: dict[bytes, Blob] = {}
    at = 0
    while at < len(data):
        mode, _, name = data[at : data.find(b"\0", at)].partition(b" ")
        begin = at + len(mode) + len(name) + 2
        at = begin + digits // 2
        if not name or name in entries or data[begin - 1 : begin] != b"\0" or at > len(data):
            raise WitnessError("a git tree has entries that cannot be read")
        try:
            entries[name] = Blob(mode=canonical(mode), object_id=data[begin:at].hex())
        except ValueError as error:
            raise WitnessError(f"a git tree has an entry with an unknown mode: {error}") from error
    return entries


def parse_commit(data: bytes) -> Commit:
    """Return the fields of a commit.

    Raises:
        WitnessError: it is no commit.
    """
    header, _, message = data.partition(b"\n\n")
    (first, tree), *lines = (line.partition(b" ")[::2] for line in header.split(b"\n"))
    parents = [value for name, value in lines if name == b"parent"]
    if first != b"tree" or lines[: len(parents)] != [(b"parent", value) for value in parents]:
        raise WitnessError("a git commit cannot be read")
    return Commit(tree.decode("ascii", "replace"), tuple(each.decode("ascii", "replace") for each in parents), message)


class Witness:
    """Git objects by their ids, which are computed here. ``digits``: length of an id of the repository."""

    def __init__(self, objects: Iterable[GitObject], digits: int) -> None:
        self._digits = digits
        self._raw = {(each.kind, object_id(each.kind, each.data, digits)): each.data for each in objects}
        self._trees: dict[str, dict[bytes, Blob]] = {}

    def commit(self, commit: str) -> Commit:
        """Return a commit.

        Raises:
            WitnessError: it is not among the objects (``MissingObjectError``), or cannot be read.
        """
        return parse_commit(self._data("commit", commit))

    def missing(self, commits: Iterable[str], root: str, paths: Iterable[str]) -> set[str]:
        """Return the next objects that are needed: of ``commits``, and of the tree ``root`` on ``paths``."""
        missing = {commit for commit in commits if ("commit", commit) not in self._raw}
        for path in paths:
            try:
                self._find_file(root, _path_parts(path))
            except MissingObjectError as error:
                missing.add(error.object_id)
        return missing

    def put(self, root: str, changes: Iterable[Change]) -> str:
        """Return the id of the tree ``root`` with ``changes`` on top.

        Raises:
            WitnessError: a tree is missing, a change is malformed, or it conflicts with the tree.
        """
        changes = tuple(changes)
        parts = {change.path: _path_parts(change.path) for change in changes}
        blobs = [blob for change in changes for blob in (change.old, change.new) if blob is not None]
        # A folder in place of a file would change paths that the change does not name.
        if len(parts) != len(changes) or any(self._is_foreign(blob) for blob in blobs):
            raise WitnessError("a change names a path twice, or a mode or an id that no file has")
        current: dict[str, Blob | None] = dict(filter(None, (self._find_file(root, each) for each in parts.values())))
        composed = compose(current, changes)
        if isinstance(composed, Conflict):
            raise WitnessError(f"the change does not fit the tree at {composed.paths[0]}")
        writes = {parts[path]: blob for path, blob in composed.writes.items()}
        return self._rewrite(root, writes) if writes else root

    def _is_foreign(self, blob: Blob) -> bool:
        return blob.mode not in ENTRIES or len(blob.object_id) != self._digits

    def _data(self, kind: Literal["commit", "tree"], object_id: str) -> bytes:
        try:
            return self._raw[kind, object_id]
        except KeyError:
            raise MissingObjectError(object_id) from None

    def _tree(self, tree: str) -> dict[bytes, Blob]:
        if tree not in self._trees:
            self._trees[tree] = parse_tree(self._data("tree", tree), self._digits)
        return self._trees[tree]

    def _find_file(self, root: str, parts: _Parts) -> tuple[str, Blob] | None:
        """Return the file at a path, or in place of a folder above it, with its path; None where there is none."""
        tree = root
        for depth, name in enumerate(parts, 1):
            entry = self._tree(tree).get(name)
            if entry is None:
                return None
            if entry.mode != DIRECTORY:
                return b"/".join(parts[:depth]).decode(), entry
            tree = entry.object_id
        return None

    def _rewrite(self, tree: str, writes: Mapping[_Parts, Blob | None]) -> str:
        """Return the id of a tree with other entries; ``tree`` is empty for a new folder. A folder without entries vanishes."""
        entries = dict(self._tree(tree)) if tree else {}
        nested: defaultdict[bytes, dict[_Parts, Blob | None]] = defaultdict(dict)
        for (name, *below), blob in writes.items():
            if below:
                nested[name][tuple(below)] = blob
        for name, inside in nested.items():
            entry = entries.pop(name, None)
            folder = self._rewrite(entry.object_id if entry is not None and entry.mode == DIRECTORY else "", inside)
            if self._trees[folder]:
                entries[name] = Blob(mode=DIRECTORY, object_id=folder)
        for (name, *below), blob in writes.items():
            if below:
                continue
            is_folder = name in entries and entries[name].mode == DIRECTORY
            if blob is not None and is_folder:
                raise WitnessError("the change puts a file in place of a folder that is not empty")
            if blob is not None:
                entries[name] = blob
            elif not is_folder:
                entries.pop(name, None)
        made = object_id("tree", write_tree(entries), self._digits)
        self._trees[made] = entries
        return made


def _path_parts(path: str) -> _Parts:
    """Return the names of a path. One that git would not take could stand for other entries of a tree."""
    parts = tuple(path.encode().split(b"/"))
    if len(parts) > _MOST_NAMES or b"\0" in path.encode() or any(each in {b"", b".", b".."} for each in parts):
        raise WitnessError("a change names a path that no git tree has")
    return parts
