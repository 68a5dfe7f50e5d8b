"""Trees that are only looked at: names and contents in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Tree:
    """What ``TreeFiles`` is, over a dictionary."""

    files: Mapping[str, str]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self.files)

    async def read(self, path: str) -> bytes | None:
        content = self.files.get(path)
        return None if content is None else content.encode()


@dataclass(frozen=True)
class BytesTree:
    """The same over bytes, which need not be UTF-8."""

    files: Mapping[str, bytes]

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(self.files)

    async def read(self, path: str) -> bytes | None:
        return self.files.get(path)


def tree_of(*paths: str, **settings: str) -> Tree:
    """Empty files, and settings by name: ``pyproject``, ``setup_cfg``, ``setup_py``."""
    names = {"pyproject": "pyproject.toml", "setup_cfg": "setup.cfg", "setup_py": "setup.py"}
    return Tree(dict.fromkeys(paths, "") | {names[name]: content for name, content in settings.items()})
