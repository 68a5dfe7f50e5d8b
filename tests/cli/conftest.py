"""The command line in a folder of its own, and repositories to stand in."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import invoke

#: The keys of the last line of ``run --json``, in their order: programs read them.
RESULT_FIELDS = (
    *("run_id", "status", "bundle", "branch", "commit", "tree", "duration_sec"),
    *("failure", "retry_with", "remarks", "kind", "findings"),
)

MakeRepository = Callable[[str], Path]


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    exit_code: int
    out: str
    err: str

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Said]


@pytest.fixture
def gatewright(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs a command line in this process, standing in ``tmp_path``, with no GATEWRIGHT_ variable set."""
    for name in [name for name in os.environ if name.startswith("GATEWRIGHT_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run(*words: str | Path, stdin: str | None = None) -> Said:
        ended = invoke([str(word) for word in words], stdin)
        return Said(ended.returncode, ended.stdout, ended.stderr)

    return run


@pytest.fixture
def make_repository(tmp_path: Path) -> MakeRepository:
    """Makes a git repository with one commit."""

    def make(name: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "a.txt").write_text("a\n")
        identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
        for words in (("init", "-q"), ("add", "."), (*identity, "commit", "-q", "-m", "first")):
            subprocess.run(("git", *words), cwd=folder, check=True)
        return folder

    return make
