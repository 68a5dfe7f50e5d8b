"""A stack that lingers: which run it serves, when it ends, and what cannot happen while a command uses it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from gatewright.app.stack import lingering, state
from gatewright.app.stack.lingering import (
    USE_FILE,
    ended_for,
    fingerprint,
    fits,
    in_use,
    is_kept,
    make_way,
    memory,
    until_idle,
    unused,
)
from gatewright.app.stack.processes import identity
from gatewright.app.stack.supervisor import StackOptions
from gatewright.errors import UnavailableError
from gatewright.file_locks import lock_file
from tests.stack.test_state import make_state
from tests.waiting import PATIENCE

HOLDS = (
    "import pathlib, sys, time\n"
    "from gatewright.app.stack.lingering import in_use\n"
    "with in_use(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)\n"
)


@pytest.fixture
def options(tmp_path: Path) -> StackOptions:
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "limits.json").write_text("{}")
    base = {"PATH": "/usr/bin", "GATEWRIGHT_POLICIES": str(policies)}
    return StackOptions(home=tmp_path, base_environment=base, model_keys={"KEY": "k"})


def edited_policy(options: StackOptions) -> StackOptions:
    (options.home / "policies/limits.json").write_text('{"other": 1}')
    return options


def further_policy(options: StackOptions) -> StackOptions:
    (options.home / "policies/deeper").mkdir()
    (options.home / "policies/deeper/more.json").write_text("{}")
    return options


@pytest.mark.parametrize(
    "change",
    [
        edited_policy,
        further_policy,
        lambda each: replace(each, home=each.home / "other"),
        lambda each: replace(each, base_environment={**each.base_environment, "GATEWRIGHT_SANDBOX": "none"}),
        lambda each: replace(each, base_environment={**each.base_environment, "GATEWRIGHT_CASSETTE": "/c"}),
        lambda each: replace(each, model_keys={"KEY": "other"}),
        lambda each: replace(each, repository_keys={"worker": {"TOKEN": "t"}}),
    ],
)
def test_a_run_that_would_read_something_else_gets_another_stack(
    options: StackOptions, change: Callable[[StackOptions], StackOptions]
) -> None:
    running = make_state(linger=1.0, fingerprint=fingerprint(options))
    assert fits(running, options)
    assert not fits(running, change(options))


def test_an_upgrade_or_an_edit_of_the_program_gets_another_stack(
    options: StackOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package"
    (package / "services").mkdir(parents=True)
    (package / "services/role.py").write_text("one")
    monkeypatch.setattr(lingering, "_PACKAGE", package)
    running = make_state(linger=1.0, fingerprint=fingerprint(options))
    assert fits(running, options)
    (package / "services/role.py").write_text("another")
    assert not fits(running, options)


def test_environments_and_fewer_workers_need_no_other_stack(options: StackOptions) -> None:
    running = make_state(linger=1.0, fingerprint=fingerprint(options), workers=2)
    assert fits(running, replace(options, environments=(Path("/opt/x"),), workers=1))
    longer = {**options.base_environment, "GATEWRIGHT_LINGER_MINUTES": "60", "GATEWRIGHT_HOME": "/h"}
    assert fits(running, replace(options, base_environment=longer))
    assert not fits(running, replace(options, workers=3))


def test_a_stack_that_a_person_keeps_serves_every_run(options: StackOptions) -> None:
    assert fits(make_state(shared=True), options)
    assert not fits(make_state(shared=False), options)


def test_a_command_that_uses_a_stack_keeps_it_until_it_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen((sys.executable, "-c", HOLDS, str(tmp_path)), stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "held\n"
        with in_use(tmp_path), unused(tmp_path) as free:
            assert not free
        with unused(tmp_path) as free:
            assert not free
        user.kill()
    with unused(tmp_path) as free:
        assert free


async def test_an_unused_stack_ends_and_then_accepts_no_command(tmp_path: Path) -> None:
    with in_use(tmp_path):
        waiting = asyncio.create_task(until_idle(tmp_path, 0.0001))
        for _ in range(3):
            await asyncio.sleep(0.01)
        assert not waiting.done()
    async with asyncio.timeout(PATIENCE):
        held = await waiting
    with held, unused(tmp_path) as free:
        assert not free
    with unused(tmp_path) as free:
        assert free


async def test_an_idle_stack_that_takes_too_much_memory_ends_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lingering, "MOST_BYTES", 1)
    async with asyncio.timeout(PATIENCE):
        held = await until_idle(tmp_path, 1000.0)
    with held, unused(tmp_path) as free:
        assert not free


def test_memory_is_that_of_all_processes_below(tmp_path: Path) -> None:
    with subprocess.Popen((sys.executable, "-c", "print(1, flush=True); input()"), stdin=-1, stdout=-1) as child:
        assert child.stdout is not None
        child.stdout.readline()
        both = memory(child.pid)
        child.kill()
    assert both > 1 << 20
    assert memory(child.pid) == 0


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[state.StackState]:
    """A process that stands for the one that holds a lingering stack of another fingerprint."""
    with subprocess.Popen(("sleep", "600")) as process:
        who = identity(process.pid)
        assert who is not None
        announced = make_state(pid=process.pid, boot=who.boot, started=who.started, linger=1.0, fingerprint="other")
        state.write(tmp_path, announced)
        yield announced
        process.kill()


def test_a_stack_of_another_fingerprint_is_stopped_once_idle(options: StackOptions, holder: state.StackState) -> None:
    with in_use(options.home):
        assert not ended_for(options.home, options)
        assert identity(holder.pid) is not None
    assert ended_for(options.home, options)
    assert identity(holder.pid) is None


def test_a_stack_that_fits_is_not_ended(options: StackOptions, holder: state.StackState) -> None:
    state.write(options.home, msgspec.structs.replace(holder, fingerprint=fingerprint(options)))
    assert ended_for(options.home, options)
    assert identity(holder.pid) is not None


def test_only_an_idle_stack_makes_way_for_a_person(tmp_path: Path, holder: state.StackState) -> None:
    with in_use(tmp_path):
        assert is_kept(tmp_path)
        with pytest.raises(UnavailableError, match="a command uses the stack that lingers"):
            make_way(tmp_path)
    assert not is_kept(tmp_path)
    make_way(tmp_path)
    assert identity(holder.pid) is None


def test_a_stack_that_a_person_keeps_makes_no_way(tmp_path: Path, holder: state.StackState) -> None:
    state.write(tmp_path, msgspec.structs.replace(holder, linger=0.0))
    make_way(tmp_path)
    assert is_kept(tmp_path)
    assert identity(holder.pid) is not None


async def test_a_look_of_another_process_is_no_use(tmp_path: Path) -> None:
    held = lock_file(tmp_path / USE_FILE)
    asyncio.get_running_loop().call_later(0.05, os.close, held)

    def look() -> bool:
        with unused(tmp_path) as free:
            return free

    assert await asyncio.to_thread(look)
