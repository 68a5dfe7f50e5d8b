"""A history beside the files of a workspace: git works on it, a command cannot change it for others, and it is no change."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gatewright.git.mirror import Mirrors
from gatewright.workspace import Workspaces
from gatewright.workspace.history import HistoryRules, WantedHistory
from tests.git.repositories import Repository
from tests.workspace.conftest import Project
from tests.workspace.shells import Shell

ALL = WantedHistory(HistoryRules(100, lambda _: False, lambda _: False), "all")
NONE_OF_APP = WantedHistory(HistoryRules(100, lambda path: path.startswith(b"src/"), lambda _: False), "no src")


def digest_of(folder: Path) -> str:
    """Of the contents of all files below ``folder``."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in found)).hexdigest()


async def test_git_finds_the_commit_and_nothing_changed(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit, history=ALL) as workspace:
        said = await shell(workspace, "git rev-parse HEAD; git status --porcelain; git fsck --connectivity-only 2>&1")
        assert said.stdout.decode().split("\n")[:2] == [project.commit, ""]
        assert await workspace.changes() == ()


async def test_what_a_command_does_to_the_history_is_gone(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit, history=ALL) as workspace:
        assert workspace.history is not None
        before, kept = digest_of(workspace.history), workspace.history
        await shell(
            workspace, "echo x >>README.md; git commit -qam x; echo evil >.git/config; rm -r .git/objects; echo x >.git/new"
        )
        assert [change.path for change in await workspace.changes()] == [b"README.md"]
        assert digest_of(kept) == before
    async with workspaces.open(project.mirror, project.commit, history=ALL) as workspace:
        assert (await shell(workspace, "git log --format=%s")).stdout == b"first\n"


async def test_histories_of_other_rules_are_apart(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    for wanted, shown in ((ALL, b"one\n"), (NONE_OF_APP, b"[withheld: the path is masked]\n"), (ALL, b"one\n")):
        async with workspaces.open(project.mirror, project.commit, history=wanted) as workspace:
            assert (await shell(workspace, "git show HEAD:src/app.py")).stdout == shown


async def test_a_repository_of_sha256_has_a_history(workspaces: Workspaces, tmp_path: Path, shell: Shell) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "home").mkdir()
    repository = Repository(tmp_path / "repository", tmp_path / "home")
    repository.path.mkdir()
    repository.git("init", "--quiet", "--initial-branch=main", "--object-format=sha256")
    commit = repository.commit({"a.py": b"x\n"}, "first")
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    await mirror.resolve("HEAD")
    async with workspaces.open(mirror, commit, history=ALL) as workspace:
        assert (await shell(workspace, "git log --format=%H; git status --porcelain")).stdout.decode() == f"{commit}\n"


@pytest.mark.parametrize("name", ["config", "hooks", "objects/info/alternates", "FETCH_HEAD", "logs"])
async def test_a_history_brings_nothing_of_the_mirror(workspaces: Workspaces, project: Project, name: str) -> None:
    async with workspaces.open(project.mirror, project.commit, history=ALL) as workspace:
        assert workspace.history is not None
        found = workspace.history / name
        assert not found.exists() or (name == "config" and str(project.mirror.path) not in found.read_text())
