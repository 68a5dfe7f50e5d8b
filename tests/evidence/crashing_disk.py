"""A disk whose power fails at a chosen step, and that then loses what was not made durable."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from gatewright.evidence.disk import Disk

#: What becomes of files that were written and not synced: all of it was luckily kept, half of it was, or nothing.
Loss = Literal["kept", "halved", "gone"]


class PowerCutError(Exception):
    """The machine is off. Not an OSError: nothing may catch it."""


class CrashingDisk(Disk):
    """Works for ``steps`` steps. ``trail`` are the steps taken, for tests that look at their order."""

    def __init__(self, steps: int = 1_000_000, loss: Loss = "kept") -> None:
        super().__init__()
        self.trail: list[tuple[str, tuple[Path, ...]]] = []
        self._steps = steps
        self._loss = loss
        self._volatile: set[Path] = set()

    def create(self, path: Path, data: bytes) -> None:
        self._step("create", path)
        self._volatile.add(path)
        super().create(path, data)

    def append(self, path: Path, data: bytes, at: int) -> None:
        if len(self.trail) == self._steps and self._loss != "gone":
            super().append(path, data[: len(data) // 2], at)
        self._step("append", path)
        super().append(path, data, at)

    def protect(self, path: Path) -> None:
        self._step("protect", path)
        super().protect(path)

    def sync(self, paths: Sequence[Path]) -> None:
        """Nothing is synced, only remembered: a file lasts once it was named, and the folder that names it."""
        self._step("sync", *paths)
        assert all(path.exists() for path in paths)
        synced = {path for path in self._volatile if path in paths and (path.parent in paths or path.suffix == ".draft")}
        self._volatile -= synced

    def make_folder(self, path: Path) -> None:
        self._step("make_folder", path)
        super().make_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        self._step("rename", source, target)
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step("remove", path)
        super().remove(path)

    def _step(self, name: str, *paths: Path) -> None:
        if len(self.trail) >= self._steps:
            self._forget()
            raise PowerCutError
        self.trail.append((name, paths))

    def _forget(self) -> None:
        for path in self._volatile:
            if self._loss == "kept" or not path.exists():
                continue
            data = path.read_bytes()
            path.unlink()
            if self._loss == "halved":
                path.write_bytes(data[: len(data) // 2])
        self._volatile.clear()
