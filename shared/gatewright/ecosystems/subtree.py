"""A folder of a tree, treated as the tree: for a command that a script starts in that folder."""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import Any

from gatewright.ecosystems.port import TreeFiles
from gatewright.foreign_documents import UnreadableDocumentError, read_toml


class Subtree:
    """The files of ``tree`` below ``folder``, by their paths from there."""

    def __init__(self, tree: TreeFiles, folder: str) -> None:
        self._tree = tree
        self._folder = folder

    @cached_property
    def paths(self) -> frozenset[str]:
        """Return all files below the folder."""
        start = f"{self._folder}/"
        return frozenset(path.removeprefix(start) for path in self._tree.paths if path.startswith(start))

    async def read(self, path: str) -> bytes | None:
        """See ``TreeFiles.read``."""
        return await self._tree.read(posixpath.join(self._folder, path))


def below(tree: TreeFiles, folder: str) -> TreeFiles:
    """``tree`` itself for its top."""
    return Subtree(tree, folder) if folder not in {"", "."} else tree


async def read_tables(tree: TreeFiles, path: str) -> dict[str, Any]:
    """A file of TOML; empty when there is none, or none that can be read."""
    try:
        return read_toml(await tree.read(path) or b"") if path in tree.paths else {}
    except UnreadableDocumentError:
        return {}


async def read_text(tree: TreeFiles, path: str) -> str:
    """A file's text, empty when there is none."""
    content = await tree.read(path) if path in tree.paths else None
    return "" if content is None else content.decode("utf-8", "replace")
