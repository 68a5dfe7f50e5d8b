"""``gatewright gc`` lists environments and mirrors with their sizes, and removes those that nothing uses."""

from __future__ import annotations

import gc
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.app.environments.plan import EnvironmentPlan, Made, lock_of, made_once
from gatewright.app.retention.caches import find_caches, plan_caches, remove_caches
from gatewright.app.stack.state import exclusive
from gatewright.errors import UnavailableError
from gatewright.file_locks import lock_file
from gatewright.git.mirror import Mirrors
from gatewright.sandbox.images import IMAGE_RECORD
from tests.cli.conftest import Command, gatewright
from tests.git.repositories import MakeRepository

__all__ = ["gatewright"]

DAY = 86400


def plan_of(name: str) -> EnvironmentPlan:
    async def make(prefix: Path) -> Made:
        (prefix / "packages").write_bytes(b"x" * 5000)
        (prefix / "packages").parent.chmod(0o555)
        return Made("pip 1")

    return EnvironmentPlan("python", {name: "00"}, (), "wheels", make)


async def make_environment(home: Path, name: str, *, age: float) -> Path:
    prefix = await made_once(home, plan_of(name), lambda _: None)
    used = datetime.now(UTC).timestamp() - age * DAY
    os.utime(lock_of(prefix), (used, used))
    return prefix


async def make_mirror(home: Path, url: str, *, age: float) -> Path:
    mirrors = Mirrors(home / "worker/mirrors")
    mirror = await mirrors.open(url)
    await mirror.resolve("main")
    path = mirror.path
    del mirror
    mirrors.let_go()
    gc.collect()
    os.close(lock_file(path.with_suffix(".use"), seconds=30.0))
    used = datetime.now(UTC).timestamp() - age * DAY
    os.utime(path.with_suffix(".use"), (used, used))
    return path


def plan(home: Path, days: float = 30, *, stack_runs: bool = False) -> dict[str, str]:
    items = plan_caches(find_caches(home), days, datetime.now(UTC), stack_runs=stack_runs)
    remove_caches(home, items)
    return {item.cache.source: item.action for item in items}


async def test_unused_entries_are_deleted_and_their_size_is_reported(tmp_path: Path, make_repository: MakeRepository) -> None:
    url = make_repository("r").url
    old, new = [await make_environment(tmp_path, name, age=age) for name, age in (("old.lock", 40), ("new.lock", 1))]
    mirror = await make_mirror(tmp_path, url, age=40)
    sizes = {cache.path: cache.size for cache in find_caches(tmp_path)}
    assert (sizes[old] > 5000, sizes[mirror] > 1000) == (True, True)
    assert plan(tmp_path) == {"python: old.lock": "remove", "python: new.lock": "keep", url: "remove"}
    assert [path.exists() for path in (old, new, mirror)] == [False, True, False]
    # It is made again where it was.
    assert await made_once(tmp_path, plan_of("old.lock"), lambda _: None) == old


async def test_an_environment_that_is_used_again_is_young_again(tmp_path: Path) -> None:
    await make_environment(tmp_path, "uv.lock", age=40)
    await made_once(tmp_path, plan_of("uv.lock"), lambda _: None)
    assert plan(tmp_path) == {"python: uv.lock": "keep"}


async def test_nothing_goes_while_a_stack_runs(tmp_path: Path) -> None:
    prefix = await make_environment(tmp_path, "uv.lock", age=40)
    assert plan(tmp_path, stack_runs=True) == {"python: uv.lock": "keep"}
    items = plan_caches(find_caches(tmp_path), 0, datetime.now(UTC), stack_runs=False)
    with exclusive(tmp_path), pytest.raises(UnavailableError, match="another stack runs"):
        remove_caches(tmp_path, items)
    assert prefix.exists()


async def test_one_that_is_being_made_stays_and_a_half_made_one_goes(tmp_path: Path) -> None:
    half = tmp_path / "environments/half"
    half.mkdir(parents=True)
    held = lock_file(lock_of(half))
    plan(tmp_path)
    assert half.exists()
    os.close(held)
    assert plan(tmp_path) == {"nothing that was finished": "remove"}
    assert not half.exists()


async def test_an_image_that_a_person_unpacked_stays(tmp_path: Path) -> None:
    image = tmp_path / "environments/image"
    image.mkdir(parents=True)
    (image / IMAGE_RECORD).write_text("{}")
    assert plan(tmp_path, days=0) == {"a container image": "keep"}


async def test_a_link_among_environments_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments/link").symlink_to(tmp_path / "outside")
    assert plan(tmp_path, days=0) == {}
    assert (tmp_path / "outside").is_dir()


async def test_gc_prints_the_plan_first_and_removes_with_yes(gatewright: Command, tmp_path: Path) -> None:
    assert gatewright("init").exit_code == 0
    home = next(tmp_path.glob(".gatewright"))
    prefix = await make_environment(home, "uv.lock", age=40)
    said = gatewright("gc")
    assert "remove environment" in said.out
    assert "python: uv.lock: not used for 40.0 days" in said.out
    assert "environments and mirrors: 1" in said.out
    assert prefix.exists()
    (document,) = gatewright("gc", "--yes", "--json").documents
    assert document["caches"][0]["size"] > 5000
    assert document["removed_caches"] == [str(prefix)]
    assert not prefix.exists()
