"""Composition of a run's change with a tree, path by path: without renames, without merging text.

``git merge-tree`` moves an edit into a folder that another run renamed, outside the paths of the run. Here a run's commit
changes paths of the run and nothing else, by construction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gatewright.contracts.queue_receipt import Blob, Change


@dataclass(frozen=True, slots=True)
class Composition:
    """The blobs to write on top of a tree; None deletes the path.

    ``unchanged``: every old and new blob of the run is the same as in the run itself. Only then do approvals carry over.
    """

    writes: Mapping[str, Blob | None]
    unchanged: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    """The paths of the run that do not fit the tree, sorted."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Footprint:
    """The paths that a change touches, and the folders above them."""

    paths: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()

    def overlaps(self, other: Footprint) -> bool:
        """Return whether both touch the same path, or one touches a folder above a path of the other."""
        apart = self.paths.isdisjoint(other.paths) and self.paths.isdisjoint(other.folders)
        return not (apart and self.folders.isdisjoint(other.paths))

    def __or__(self, other: Footprint) -> Footprint:
        return Footprint(self.paths | other.paths, self.folders | other.folders)


def footprint_of(changes: Iterable[Change]) -> Footprint:
    """Return the footprint of a change."""
    paths = frozenset(change.path for change in changes)
    return Footprint(paths, frozenset(folder for path in paths for folder in folders_of(path)))


def folders_of(path: str) -> Iterator[str]:
    """Yield the folders above a path: ``a`` and ``a/b`` for ``a/b/c``."""
    end = path.find("/")
    while end > 0:
        yield path[:end]
        end = path.find("/", end + 1)


def compose(current: Mapping[str, Blob | None], changes: Iterable[Change]) -> Composition | Conflict:
    """Put ``changes`` on top of a tree.

    1. A path that holds the run's old blob gets the new one.
    2. A path that already holds the new blob stays.
    3. Any other path is a conflict. A file in place of a needed folder is one, too, and so is the opposite.

    Args:
        current: the tree at every path of ``changes``, at every folder above one, and below one (for a path that becomes a
            file). An omitted path is absent.
        changes: the changes of the run.
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
    """Return the paths at which ``changes`` conflict with the writes of the runs ahead, independent of the base."""
    changes = tuple(changes)
    own = footprint_of(changes)
    near = {path: ahead[path] for path in own.paths | own.folders if path in ahead}
    below = {path: blob for path, blob in ahead.items() if blob is not None and not own.paths.isdisjoint(folders_of(path))}
    composed = compose({**{change.path: change.old for change in changes}, **near, **below}, changes)
    return composed.paths if isinstance(composed, Conflict) else ()
