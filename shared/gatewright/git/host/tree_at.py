"""The files of one commit of a repository on this host: names immediately, contents on request."""

from __future__ import annotations

import asyncio

from gatewright.git.command import GitCommand
from gatewright.git.host.user_checkout import UserCheckout

_LARGEST = 1024 * 1024
_REGULAR = frozenset({b"100644", b"100755"})


class TreeAt:
    """The regular files with UTF-8 names. Created by ``tree_at``."""

    def __init__(self, git: GitCommand, objects: dict[str, str]) -> None:
        self._git = git
        self._objects = objects

    @property
    def paths(self) -> frozenset[str]:
        """POSIX paths from the top of the repository."""
        return frozenset(self._objects)

    async def read(self, path: str) -> bytes | None:
        """The content of ``path``, None when there is no such file or it is larger than a megabyte. Raises GitError."""
        found = self._objects.get(path)
        return None if found is None else await asyncio.to_thread(self._git.execute, "cat-file", "blob", found)


def tree_at(checkout: UserCheckout, ref: str) -> TreeAt:
    """The tree of the commit that ``ref`` names. Raises GitError."""
    git = checkout.objects
    listed = git.execute("ls-tree", "-r", "-z", "-l", "--full-tree", checkout.commit_named(ref))
    objects = {}
    for line in listed.split(b"\0"):
        about, _, name = line.partition(b"\t")
        mode, _, rest = about.partition(b" ")
        if mode not in _REGULAR:
            continue
        _, object_id, size = rest.split()
        try:
            path = name.decode()
        except UnicodeDecodeError:
            continue
        if int(size) <= _LARGEST:
            objects[path] = object_id.decode()
    return TreeAt(git, objects)
