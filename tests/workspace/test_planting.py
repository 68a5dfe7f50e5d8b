"""Files that are shown beside those of a tree, which may have been made to lead them elsewhere."""

from __future__ import annotations

import pytest

from gatewright.errors import DeniedError
from gatewright.git.changes import FileChange
from gatewright.workspace import Workspaces
from tests.workspace.conftest import Project
from tests.workspace.shells import Shell

PLANTED = {b"src/_version.py": b"v = 1\n", b"new/deep/file": b"deep\n"}


async def test_a_planted_file_is_found_beside_the_tree_s_own(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit, planted=PLANTED) as workspace:
        listed = await shell(workspace, "cat src/_version.py new/deep/file src/app.py; ls src")
        assert listed.stdout.split() == [b"v", b"=", b"1", b"deep", b"one", b"_version.py", b"app.py", b"deep", b"up"]
        assert await workspace.changes() == ()


async def test_what_becomes_of_a_planted_file_is_no_change(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit, planted=PLANTED) as workspace:
        await shell(workspace, "echo other >src/_version.py; rm -r new; echo two >src/app.py")
        assert [change.path for change in await workspace.changes()] == [b"src/app.py"]


async def test_a_planted_file_lies_over_a_candidate_too(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    changes = (FileChange(b"only/one.txt", None), FileChange(b"src/more.py", "100644", b"more\n"))
    tree = await project.mirror.write_tree(project.commit, changes)
    planted = {b"only/here": b"planted\n", b"src/_version.py": b"v\n"}
    async with workspaces.open(project.mirror, project.commit, tree, planted=planted) as workspace:
        listed = await shell(workspace, "ls only; cat src/more.py src/_version.py")
        assert listed.stdout.split() == [b"here", b"more", b"v"]
        assert await workspace.changes() == ()


@pytest.mark.parametrize(
    "path", [b"README.md", b"link", b"dangling", b"secret", b"src", b"link/x", b"src/up/x", b"dangling/x", b"secret/x"]
)
async def test_a_place_that_the_tree_has_or_leads_elsewhere_is_refused(
    workspaces: Workspaces, project: Project, path: bytes
) -> None:
    with pytest.raises(DeniedError) as refused:
        async with workspaces.open(project.mirror, project.commit, planted={path: b"planted"}):
            pass
    assert refused.value.reason == "place_not_free"


@pytest.mark.parametrize(
    "path",
    [
        b"/etc/x",
        b"../x",
        b"a/../../x",
        b"",
        b"a//b",
        b"./a",
        b".git/hooks/x",
        b"a/.GIT/x",
        b"x" * 256,
        b"x\0",
        b"y/" * 2500 + b"y",
    ],
)
async def test_a_path_that_no_tree_may_hold_is_refused(workspaces: Workspaces, project: Project, path: bytes) -> None:
    with pytest.raises(DeniedError) as refused:
        async with workspaces.open(project.mirror, project.commit, planted={path: b"planted"}):
            pass
    assert refused.value.reason == "unsafe_path"


async def test_planted_files_do_not_lie_in_each_other(workspaces: Workspaces, project: Project) -> None:
    with pytest.raises(DeniedError) as refused:
        async with workspaces.open(project.mirror, project.commit, planted={b"a": b"", b"a/b": b""}):
            pass
    assert refused.value.reason == "place_not_free"
