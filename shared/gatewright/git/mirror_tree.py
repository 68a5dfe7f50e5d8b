"""A tree of a mirror as plain names and contents, as the looks at a repository want it (``ecosystems.port.TreeFiles``)."""

from __future__ import annotations

from gatewright.git.changes import TreeEntry, TreeListing
from gatewright.git.mirror import Mirror
from gatewright.git.modes import EXECUTABLE, FILE

#: Bytes of a file that is looked at.
_LARGEST = 1024 * 1024


class MirrorTree:
    """See ``TreeFiles``. Made by ``list_tree``."""

    def __init__(self, mirror: Mirror, listing: TreeListing, largest: int = _LARGEST) -> None:
        self._mirror = mirror
        self._listing = listing
        self._largest = largest

    @property
    def paths(self) -> frozenset[str]:
        """See ``TreeFiles``."""
        return self._listing.names

    async def read(self, path: str) -> bytes | None:
        """See ``TreeFiles``."""
        entry = self._listing.by_name.get(path)
        return await self._mirror.blob(entry.object_id) if entry is not None and is_readable(entry, self._largest) else None


def is_readable(entry: TreeEntry, largest: int = _LARGEST) -> bool:
    """Return whether it is a regular file within the size limit."""
    return entry.mode in {FILE, EXECUTABLE} and entry.size <= largest


async def list_tree(mirror: Mirror, tree: str, *, readable: bool = False, largest: int = _LARGEST) -> MirrorTree:
    """The commit or tree ``tree``; with ``readable`` only what ``read`` gives of files up to ``largest`` bytes. Raises
    GitError."""
    listing = await mirror.listing(tree)
    if readable:
        listing = TreeListing(tuple(each for each in listing.entries if is_readable(each, largest)))
    return MirrorTree(mirror, listing, largest)
