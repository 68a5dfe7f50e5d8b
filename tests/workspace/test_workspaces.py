"""What a command finds in a workspace, and what is left of it afterwards: nothing."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path

import pytest

from gatewright.errors import GitError, MalformedError
from gatewright.git.changes import FileChange
from gatewright.sandbox import make_sandbox
from gatewright.workspace import Workspaces
from gatewright.workspace import workspaces as workspaces_module
from tests.workspace.conftest import FILES, LIMITS, Project
from tests.workspace.shells import Shell


def all_below(root: Path) -> dict[str, bytes | str]:
    """Path to content, or to the target of a link, of everything below a folder."""
    found: dict[str, bytes | str] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            if path.is_symlink():
                found[str(path.relative_to(root))] = str(path.readlink())
            elif path.is_file():
                found[str(path.relative_to(root))] = path.read_bytes()
    return found


def left_by_makers(root: Path) -> list[Path]:
    return list(root.glob("*/*/baselines/.makers-*/*"))


def tasks_of(root: Path) -> list[Path]:
    return list(root.glob("*/*/tasks/*"))


async def test_workspace_shows_the_commit(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit) as workspace:
        listed = await shell(workspace, "find . -type f -print0 | LC_ALL=C sort -z; test -x run.sh; test ! -x README.md")
        assert {name for name in listed.stdout.split(b"\0") if name} == {b"./" + os.fsencode(name) for name in FILES}
        assert (await shell(workspace, "cat data/binary")).stdout == FILES["data/binary"]
        assert (await shell(workspace, "readlink link src/up secret dangling")).stdout.split() == [
            *(b"README.md", b"..", b"/etc/passwd", b"nowhere")
        ]
        assert await workspace.changes() == ()


async def test_there_is_no_git_directory_inside(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit) as workspace:
        await shell(workspace, "test ! -e .git")


async def test_attributes_of_the_tree_convert_nothing(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    """Filters, line ends and keywords would make what is tested differ from what lands."""
    files: dict[str, bytes | None] = {
        ".gitattributes": b"*.txt text eol=crlf ident filter=evil working-tree-encoding=UTF-16\n*.bat eol=crlf\n",
        "a.txt": b"$Id$\nline\n",
    }
    attributes = project.repository.path / ".git" / "info" / "attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* -text -ident -filter -working-tree-encoding\n")
    commit = project.repository.commit(files)
    await project.mirror.resolve("HEAD")
    async with workspaces.open(project.mirror, commit) as workspace:
        assert (await shell(workspace, "cat a.txt")).stdout == b"$Id$\nline\n"
        assert await workspace.changes() == ()


async def test_workspace_shows_a_candidate_tree(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    wanted = (
        FileChange(b"README.md", "100644", b"changed\n"),
        FileChange(b"link", "100644", b"a file now\n"),
        FileChange(b"new/deep/file", "100755", b"#!/bin/sh\n"),
        FileChange(b"new/link", "120000", b"../README.md"),
        FileChange(b"src", None),
        FileChange(b"only", "100644", b"was a folder\n"),
        FileChange(b"data/zero", None),
        FileChange(b"run.sh", None),
        FileChange(b"run.sh/inside", "100644", b"was a file\n"),
    )
    tree = await project.mirror.write_tree(project.commit, wanted)
    async with workspaces.open(project.mirror, project.commit, tree) as workspace:
        listed = await shell(
            workspace, "find . ! -path './odd*' | LC_ALL=C sort; cat README.md only link run.sh/inside; test -x new/deep/file"
        )
        assert listed.stdout.decode().split("\n") == [
            *(".", "./README.md", "./dangling", "./data", "./data/binary", "./link", "./new", "./new/deep", "./new/deep/file"),
            *("./new/link", "./only", "./run.sh", "./run.sh/inside", "./secret"),
            *("changed", "was a folder", "a file now", "was a file", ""),
        ]
        assert await workspace.changes() == ()


async def test_a_change_on_a_candidate_is_compared_with_the_candidate(
    workspaces: Workspaces, project: Project, shell: Shell
) -> None:
    changes = (
        FileChange(b"README.md", "100644", b"candidate\n"),
        FileChange(b"only/one.txt", None),
        FileChange(b"added", "100644"),
    )
    tree = await project.mirror.write_tree(project.commit, changes)
    async with workspaces.open(project.mirror, project.commit, tree) as workspace:
        await shell(workspace, "echo candidate >README.md; rm added; mkdir only; echo alone >only/one.txt; echo x >>src/app.py")
        assert await workspace.changes() == (
            FileChange(b"added", None),
            FileChange(b"only/one.txt", "100644", b"alone\n"),
            FileChange(b"src/app.py", "100644", b"one\nx\n"),
        )


async def test_folder_emptied_by_the_candidate_is_not_seen(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    """git has no empty folders; for Python an empty folder is a package."""
    tree = await project.mirror.write_tree(project.commit, (FileChange(b"src/deep", None), FileChange(b"only/one.txt", None)))
    async with workspaces.open(project.mirror, project.commit, tree) as workspace:
        await shell(workspace, "test ! -e only; test ! -e src/deep; test -e src/app.py; mkdir only src/deep")
        assert await workspace.changes() == ()


async def test_baseline_is_not_changed_by_what_a_command_does(
    workspaces: Workspaces, project: Project, shell: Shell, tmp_path: Path
) -> None:
    destroy = (
        "rm -rf src only; echo x >README.md; chmod 777 run.sh; mv data moved; touch new; ln -f moved/binary hard; echo >>hard"
    )
    async with workspaces.open(project.mirror, project.commit) as workspace:
        checkout = workspace.lower[-1]
        before = all_below(checkout)
        await shell(workspace, destroy)
        assert len(await workspace.changes()) > 5
    assert all_below(checkout) == before
    async with workspaces.open(project.mirror, project.commit) as workspace:
        assert await workspace.changes() == ()
        assert (await shell(workspace, "cat README.md")).stdout == FILES["README.md"]


async def test_workspaces_do_not_see_each_other(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit) as one, workspaces.open(project.mirror, project.commit) as other:
        await asyncio.gather(shell(one, "echo one >mine"), shell(other, "echo other >mine; echo x >README.md"))
        assert await one.changes() == (FileChange(b"mine", "100644", b"one\n"),)
        assert len(await other.changes()) == 2


async def test_several_commands_work_on_the_same_files(workspaces: Workspaces, project: Project, shell: Shell) -> None:
    async with workspaces.open(project.mirror, project.commit) as workspace:
        await shell(workspace, "rm README.md; mkdir README.md; echo x >README.md/x")
        await shell(workspace, "rm -r README.md; echo 'read me' >README.md; echo 2 >second")
        assert await workspace.changes() == (FileChange(b"second", "100644", b"2\n"),)


MESS = (
    "mkdir -p locked/below ro; touch locked/below/file ro/file; chmod 000 locked/below/file locked/below locked; chmod 555 ro;"
    "mkfifo pipe; ln -s /etc/passwd out; ln -s / root; chmod 444 README.md; touch -- '-rf' '*';"
    "for i in $(seq 40); do mkdir -p a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z; cd -P a/b/c/d/e/f/g/h/i/j; done"
)


async def test_nothing_is_left_whatever_was_left_behind(
    workspaces: Workspaces, project: Project, shell: Shell, home_of_tests: Path
) -> None:
    async with workspaces.open(project.mirror, project.commit) as workspace:
        await shell(workspace, MESS)
        assert tasks_of(home_of_tests) == [workspace.task]
    assert tasks_of(home_of_tests) == []
    assert os.access("/etc/passwd", os.R_OK)


async def test_nothing_is_left_after_a_cancel(workspaces: Workspaces, project: Project, home_of_tests: Path) -> None:
    sandbox = make_sandbox("bubblewrap")

    async def work() -> None:
        async with workspaces.open(project.mirror, project.commit) as workspace:
            await sandbox.run(("sh", "-c", "touch a; sleep 30"), workspace=workspace, prefix=None, limits=LIMITS)

    for delay in (0.0, 0.005, 0.02, 0.1, 0.3):
        task = asyncio.ensure_future(work())
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tasks_of(home_of_tests) == []


async def test_a_cancel_while_the_folder_is_being_made_leaves_none(
    workspaces: Workspaces, project: Project, home_of_tests: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await workspaces.prepare()
    made, make, begun = threading.Event(), workspaces_module._new_task, asyncio.Event()
    loop = asyncio.get_running_loop()

    def slowly(tasks: Path) -> tuple[Path, int]:
        task = make(tasks)
        loop.call_soon_threadsafe(begun.set)
        made.wait(20)
        return task

    async def work() -> None:
        async with workspaces.open(project.mirror, project.commit):
            pytest.fail("it was cancelled before")

    monkeypatch.setattr(workspaces_module, "_new_task", slowly)
    task = asyncio.ensure_future(work())
    await begun.wait()
    task.cancel()
    made.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert tasks_of(home_of_tests) == []


async def test_kind_of_workspace_is_found_out(tmp_path: Path, project: Project, shell: Shell) -> None:
    tried = Workspaces(tmp_path / "tried")
    async with tried.open(project.mirror, project.commit) as workspace:
        assert workspace.overlay == (not tried.overlay_fault)
        await shell(workspace, "echo x >new")
        assert await workspace.changes() == (FileChange(b"new", "100644", b"x\n"),)


@pytest.mark.long
async def test_copies_serve_where_overlays_cannot_be_had(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    async def fault(*_: object) -> str:
        return "this kernel has none"

    monkeypatch.setattr("gatewright.workspace.workspaces.overlay_fault", fault)
    tried = Workspaces(tmp_path / "tried")
    async with tried.open(project.mirror, project.commit) as workspace:
        assert (workspace.overlay, tried.overlay_fault) == (False, "this kernel has none")
        await shell(workspace, "echo x >README.md")
        assert len(await workspace.changes()) == 1


async def test_without_a_sandbox_workspaces_are_copies(tmp_path: Path, project: Project) -> None:
    sandbox = make_sandbox("none")
    async with Workspaces.for_sandbox(tmp_path / "plain", sandbox).open(project.mirror, project.commit) as workspace:
        completed = await sandbox.run(("sh", "-c", "echo x >>README.md"), workspace=workspace, prefix=None, limits=LIMITS)
        assert completed.exit_code == 0
        assert await workspace.changes() == (FileChange(b"README.md", "100644", b"read me\nx\n"),)


@pytest.mark.parametrize("commit", ["../../etc", "HEAD", "", "-x"])
async def test_baseline_must_be_a_full_commit_id(overlays: Workspaces, project: Project, commit: str) -> None:
    with pytest.raises(MalformedError):
        async with overlays.open(project.mirror, commit):
            pass


async def test_unknown_commit_leaves_nothing(overlays: Workspaces, project: Project, home_of_tests: Path) -> None:
    with pytest.raises(GitError):
        async with overlays.open(project.mirror, "1" * 40):
            pass
    assert left_by_makers(home_of_tests) == []
