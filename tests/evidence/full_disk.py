"""A disk that has no room from a chosen step on, until somebody makes some; and one that is slow to say so."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from gatewright.evidence.disk import Disk


class FullDisk(Disk):
    """Takes ``steps`` more writing steps, then refuses; what is refused leaves a part of it behind, as a full disk does."""

    def __init__(self, steps: int = 0) -> None:
        super().__init__()
        self.steps = steps

    def make_room(self) -> None:
        self.steps = 1_000_000

    def create(self, path: Path, data: bytes) -> None:
        if not self._takes():
            super().create(path, data[: len(data) // 2])
            self._refuse(path)
        super().create(path, data)

    def append(self, path: Path, data: bytes, at: int) -> None:
        if not self._takes():
            super().append(path, data[: len(data) // 2], at)
            self._refuse(path)
        super().append(path, data, at)

    def sync(self, paths: Sequence[Path]) -> None:
        if not self._takes():
            self._refuse(paths[0])
        super().sync(paths)

    def make_folder(self, path: Path) -> None:
        if not path.is_dir() and not self._takes():
            self._refuse(path)
        super().make_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        if not self._takes():
            self._refuse(target)
        super().rename(source, target)

    def _takes(self) -> bool:
        self.steps -= 1
        return self.steps >= 0

    def _refuse(self, path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
