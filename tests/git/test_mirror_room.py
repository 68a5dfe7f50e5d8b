"""Mirrors take what they are given of the disk: the longest unused goes first, one that is in use never."""

from __future__ import annotations

import gc
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.file_locks import lock_file
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.mirror_room import MirrorRoom, use
from tests.git.repositories import MakeRepository

MIB = 1 << 20
MakeMirror = Callable[[str, float], Awaitable[Path]]


@pytest.fixture
def make_mirror(tmp_path: Path, make_repository: MakeRepository) -> MakeMirror:
    """A mirror of some three MiB of a repository of that name, which was opened ``age`` seconds ago, and which nothing uses."""

    def fill(mirror: Mirror, age: float) -> Path:
        (mirror.path / "objects/pack/filler").write_bytes(b"x" * (3 * MIB))
        used = mirror.path.with_suffix(".use")
        os.utime(used, (used.stat().st_atime, used.stat().st_mtime - age))
        return mirror.path

    async def make(name: str, age: float) -> Path:
        mirrors = Mirrors(tmp_path / "mirrors")
        mirror = await mirrors.open(make_repository(name).url)
        await mirror.resolve("main")
        path = fill(mirror, age)
        del mirror
        mirrors.let_go()
        gc.collect()
        # The thread that resolved the name lets go of the mirror when it has ended its work, which may be a moment later.
        os.close(lock_file(path.with_suffix(".use"), seconds=30.0))
        return path

    return make


async def test_the_mirror_that_was_not_used_for_longest_goes_first(tmp_path: Path, make_mirror: MakeMirror) -> None:
    new, oldest, old = [await make_mirror(name, age) for name, age in (("a", 10), ("b", 1000), ("c", 100))]
    taken = MirrorRoom(tmp_path / "mirrors", 8 * MIB).make()
    assert [path.exists() for path in (oldest, old, new)] == [False, True, True]
    assert 6 * MIB < taken <= 7 * MIB
    assert not list((tmp_path / "mirrors").glob("new-*"))


@pytest.mark.long
async def test_a_mirror_that_is_in_use_is_never_removed(tmp_path: Path, make_mirror: MakeMirror) -> None:
    old, new = [await make_mirror(name, age) for name, age in (("a", 1000), ("b", 10))]
    room = MirrorRoom(tmp_path / "mirrors", 4 * MIB)
    descriptor = use(old)
    room.make()
    assert [path.exists() for path in (old, new)] == [True, False]
    os.close(descriptor)


@pytest.mark.long
async def test_what_an_open_run_starts_from_is_kept(tmp_path: Path, make_mirror: MakeMirror) -> None:
    old, new = [await make_mirror(name, age) for name, age in (("a", 1000), ("b", 10))]
    (commit,) = os.listdir(old / "refs/gate/keep")  # noqa: PTH208 - its name is wanted
    os.utime(new.with_suffix(".use"), (0, 0))
    (new / "refs/gate/keep" / commit).rename(new / "refs/gate/keep" / ("0" * 40))
    MirrorRoom(tmp_path / "mirrors", 4 * MIB, lambda: {commit}).make()
    assert [path.exists() for path in (old, new)] == [True, False]


async def test_a_mirror_that_was_removed_is_made_again(
    tmp_path: Path, make_repository: MakeRepository, make_mirror: MakeMirror
) -> None:
    path = await make_mirror("a", 10)
    MirrorRoom(tmp_path / "mirrors", 2 * MIB).make()
    assert not path.exists()
    mirror = await Mirrors(tmp_path / "mirrors").open(str(tmp_path / "a"))
    assert await mirror.has_tree(await mirror.tree_of(await mirror.resolve("main")))


async def test_unused_mirrors_make_room_for_a_fetch(tmp_path: Path, make_repository: MakeRepository) -> None:
    mirrors = Mirrors(tmp_path / "mirrors", most=4 * MIB)
    first = await mirrors.open(make_repository("a").url)
    await first.resolve("main")
    path = first.path
    (path / "objects/pack/filler").write_bytes(b"x" * (5 * MIB))
    second = await mirrors.open(make_repository("b").url)
    with pytest.raises(GitError) as caught:
        await second.resolve("main")
    assert caught.value.reason == "mirrors_full"
    assert path.exists()
    del first
    gc.collect()
    assert await second.resolve("main")
    assert not path.exists()


async def test_an_oversized_repository_is_refused_and_leaves_nothing(tmp_path: Path, make_repository: MakeRepository) -> None:
    repository = make_repository()
    repository.commit({"large.bin": os.urandom(6 * MIB)})
    mirror = await Mirrors(tmp_path / "mirrors", most=4 * MIB).open(repository.url)
    with pytest.raises(GitError) as caught:
        await mirror.resolve("main")
    assert caught.value.reason == "repository_too_large"
    assert MirrorRoom(tmp_path / "mirrors", 4 * MIB).make() < MIB
