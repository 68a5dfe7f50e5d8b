"""The tree of a commit of a repository on this host, to be looked at: names, and contents of small files."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from gatewright.git.host.user_checkout import UserCheckout
from gatewright.git.modes import EXECUTABLE, FILE
from gatewright.git.objects import Objects

MOST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True)
class BaselineTree:
    """A ``TreeFiles``; ``ids`` are those of regular files by path."""

    objects: Objects
    ids: Mapping[str, str]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self.ids)

    async def read(self, path: str) -> bytes | None:
        """Return the content of a regular file of at most 8 MiB, a size that lock files need; None for anything else."""
        return await asyncio.to_thread(self._read_blob, path)

    def _read_blob(self, path: str) -> bytes | None:
        object_id = self.ids.get(path)
        if object_id is None or self.objects.sizes((object_id,)).get(object_id, MOST_BYTES + 1) > MOST_BYTES:
            return None
        return self.objects.blobs((object_id,))[object_id]


def baseline_tree(checkout: UserCheckout, ref: str) -> BaselineTree:
    """The tree of what ``ref`` names. Blocks. Raises GitError, MalformedError (``bad_ref``)."""
    git = checkout.objects
    objects = Objects(git, git.git_dir)
    ids = {}
    for entry in objects.files(checkout.commit_named(ref), ()):
        if entry.mode in (FILE, EXECUTABLE):
            try:
                ids[entry.path.decode("utf-8")] = entry.object_id
            except UnicodeDecodeError:
                continue
    return BaselineTree(objects, ids)
