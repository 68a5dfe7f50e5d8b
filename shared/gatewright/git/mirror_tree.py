"""A tree of a mirror as plain names and contents, as the looks at a repository want it (``ecosystems.port.TreeFiles``)."""

from __future__ import annotations

from collections.abc import Mapping

from gatewright.git.changes import TreeEntry
from gatewright.git.mirror import Mirror
from gatewright.git.modes import EXECUTABLE, FILE

#: Bytes of a file that is looked at.
_LARGEST = 1024 * 1024


class MirrorTree:
    """See ``TreeFiles``. Made by ``list_tree``."""

    def __init__(self, mirror: Mirror, entries: Mapping[str, TreeEntry]) -> None:
        self._mirror = mirror
        self._entries = entries
        self._paths = frozenset(entries)

    @property
    def paths(self) -> frozenset[str]:
        """See ``TreeFiles``."""
        return self._paths

    async def read(self, path: str) -> bytes | None:
        """See ``TreeFiles``."""
        entry = self._entries.get(path)
        return await self._mirror.blob(entry.object_id) if entry is not None and is_readable(entry) else None


def is_readable(entry: TreeEntry) -> bool:
    """Whether it is a regular file that is looked at."""
    return entry.mode in {FILE, EXECUTABLE} and entry.size <= _LARGEST


async def list_tree(mirror: Mirror, tree: str, *, readable: bool = False) -> MirrorTree:
    """The commit or tree ``tree``; with ``readable`` only what ``read`` gives. Raises GitError."""
    entries = {}
    for entry in await mirror.files(tree):
        if readable and not is_readable(entry):
            continue
        try:
            entries[entry.path.decode()] = entry
        except UnicodeDecodeError:
            continue
    return MirrorTree(mirror, entries)
