"""Mirrors that are kept small while they are used, by processes that may be killed at any time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.git.changes import FileChange
from gatewright.git.command import GitCommand
from gatewright.git.maintenance import NOTHING, MaintenanceResult, MaintenanceThresholds, hold_lock, mirrors_below, tend
from gatewright.git.mirror import Mirror, Mirrors
from tests.git.repositories import MakeRepository, Repository
from tests.series import lengths

LONG_AGO = time.time() - 90 * 86_400
SOME = MaintenanceThresholds(loose=1, packs=1_000, kept=1_000)
ALL = MaintenanceThresholds(loose=1, packs=0, kept=1_000)
#: A process that tends a mirror again and again, as fast as it can.
TENDING = """
import sys
from pathlib import Path
from gatewright.git.maintenance import MaintenanceThresholds, tend
while True:
    tend(Path(sys.argv[1]), MaintenanceThresholds(loose=1, packs=1, kept=2, unused=0))
    print("done", flush=True)
"""


def loose(mirror: Mirror) -> list[Path]:
    return [path for path in (mirror.path / "objects").glob("??/*") if path.is_file() and not path.name.startswith("tmp_obj_")]


def packs(mirror: Mirror) -> list[Path]:
    return list((mirror.path / "objects/pack").glob("*.pack"))


def kept(mirror: Mirror) -> set[str]:
    return {path.name for path in (mirror.path / "refs/gate/keep").iterdir()}


def as_if_long_ago(mirror: Mirror) -> None:
    for path in (*loose(mirror), *(mirror.path / "objects/pack").iterdir()):
        os.utime(path, (LONG_AGO, LONG_AGO))
    # In the order in which they were fetched.
    for number, path in enumerate(sorted((mirror.path / "refs/gate/keep").iterdir(), key=lambda path: path.stat().st_mtime_ns)):
        os.utime(path, (LONG_AGO + number, LONG_AGO + number))


async def some_trees(mirror: Mirror, base: str, number: int, word: str = "") -> list[str]:
    """Trees that no ref leads to, as candidates of runs are."""
    return [await mirror.write_tree(base, [FileChange(b"made", "100644", f"{word}{each}".encode())]) for each in range(number)]


async def some_commits(source: Repository, mirror: Mirror, number: int) -> list[str]:
    """Commits of the source, fetched one by one, of which only the last is on a branch."""
    made = []
    for each in range(number):
        made.append(source.commit({"f": f"{each}".encode()}))
        await mirror.ensure(made[-1])
    return made


async def test_a_mirror_is_packed_while_nothing_uses_it(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    base, trees = await mirror.resolve("main"), []
    for number in range(3):
        trees += await some_trees(mirror, base, 10, f"{number} ")
        assert loose(mirror)
        assert tend(mirror.path, ALL) == MaintenanceResult(packed=True, repacked=True)
        assert loose(mirror) == []
        # What refs lead to, the rest, and what was packed in this round.
        assert len(packs(mirror)) <= 3
    for tree in trees:
        assert len(await mirror.files(tree)) == len(await mirror.files(base)) + 1
    await GitCommand(mirror.path).run("fsck", "--strict", "--no-dangling")


@pytest.mark.parametrize("limits", [SOME, ALL, MaintenanceThresholds(loose=10_000, packs=0, kept=1_000)])
async def test_no_folder_goes_in_which_another_git_is_about_to_write(
    make_repository: MakeRepository, mirrors: Mirrors, limits: MaintenanceThresholds
) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    await some_trees(mirror, await mirror.resolve("main"), 5)
    for empty in ("5c", "c5"):
        (mirror.path / "objects" / empty).mkdir(exist_ok=True)
    folders = {path.parent for path in loose(mirror)} | {mirror.path / "objects" / empty for empty in ("5c", "c5")}
    for _ in range(2):
        assert tend(mirror.path, limits) != NOTHING
        await some_trees(mirror, await mirror.resolve("main"), 5, "more ")
    assert tend(mirror.path, ALL).repacked
    assert loose(mirror) == []
    assert all(folder.is_dir() for folder in folders)
    said = await GitCommand(mirror.path).run("fsck", "--strict", "--no-dangling")
    assert said == b""


async def test_a_mirror_with_little_in_it_is_left_alone(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    await some_trees(mirror, await mirror.resolve("main"), 5)
    before = sorted(loose(mirror))
    assert tend(mirror.path, MaintenanceThresholds()) == NOTHING
    assert sorted(loose(mirror)) == before


async def test_commits_that_no_run_uses_are_let_go(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    commits = await some_commits(source, mirror, 9)
    as_if_long_ago(mirror)
    done = tend(mirror.path, MaintenanceThresholds(loose=10_000, packs=1_000, kept=2), {commits[0]})
    assert done.dropped == 6
    assert commits[0] in kept(mirror)
    assert len(kept(mirror)) == 3


async def test_a_commit_that_is_used_is_kept_however_old_it_is(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    commits = await some_commits(source, mirror, 9)
    as_if_long_ago(mirror)
    another_process = await Mirrors(mirror.path.parent).open(source.url)
    await another_process.ensure(commits[3])
    tend(mirror.path, MaintenanceThresholds(loose=10_000, packs=1_000, kept=1))
    assert commits[3] in kept(mirror)


async def test_what_was_let_go_is_still_there_and_can_be_had_again(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    """Its ref goes at once, its objects much later: a task that began before goes on."""
    source = make_repository()
    mirror = await mirrors.open(source.url)
    first = source.head()
    await mirror.ensure(first)
    source.git("checkout", "--quiet", "--orphan", "other")
    await some_commits(source, mirror, 5)
    tree = await mirror.tree_of(first)
    as_if_long_ago(mirror)
    done = tend(mirror.path, MaintenanceThresholds(loose=10_000, packs=0, kept=1))
    assert done.dropped == 5
    assert done.repacked
    assert first not in kept(mirror)
    assert await mirror.files(tree)
    later = await Mirrors(mirror.path.parent).open(source.url)
    await later.ensure(first)
    assert first in kept(mirror)


async def test_what_nothing_leads_to_for_long_goes(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    base = await mirror.resolve("main")
    old = await some_trees(mirror, base, 3, "old")
    tend(mirror.path, SOME)
    as_if_long_ago(mirror)
    new = await some_trees(mirror, base, 3, "new")
    tend(mirror.path, ALL)
    again = await Mirrors(mirror.path.parent).open(source.url)
    assert [await again.has_tree(tree) for tree in (*old, *new)] == [False] * 3 + [True] * 3
    assert await again.files(base)


async def test_a_mirror_is_used_while_it_is_packed(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    with tending(mirror) as process:
        for number in range(8):
            commit = source.commit({"f": b"%d" % number})
            await mirror.ensure(commit)
            tree = await mirror.apply(commit, await mirror.diff(commit, await mirror.write_tree(commit, [change(number)])))
            assert len(await mirror.blobs({entry.object_id for entry in await mirror.files(tree)})) >= 2
            await asyncio.to_thread(wait_for_line, process)


@pytest.mark.parametrize("times", lengths(3, 8))
async def test_a_killed_maintenance_leaves_a_usable_mirror(
    make_repository: MakeRepository, mirrors: Mirrors, times: int
) -> None:
    """Killed at moments that are spread over its work, together with the git that it runs, or alone."""
    source = make_repository()
    mirror = await mirrors.open(source.url)
    base = await mirror.resolve("main")
    trees = []
    for number in range(times):
        trees += await some_trees(mirror, base, 4, f"{number} ")
        await mirror.ensure(source.commit({"f": b"%d" % number}))
        with tending(mirror, with_git=number % 2 == 0) as process:
            # Each time after one more of the processes that a look consists of has left something new.
            await asyncio.to_thread(wait_for_something_new, mirror, process)
    with hold_lock(mirror.path / "gate/maintenance", seconds=60):
        pass  # a git that was left alone has finished
    tend(mirror.path, ALL)
    await GitCommand(mirror.path).run("fsck", "--strict", "--no-dangling")
    again = await Mirrors(mirror.path.parent).open(source.url)
    assert all([await again.has_tree(tree) for tree in trees])
    await again.ensure(source.commit({"f": b"last"}))


async def test_what_killed_processes_left_is_removed(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    await some_trees(mirror, await mirror.resolve("main"), 2)
    objects, root = mirror.path / "objects", mirror.path.parent
    left = [
        objects / "pack/tmp_pack_1",
        objects / "pack/.tmp-9-pack-1.pack",
        objects / "ab/tmp_obj_1",
        mirror.path / "gate/use-1",
    ]
    fresh = objects / "pack/tmp_pack_2"
    for path in (*left, fresh, root / "new-1", objects / "maintenance.lock", mirror.path / "packed-refs.lock"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("")
    for path in (*left, root / "new-1"):
        os.utime(path, (LONG_AGO, LONG_AGO))
    assert tend(mirror.path, SOME).packed
    mirrors_below(root)
    assert fresh.exists()  # somebody may be writing it
    assert not any(path.exists() for path in (*left, root / "new-1"))
    assert loose(mirror) == []


async def test_two_processes_do_not_tend_one_mirror(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    await some_trees(mirror, await mirror.resolve("main"), 2)
    with hold_lock(mirror.path / "gate/maintenance", seconds=0):
        assert tend(mirror.path, ALL) == NOTHING
    assert tend(mirror.path, ALL) != NOTHING


async def test_no_commit_is_let_go_while_another_process_fetches(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    source = make_repository()
    mirror = await mirrors.open(source.url)
    await some_commits(source, mirror, 5)
    as_if_long_ago(mirror)
    with hold_lock(mirror.path / "gate/lock", seconds=0):
        assert tend(mirror.path, MaintenanceThresholds(kept=1)).dropped == 0
    assert len(kept(mirror)) == 5


def change(number: int) -> FileChange:
    return FileChange(b"made", "100644", b"%d\n" % number)


def wait_for_something_new(mirror: Mirror, process: subprocess.Popen[bytes]) -> None:
    folder = mirror.path / "objects/pack"
    before = set(folder.iterdir())
    while process.poll() is None and set(folder.iterdir()) <= before:
        time.sleep(0.002)


def wait_for_line(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"done\n"


@contextlib.contextmanager
def tending(mirror: Mirror, *, with_git: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    """A process that tends the mirror, killed in the end; ``with_git``: the git that it runs is killed as well."""
    argv = [sys.executable, "-c", TENDING, str(mirror.path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split() if with_git else []
            process.kill()
            for child in children:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(int(child), signal.SIGKILL)
