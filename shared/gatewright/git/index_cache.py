"""Index files by tree, so that a patch on a known tree starts from a link instead of reading the whole tree.

An index is never changed in place: git writes a new file beside it and renames. A hard link of a cached index is therefore
a private copy at no cost.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

#: Index files kept; one is about 80 bytes for each file of its tree.
_KEPT = 8


class IndexCache:
    """Index files in ``directory`` (of the mirror's file system), shared by threads and processes."""

    def __init__(self, directory: Path, read_tree: Callable[[str, Path], None]) -> None:
        """``read_tree(tree, path)`` makes the index file of a tree."""
        self._directory = directory
        self._read_tree = read_tree

    @contextlib.contextmanager
    def private(self, tree: str) -> Iterator[Path]:
        """Yield a private index file of ``tree``, removed with everything beside it when the block ends."""
        with tempfile.TemporaryDirectory(dir=self._directory, prefix="use-") as space:
            index = Path(space) / "index"
            if not self._link(tree, index):
                self._read_tree(tree, index)
                self.keep(tree, index)
            yield index

    @contextlib.contextmanager
    def empty(self) -> Iterator[Path]:
        """Yield the path for a new private index file."""
        with tempfile.TemporaryDirectory(dir=self._directory, prefix="use-") as space:
            yield Path(space) / "index"

    def keep(self, tree: str, index: Path) -> None:
        """Remember ``index``, a private file that holds ``tree`` now; it stays private."""
        shared = index.with_name("kept")
        _share(index, shared)
        shared.replace(self._directory / tree)
        self._forget_oldest()

    def forget(self, tree: str) -> None:
        """Drop what is kept for ``tree``: it may be damaged."""
        (self._directory / tree).unlink(missing_ok=True)

    def _link(self, tree: str, index: Path) -> bool:
        cached = self._directory / tree
        try:
            os.utime(cached)
            _share(cached, index)
        except FileNotFoundError:
            return False
        return True

    def _forget_oldest(self) -> None:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._directory) as entries:
            ages = sorted((entry.stat().st_mtime, entry.path) for entry in entries if entry.is_file())
            for _, path in ages[:-_KEPT]:
                Path(path).unlink(missing_ok=True)


def _share(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except PermissionError:
        # Some file systems have no hard links.
        shutil.copyfile(source, target)
