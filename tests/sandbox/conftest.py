"""Fixtures of the sandbox: a real one, a folder it works in, and a Python to attack it with."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from gatewright.sandbox import Completed, SandboxLimits, sandbox_account
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.environments import Shown
from tests.sandbox.places import Folder, Run

#: Short, so that a command that ought to be stopped and is not fails its test soon.
LIMITS = SandboxLimits(wall_seconds=20)


@pytest.fixture
def place(tmp_path: Path) -> Folder:
    """A folder that commands may write to."""
    folder = tmp_path / "place"
    folder.mkdir()
    account = sandbox_account()
    if account.switched:
        os.chown(folder, account.uid, account.gid)
    return Folder(folder)


@pytest.fixture
def sandbox() -> BubblewrapSandbox:
    return BubblewrapSandbox()


@pytest.fixture
def run(sandbox: BubblewrapSandbox, place: Folder) -> Run:
    async def run_words(*argv: str, limits: SandboxLimits | None = None, prefix: Shown = None) -> Completed:
        return await sandbox.run(argv, workspace=place, prefix=prefix, limits=limits or LIMITS)

    return run_words


@pytest.fixture
def python() -> Path:
    """The environment that the tests run in: an attacker with a whole programming language."""
    return Path(sys.prefix)
