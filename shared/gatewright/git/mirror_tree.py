"""A tree of a mirror as plain names and contents, as the looks at a repository want it (``ecosystems.port.TreeFiles``)."""

from __future__ import annotations

from gatewright.git.changes import TreeEntry, TreeListing
from gatewright.git.mirror import Mirror
from gatewright.git.modes import EXECUTABLE, FILE

#: Bytes of a file that is looked at.
_LARGEST = 1024 * 1024


class MirrorTree:
    """See ``TreeFiles``. Made by ``list_tree``."""

    def __init__(self, mirror: Mirror, listing: TreeListing) -> None:
        self._mirror = mirror
        self._listing = listing

    @property
    def paths(self) -> frozenset[str]:
        """See ``TreeFiles``."""
        return self._listing.names

    async def read(self, path: str) -> bytes | None:
        """See ``TreeFiles``."""
        entry = self._listing.by_name.get(path)
        return await self._mirror.blob(entry.object_id) if entry is not None and is_readable(entry) else None


def is_readable(entry: TreeEntry) -> bool:
    """Return whether it is a regular file within the size limit."""
    return entry.mode in {FILE, EXECUTABLE} and entry.size <= _LARGEST


async def list_tree(mirror: Mirror, tree: str, *, readable: bool = False) -> MirrorTree:
    """The commit or tree ``tree``; with ``readable`` only what ``read`` gives. Raises GitError."""
    listing = await mirror.listing(tree)
    if readable:
        listing = TreeListing(tuple(filter(is_readable, listing.entries)))
    return MirrorTree(mirror, listing)
