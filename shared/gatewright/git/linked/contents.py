"""The files that a working folder shows besides those of the repository's own objects, at any depth of submodules.

The folder of a submodule has the files of its commit. A pointer of Git LFS at a path with ``filter=lfs`` is replaced by its
object, unless ``lfs.fetchexclude`` covers the path. For repositories of other hosts, pointers stay pointers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from gatewright.errors import DeniedError
from gatewright.git.attributes.stored_form import LFS_LARGEST, LfsPointer, read_lfs_pointer
from gatewright.git.changes import TreeChange, TreeEntry, TreeListing
from gatewright.git.host.local_repository import local_setting
from gatewright.git.linked.lfs import MISSING, StoredObject, excluded_paths, find_store
from gatewright.git.linked.submodules import open_submodules
from gatewright.git.mirror import Mirror
from gatewright.git.modes import ABSENT, REGULAR, SUBMODULE
from gatewright.git.paths import display, folders_above
from gatewright.git.process import in_thread

TOO_LARGE: Final = "linked_contents_too_large"
#: Submodules below one another, submodules and their files in one tree, and bytes of all contents.
MOST_DEPTH: Final = 8
MOST_SUBMODULES: Final = 256
MOST_FILES: Final = 250_000
MOST_BYTES: Final = 4 << 30
_SETTINGS: Final = frozenset({b".gitattributes", b".gitmodules", b".lfsconfig"})
_LARGEST_ATTRIBUTES: Final = 1 << 20


class LinkedFile(NamedTuple):
    """A file, link or folder of a submodule in ``mirror``, or a file whose blob ``object_id`` is a pointer to ``stored``.

    ``own``: the tree itself has it, so it is a pointer.
    """

    path: bytes
    mode: str
    object_id: str
    size: int
    mirror: Mirror
    own: bool
    stored: StoredObject | None = None

    @property
    def key(self) -> str:
        """Return the name of its content; no git object has that of an object of Git LFS."""
        return self.object_id if self.stored is None else f"lfs {self.stored.oid}"


class _Part(NamedTuple):
    """A tree that is shown below the path ``prefix``, so many submodules deep."""

    prefix: bytes
    mirror: Mirror
    commit: str
    depth: int

    def linked(self, entry: TreeEntry, stored: StoredObject | None) -> LinkedFile:
        size = entry.size if stored is None else stored.size
        return LinkedFile(self.prefix + entry.path, entry.mode, entry.object_id, size, self.mirror, not self.depth, stored)


async def linked_files(mirror: Mirror, tree: str) -> tuple[LinkedFile, ...]:
    """Return the linked files of a commit or tree of the mirror.

    Raises:
        DeniedError: ``submodule_missing``, ``submodule_unsafe``, ``lfs_object_missing``, ``linked_contents_too_large``.
        GitError: a repository cannot be read.
    """
    found: list[LinkedFile] = []
    pending = [_Part(b"", mirror, tree, 0)]
    submodules = size = 0
    while pending:
        part = pending.pop()
        listing = await part.mirror.listing(part.commit)
        stored = await _stored_objects(part.mirror, part.commit, listing)
        shown = listing.entries if part.depth else [entry for entry in listing.entries if entry.path in stored]
        more = [part.linked(entry, stored.get(entry.path)) for entry in shown]
        found += more
        size += sum(each.size for each in more)
        if len(found) > MOST_FILES or size > MOST_BYTES:
            words = f"submodules and Git LFS have {len(found)} files of {size} bytes, more than {MOST_FILES} or {MOST_BYTES}"
            raise DeniedError(f"{words}: set update = none in .gitmodules, or lfs.fetchexclude", code=TOO_LARGE)
        most = 0 if part.depth == MOST_DEPTH else MOST_SUBMODULES - submodules
        opened = await open_submodules(part.mirror, listing, most)
        submodules += len(opened)
        commits = {entry.path: entry.object_id for entry in listing.entries if entry.path in opened}
        pending += [_Part(part.prefix + path + b"/", opened[path], commits[path], part.depth + 1) for path in opened]
    return tuple(sorted(found, key=lambda each: each.path))


def may_link(changes: Iterable[TreeChange], contents: Mapping[str, bytes]) -> bool:
    """Return whether ``changes``, whose new blobs are ``contents``, may change what a tree links to."""
    return any(
        SUBMODULE in {change.old_mode, change.new_mode}
        or change.path.rpartition(b"/")[2] in _SETTINGS
        or read_lfs_pointer(contents.get(change.new_id, b"")) is not None
        for change in changes
    )


async def _stored_objects(mirror: Mirror, tree: str, listing: TreeListing) -> Mapping[bytes, StoredObject]:
    """Return the objects that replace pointers of the tree, by path."""
    if not mirror.source.local or not await _uses_lfs(mirror, listing):
        return {}
    pointers = await _pointers(mirror, tree, listing)
    if not pointers:
        return {}
    address = mirror.source.address
    store = await in_thread(find_store, address)
    stored = {path: StoredObject(store, pointer.oid, pointer.size) for path, pointer in pointers.items()}
    missing = await in_thread(lambda: [path for path, each in stored.items() if not each.is_there()])
    if missing:
        first = missing[0]
        words = (
            f"{len(missing)} objects of Git LFS are not in {store}, that of {display(first)} ({stored[first].oid}) among them"
        )
        raise DeniedError(f"{words}; run: git -C {address} lfs fetch, or set lfs.fetchexclude", code=MISSING)
    return stored


async def _uses_lfs(mirror: Mirror, listing: TreeListing) -> bool:
    files = [
        each
        for each in listing.entries
        if each.path.endswith(b".gitattributes") and each.mode in REGULAR and each.size <= _LARGEST_ATTRIBUTES
    ]
    contents = await mirror.blobs(each.object_id for each in files) if files else {}
    return any(b"lfs" in content for content in contents.values())


async def _pointers(mirror: Mirror, tree: str, listing: TreeListing) -> Mapping[bytes, LfsPointer]:
    small = [entry for entry in listing.entries if entry.mode in REGULAR and 0 < entry.size <= LFS_LARGEST]
    contents = await mirror.blobs({entry.object_id for entry in small})
    read = {entry.path: read_lfs_pointer(contents[entry.object_id]) for entry in small}
    found = {path: pointer for path, pointer in read.items() if pointer is not None}
    if not found:
        return {}
    attributes = await mirror.attributes(await mirror.tree_of(tree), list(found))
    excluded = excluded_paths(await _exclusions(mirror, listing), found)
    return {
        path: pointer
        for path, pointer in found.items()
        if path in attributes and attributes[path].filter == "lfs" and path not in excluded
    }


async def _exclusions(mirror: Mirror, listing: TreeListing) -> Sequence[str]:
    values = [await in_thread(local_setting, mirror.source.address, "lfs.fetchexclude")]
    config = listing.by_name.get(".lfsconfig")
    if config is not None and config.mode in REGULAR:
        values += [value for key, value in await mirror.settings(config.object_id) if key == "lfs.fetchexclude"]
    return values


def linked_changes(
    old: Iterable[LinkedFile], new: Iterable[LinkedFile], changes: Sequence[TreeChange]
) -> tuple[TreeChange, ...]:
    """Return ``changes``, of a tree with the linked files ``old`` to one with ``new``, with the changes of those."""
    before, after = {each.path: each for each in old}, {each.path: each for each in new}
    written = {change.path for change in changes if change.status != "D"}
    refilled = frozenset(above for path in (*written, *after) for above in folders_above(path))
    gone = {change.path for change in changes if SUBMODULE == change.old_mode != change.new_mode} - refilled
    known = {change.path: change for change in changes if change.old_mode != SUBMODULE or change.path not in refilled}
    known |= {change.path: change for change in changes if change.new_mode == SUBMODULE}
    for path, file in after.items():
        was = before.get(path)
        if was is None or (was.mode, was.key) != (file.mode, file.key):
            known[path] = TreeChange(path, file.mode, file.mode, "", file.key, "M")
    for path, file in before.items():
        if path in after or path in known:
            continue
        if file.own:
            known[path] = TreeChange(path, file.mode, file.mode, "", file.object_id, "M")
        elif gone.isdisjoint(folders_above(path)):
            known[path] = TreeChange(path, file.mode, ABSENT, "", "", "D")
    return tuple(sorted(known.values(), key=lambda change: change.path))
