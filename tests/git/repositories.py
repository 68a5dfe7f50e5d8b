"""Real repositories as their owners have them, and traps that show whether anything of theirs was run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gatewright.git.host.user_checkout import UserCheckout
from gatewright.git.mirror import Mirror

IDENTITY = {
    "GIT_AUTHOR_NAME": "A. Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "A. Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
}


@dataclass(frozen=True)
class Repository:
    """A repository driven by plain git, without any of Gatewright's hardening."""

    path: Path
    home: Path

    @property
    def url(self) -> str:
        return str(self.path)

    def git(self, *args: str, stdin: bytes = b"", check: bool = True) -> bytes:
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1", **IDENTITY}
        argv = ["git", "-C", str(self.path), *args]
        return subprocess.run(argv, input=stdin, env=variables, capture_output=True, check=check).stdout

    @property
    def checkout(self) -> UserCheckout:
        """As the command line reads it, for a user whose home folder is ``home``."""
        return UserCheckout(self.path, {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"})

    def commit(self, files: Mapping[str, bytes | None], message: str = "change") -> str:
        """Write (for None: delete) files, commit everything and return the commit id."""
        for name, content in files.items():
            target = self.path / name
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", message)
        return self.head()

    def head(self, name: str = "HEAD") -> str:
        return self.git("rev-parse", "--verify", f"{name}^{{commit}}").decode().strip()

    def exists(self, name: str) -> bool:
        return bool(self.git("rev-parse", "--verify", "--quiet", name, check=False))

    def configure(self, **settings: str | Path) -> None:
        """``core__fsmonitor="x"`` sets ``core.fsmonitor``."""
        for key, value in settings.items():
            self.git("config", key.replace("__", "."), str(value))

    def hook(self, name: str, program: Path) -> None:
        directory = self.path / ".git" / "hooks"
        directory.mkdir(exist_ok=True)
        (directory / name).unlink(missing_ok=True)
        (directory / name).symlink_to(program)


@dataclass(frozen=True)
class Trap:
    """A program that leaves a mark when anything runs it; its exit code is 0."""

    program: Path

    @property
    def mark(self) -> Path:
        return self.program.with_suffix(".sprung")

    @property
    def sprung(self) -> bool:
        return self.mark.exists()


@dataclass(frozen=True)
class Known:
    """A mirror and a commit that it holds."""

    mirror: Mirror
    commit: str

    async def contents(self, tree: str) -> dict[bytes, tuple[str, bytes]]:
        """Mode and content by path."""
        entries = await self.mirror.files(tree)
        blobs = await self.mirror.blobs(entry.object_id for entry in entries)
        return {entry.path: (entry.mode, blobs[entry.object_id]) for entry in entries}


class MakeRepository(Protocol):
    def __call__(
        self, name: str = "source", *, files: Mapping[str, bytes] | None = None, sha256: bool = False
    ) -> Repository: ...


class MakeTrap(Protocol):
    def __call__(self, name: str = "trap") -> Trap: ...
