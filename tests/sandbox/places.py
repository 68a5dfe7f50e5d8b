"""A plain folder for a sandbox to work in, and what the tests say about processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gatewright.sandbox import Completed, SandboxLimits
from gatewright.sandbox.environments import Shown


@dataclass(frozen=True)
class Folder:
    """A ``Place`` that is nothing but a folder of the host."""

    path: Path
    path_inside: str = "/workspace"

    @property
    def mounts(self) -> tuple[str, ...]:
        return ("--bind", str(self.path), self.path_inside)

    @property
    def sources(self) -> tuple[Path, ...]:
        return (self.path,)

    def has_room(self, place: str) -> bool:
        return not (self.path / place).is_symlink()

    @property
    def scratch(self) -> Path:
        return self.path


class Run(Protocol):
    """Runs words in the sandbox, in one folder; ``prefix`` is an environment."""

    async def __call__(self, *argv: str, limits: SandboxLimits | None = None, prefix: Shown = None) -> Completed: ...


def processes_with(word: str) -> list[int]:
    """The processes of this host that have ``word`` somewhere on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
