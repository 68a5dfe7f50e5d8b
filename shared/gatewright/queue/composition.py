"""Put the change of a run on top of a tree, path by path: without renames, without merging text.

``git merge-tree`` moves an edit into a folder that another run renamed, outside the paths of the run. Here a run's commit
changes paths of the run and nothing else, by construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gatewright.contracts.vocabulary import Document, NonEmpty, ObjectId


class Blob(Document, frozen=True):
    """What a path holds: ``mode`` is six octal digits, ``object_id`` a blob, or a commit where the mode is ``160000``."""

    mode: NonEmpty
    object_id: ObjectId


class Change(Document, frozen=True):
    """What a run makes of one path. None: the path is absent. A rename is a deletion and an addition."""

    path: NonEmpty
    old: Blob | None = None
    new: Blob | None = None


@dataclass(frozen=True, slots=True)
class Composition:
    """What to write on top of a tree; None deletes the path.

    ``unchanged``: every pair of old and new blob of the run is written as the run has it. Approvals carry over only then.
    """

    writes: Mapping[str, Blob | None]
    unchanged: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    """The paths of the run that do not fit the tree, sorted."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The paths that a change touches, and the folders that they lie in."""

    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()

    def overlaps(self, other: Footprint) -> bool:
        """Whether both touch a path, or one touches a folder in which the other touches something."""
        apart = self.paths.isdisjoint(other.paths) and self.paths.isdisjoint(other.folders)
        return not (apart and self.folders.isdisjoint(other.paths))

    def __or__(self, other: Footprint) -> Footprint:
        return Footprint(self.paths | other.paths, self.folders | other.folders)


def footprint_of(changes: Iterable[Change]) -> Footprint:
    """The footprint of a change."""
    paths = frozenset(change.path for change in changes)
    return Footprint(paths, frozenset(folder for path in paths for folder in folders_of(path)))


def folders_of(path: str) -> Iterator[str]:
    """``a`` and ``a/b`` of ``a/b/c``."""
    end = path.find("/")
    while end > 0:
        yield path[:end]
        end = path.find("/", end + 1)


def compose(current: Mapping[str, Blob | None], changes: Iterable[Change]) -> Composition | Conflict:
    """Put ``changes`` on top of a tree.

    ``current`` holds what the tree has at every path of ``changes``, at every folder above one (a file there is in the way),
    and below one (for a path that becomes a file); a path that is left out is absent. A path that holds the run's old blob
    becomes the new one. A path that holds the new blob stays. Any other path is a conflict, and so is a file where a folder
    is needed, or a folder where a file is.
    """
    changes = tuple(changes)
    writes: dict[str, Blob | None] = {}
    wrong: set[str] = set()
    for change in changes:
        blob = current.get(change.path)
        if blob == change.old:
            writes[change.path] = change.new
        elif blob != change.new:
            wrong.add(change.path)
    after = {**current, **writes}
    own = {change.path for change in changes if change.new is not None}
    for path, blob in after.items():
        for folder in folders_of(path) if blob is not None else ():
            if after.get(folder) is not None:
                wrong |= own & {path, folder}
    if wrong:
        return Conflict(tuple(sorted(wrong)))
    return Composition(writes, len(writes) == len(changes))


def conflict_with(ahead: Mapping[str, Blob | None], changes: Iterable[Change]) -> tuple[str, ...]:
    """The paths at which ``changes`` do not fit what the runs ahead write, whatever the base has elsewhere."""
    changes = tuple(changes)
    own = footprint_of(changes)
    near = {path: ahead[path] for path in own.paths | own.folders if path in ahead}
    below = {path: blob for path, blob in ahead.items() if blob is not None and not own.paths.isdisjoint(folders_of(path))}
    composed = compose({**{change.path: change.old for change in changes}, **near, **below}, changes)
    return composed.paths if isinstance(composed, Conflict) else ()
