"""Fixtures of the workspaces: a repository with everything that is awkward in it, its mirror, and a sandbox to work with."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from gatewright.git.mirror import Mirror, Mirrors
from gatewright.sandbox import Completed, SandboxLimits
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.workspace import Workspace, Workspaces
from tests.git.repositories import Repository
from tests.workspace.shells import Shell

LIMITS = SandboxLimits(wall_seconds=20)

FILES = {
    "README.md": b"read me\n",
    "run.sh": b"#!/bin/sh\necho run\n",
    "src/app.py": b"one\n",
    "src/deep/er/x.py": b"x\n",
    "src/deep/er/y.py": b"y\n",
    "only/one.txt": b"alone\n",
    "data/zero": b"",
    "data/binary": bytes(range(256)),
    "odd/a b": b"space\n",
    "odd/-dash": b"dash\n",
    "odd/new\nline": b"newline\n",
    'odd/"quote"': b"quote\n",
    "odd/caf\u00e9": b"utf-8\n",
    os.fsdecode(b"odd/\xff\xfe"): b"no utf-8\n",
}


@dataclass(frozen=True)
class Project:
    """A repository, its mirror, and the commit to work on."""

    repository: Repository
    mirror: Mirror
    commit: str


@pytest.fixture(scope="session")
def home_of_tests(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tests of this folder share, because it takes time to make and none of them changes it."""
    return tmp_path_factory.mktemp("workspaces")


@pytest.fixture(scope="session")
def project(home_of_tests: Path) -> Project:
    """Tests may add commits; ``commit`` stays."""
    (home_of_tests / "home").mkdir()
    repository = Repository(home_of_tests / "repository", home_of_tests / "home")
    repository.path.mkdir()
    repository.git("init", "--quiet", "--initial-branch=main")
    for name, target in (("link", "README.md"), ("src/up", ".."), ("secret", "/etc/passwd"), ("dangling", "nowhere")):
        (repository.path / name).parent.mkdir(exist_ok=True)
        (repository.path / name).symlink_to(target)
    for name, content in FILES.items():
        (repository.path / name).parent.mkdir(parents=True, exist_ok=True)
        (repository.path / name).write_bytes(content)
    (repository.path / "run.sh").chmod(0o755)
    commit = repository.commit({}, "first")

    async def mirror() -> Mirror:
        made = await Mirrors(home_of_tests / "mirrors").open(repository.url)
        assert await made.resolve("HEAD") == commit
        return made

    return Project(repository, asyncio.run(mirror()), commit)


@pytest.fixture
def overlays(home_of_tests: Path) -> Workspaces:
    return Workspaces(home_of_tests / "overlays", overlay=True)


@pytest.fixture
def copies(home_of_tests: Path) -> Workspaces:
    return Workspaces(home_of_tests / "copies", overlay=False)


@pytest.fixture(params=["overlay", "copy"])
def workspaces(request: pytest.FixtureRequest, overlays: Workspaces, copies: Workspaces) -> Workspaces:
    """Each test that uses this runs twice; both kinds must behave the same."""
    return overlays if request.param == "overlay" else copies


@pytest.fixture
def sandbox() -> BubblewrapSandbox:
    return BubblewrapSandbox()


@pytest.fixture
def shell(sandbox: BubblewrapSandbox) -> Shell:
    """Runs a script in a workspace, and fails the test when the script fails."""

    async def run_script(workspace: Workspace, script: str) -> Completed:
        completed = await sandbox.run(("sh", "-ec", script), workspace=workspace, prefix=None, limits=LIMITS)
        assert completed.exit_code == 0, completed.stderr
        return completed

    return run_script
