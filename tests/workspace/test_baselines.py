"""The shared checkouts: made once, kept while used, and never half made."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.git.mirror import Mirror
from gatewright.sandbox import sandbox_account
from gatewright.workspace import Workspaces
from gatewright.workspace.baselines import Baselines
from gatewright.workspace.holds import hold
from gatewright.workspace.tree_writer import TreeWriter
from tests.waiting import PATIENCE
from tests.workspace.conftest import Project
from tests.workspace.shells import Shell

OPENER = """
import asyncio, sys
from pathlib import Path
from gatewright.git.mirror import Mirrors
from gatewright.sandbox import sandbox_account
from gatewright.workspace.baselines import Baselines
async def main():
    mirror = await Mirrors(Path(sys.argv[1])).open(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    async with Baselines(Path(sys.argv[4]), sandbox_account(), most=16).use(mirror, sys.argv[3]) as files:
        print(len(list(files.rglob("*"))), files.stat().st_ino, flush=True)
asyncio.run(main())
"""


def kept(root: Path) -> set[str]:
    return {place.name for place in root.iterdir() if not place.name.startswith(".")}


@pytest.fixture
def commits(project: Project) -> list[str]:
    """Four commits that are in the mirror."""

    async def make() -> list[str]:
        made = []
        for number in range(4):
            made.append(project.repository.commit({"number": b"%d\n" % number}))
            await project.mirror.resolve("HEAD")
        return made

    return asyncio.run(make())


def test_processes_that_start_at_once_share_one_checkout(project: Project, tmp_path: Path) -> None:
    mirrors = project.mirror.path.parent
    argv = (sys.executable, "-c", OPENER, str(mirrors), project.repository.url, project.commit, str(tmp_path / "baselines"))
    openers = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = []
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        answers.append(opener.communicate("go\n", timeout=PATIENCE)[0])
        assert opener.returncode == 0
    assert len(set(answers)) == 1
    assert kept(tmp_path / "baselines") == {project.commit}


async def test_longest_unused_checkout_goes_first(project: Project, commits: list[str], tmp_path: Path) -> None:
    baselines = Baselines(tmp_path, sandbox_account(), most=2)
    for commit in (*commits[:2], commits[0], commits[2]):
        async with baselines.use(project.mirror, commit):
            await asyncio.sleep(0.01)
    assert kept(tmp_path) == {commits[0], commits[2]}


async def test_checkout_in_use_does_not_go(project: Project, commits: list[str], tmp_path: Path) -> None:
    baselines = Baselines(tmp_path, sandbox_account(), most=1)
    async with baselines.use(project.mirror, commits[0]) as files:
        for commit in commits[1:]:
            async with Baselines(tmp_path, sandbox_account(), most=1).use(project.mirror, commit):
                pass
        assert (files / "number").read_bytes() == b"0\n"
    assert commits[0] in kept(tmp_path)


async def test_many_tasks_at_once_are_served_while_others_go(project: Project, commits: list[str], tmp_path: Path) -> None:
    baselines = Baselines(tmp_path, sandbox_account(), most=1)

    async def use(number: int) -> bytes:
        async with baselines.use(project.mirror, commits[number % 4]) as files:
            await asyncio.sleep(0.005)
            return (files / "number").read_bytes()

    assert await asyncio.gather(*(use(number) for number in range(24))) == [b"%d\n" % (number % 4) for number in range(24)]


async def test_what_a_dead_maker_left_is_not_used(project: Project, tmp_path: Path) -> None:
    left = tmp_path / f".makers-{project.commit[:2]}" / "half"
    (left / "files").mkdir(parents=True)
    (left / "files" / "README.md").write_text("half")
    async with Baselines(tmp_path, sandbox_account(), most=4).use(project.mirror, project.commit) as files:
        assert (files / "README.md").read_bytes() == b"read me\n"
    assert not left.exists()


async def test_checkout_of_many_batches_holds_what_git_does(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatewright.workspace.baselines._BATCH_FILES", 1)
    listed = os.fsdecode(project.repository.git("ls-tree", "-r", "-z", "--name-only", project.commit)).split("\0")[:-1]
    async with Baselines(tmp_path, sandbox_account(), most=1).use(project.mirror, project.commit) as files:
        made = {path.relative_to(files).as_posix() for path in files.rglob("*") if path.is_symlink() or not path.is_dir()}
        assert made == set(listed)
        for name in listed:
            file = files / name
            content = os.fsencode(file.readlink()) if file.is_symlink() else file.read_bytes()
            assert content == project.repository.git("cat-file", "blob", f"{project.commit}:{name}")


@pytest.mark.parametrize("end", ["the next batch cannot be read", "cancelled"])
async def test_nothing_is_left_of_a_checkout_that_ends_early(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    monkeypatch.setattr("gatewright.workspace.baselines._BATCH_FILES", 1)
    begun, release, write = threading.Event(), threading.Event(), TreeWriter.write

    def slowly(writer: TreeWriter, path: bytes, mode: str, content: bytes) -> None:
        begun.set()
        assert release.wait(30)
        write(writer, path, mode, content)

    async def gone(mirror: Mirror, ids: Iterable[str]) -> dict[str, bytes]:
        if not begun.is_set():
            return await blobs(mirror, ids)
        raise GitError("it is gone", code="object_missing")

    blobs = Mirror.blobs
    monkeypatch.setattr(TreeWriter, "write", slowly)
    if end != "cancelled":
        monkeypatch.setattr(Mirror, "blobs", gone)

    async def make() -> None:
        async with Baselines(tmp_path, sandbox_account(), most=1).use(project.mirror, project.commit):
            pass

    making = asyncio.create_task(make())
    assert await asyncio.to_thread(begun.wait, 30)
    if end == "cancelled":
        making.cancel()
    await asyncio.wait({making}, timeout=0.2)
    assert not making.done(), "a thread still writes"
    release.set()
    with pytest.raises(asyncio.CancelledError if end == "cancelled" else GitError):
        await making
    assert kept(tmp_path) == set()
    assert list(next(tmp_path.glob(".makers-*")).iterdir()) == []


async def test_what_dead_processes_and_earlier_boots_left_is_removed(project: Project, tmp_path: Path) -> None:
    root = tmp_path / "root"
    earlier = root / "00000000-0000-0000-0000-000000000000" / "baselines" / project.commit / "files"
    earlier.mkdir(parents=True)
    (earlier / "README.md").write_text("torn by a power cut")
    async with Workspaces(root, overlay=False).open(project.mirror, project.commit) as workspace:
        tasks = workspace.task.parent
        assert workspace.path is not None
        assert (workspace.path / "README.md").read_bytes() == b"read me\n"
        (tasks / "abandoned" / "writable").mkdir(parents=True)
        async with Workspaces(root, overlay=False).open(project.mirror, project.commit):
            assert not (tasks / "abandoned").exists()
            assert workspace.task.exists()
    assert not earlier.exists()


async def test_submodule_is_an_empty_folder(overlays: Workspaces, project: Project, shell: Shell) -> None:
    project.repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},vendor/module")
    project.repository.git("commit", "--quiet", "-m", "submodule")
    commit = await project.mirror.resolve("HEAD")
    async with overlays.open(project.mirror, commit) as workspace:
        await shell(workspace, "test -d vendor/module; rmdir vendor/module")
        assert await workspace.changes() == ()


def test_hold_keeps_others_from_taking_it_alone(tmp_path: Path) -> None:
    first, second = hold(tmp_path, exclusive=False), hold(tmp_path, exclusive=False)
    assert first is not None
    assert second is not None
    assert hold(tmp_path, exclusive=True) is None
    os.close(first)
    os.close(second)
    alone = hold(tmp_path, exclusive=True)
    assert alone is not None
    assert hold(tmp_path, exclusive=False) is None
    os.close(alone)
    assert hold(tmp_path / "missing", exclusive=True) is None
