"""Whatever ends a command ends all of it: nothing that it started lives on, however it tried to get away."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.sandbox import sandbox_account
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from gatewright.sandbox.process import namespace
from gatewright.sandbox.process.namespace import children, state
from tests.sandbox.conftest import LIMITS
from tests.sandbox.places import Folder, Run, processes_with
from tests.waiting import wait_until

#: Leaves its process group, its session and its parent behind, closes its output and goes on.
DAEMON = "(setsid sh -c 'exec >/dev/null 2>&1 </dev/null; (sleep {mark}; :) & :' &); sleep 0.2"

PARENT = """
import asyncio, sys
from pathlib import Path
from gatewright.sandbox.bubblewrap import BubblewrapSandbox
from tests.sandbox.conftest import LIMITS
from tests.sandbox.places import Folder
command = ("sh", "-c", "touch started; sleep " + sys.argv[2])
asyncio.run(BubblewrapSandbox().run(command, workspace=Folder(Path(sys.argv[1])), prefix=None, limits=LIMITS))
"""


def start_parent(place: Folder, mark: str) -> subprocess.Popen[bytes]:
    """Another process that runs a long command in the sandbox."""
    return subprocess.Popen([sys.executable, "-c", PARENT, str(place.path), mark], stderr=subprocess.DEVNULL)


def start_busy() -> subprocess.Popen[bytes]:
    """A process that is always running."""
    return subprocess.Popen(["sh", "-c", "while :; do :; done"])


async def test_double_forked_daemon_does_not_survive_the_command(run: Run) -> None:
    completed = await run("sh", "-c", DAEMON.format(mark="4711.1"))
    assert completed.exit_code == 0
    assert processes_with("4711.1") == []


async def test_double_forked_daemon_does_not_survive_a_time_limit(run: Run) -> None:
    completed = await run("sh", "-c", DAEMON.format(mark="4711.2") + "; sleep 30", limits=replace(LIMITS, wall_seconds=0.4))
    assert completed.timed_out
    assert processes_with("4711.2") == []


async def test_what_is_written_after_the_end_is_not_written(run: Run, place: Folder) -> None:
    """Whoever reads the workspace next reads what cannot change any more."""
    await run("sh", "-c", "(setsid sh -c 'while :; do echo x >>late; done' >/dev/null 2>&1 &); sleep 0.1")
    size = (place.path / "late").stat().st_size
    await asyncio.sleep(0.1)
    assert (place.path / "late").stat().st_size == size


async def test_cancel_reaches_every_descendant(run: Run) -> None:
    task = asyncio.ensure_future(run("sh", "-c", DAEMON.format(mark="4711.3") + "; sleep 30"))
    assert await asyncio.to_thread(wait_until, lambda: bool(processes_with("sleep\x004711.3")))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_with("4711.3") == []


async def test_cancel_at_any_moment_leaves_nothing(run: Run, place: Folder) -> None:
    for step in range(12):
        task = asyncio.ensure_future(run("sh", "-c", "sleep 4711.4"))
        await asyncio.sleep(step * 0.003)
        task.cancel()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert processes_with("4711.4") == [], step


async def test_children_are_looked_for_when_their_parent_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal is on its way for a while: a child born in it would be missed, and live on."""
    seen: list[str] = []

    def looked(pid: int) -> list[int]:
        seen.append(state(pid)[0])
        return children(pid)

    monkeypatch.setattr(namespace, "children", looked)
    for _ in range(50):
        busy = start_busy()
        await namespace.Namespace(busy).end()
        busy.wait()
    assert seen == ["T"] * 50


async def test_second_cancel_does_not_cut_the_killing_short(run: Run) -> None:
    task = asyncio.ensure_future(run("sleep", "4711.5"))
    await asyncio.sleep(0.1)
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_with("4711.5") == []


def test_command_dies_with_its_parent(place: Folder) -> None:
    """The parent gets no chance to clean up: SIGKILL."""
    parent = start_parent(place, "4711.6")
    try:
        assert wait_until((place.path / "started").exists)
    finally:
        parent.kill()
        parent.wait()
    assert wait_until(lambda: processes_with("4711.6") == [])


def test_parent_killed_while_the_sandbox_starts_leaves_nothing(place: Folder) -> None:
    """Bubblewrap asks to die with its parent only after a while; the gate covers the time before."""
    chance = random.Random(7)  # noqa: S311 - moments, not secrets
    for _ in range(4):
        parent = start_parent(place, "4711.7")
        assert wait_until(lambda: bool(processes_with("4711.7\0")) and len(processes_with("4711.7")) > 1)
        time.sleep(chance.random() * 0.02)
        parent.kill()
        parent.wait()
        assert wait_until(lambda: processes_with("4711.7") == [])


@pytest.mark.skipif(os.geteuid() != 0, reason="everything here is unprivileged already")
def test_everything_holds_for_an_unprivileged_service(tmp_path: Path) -> None:
    """The child of a fork gives root up, as a service that never had it; then it runs the sandbox."""
    folder = tmp_path / "unprivileged"
    folder.mkdir()
    for place in (folder, *[parent for parent in folder.parents if parent != Path("/") and "pytest" in str(parent)]):
        place.chmod(0o755)
    os.chown(folder, 65534, 65534)
    BubblewrapSandbox().__dict__.clear()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _report_as_nobody(folder, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        words = answer.read().decode().splitlines()
    os.waitpid(child, 0)
    assert words == ["uid 65534", "True ", "0 1000", "126 contained", "1 attempt"]


def _report_as_nobody(folder: Path, writing: int) -> None:
    try:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        sandbox = BubblewrapSandbox()

        async def report() -> list[str]:
            probed = await sandbox.probe()
            place = Folder(folder)
            named = await sandbox.run(("id", "-u"), workspace=place, prefix=None, limits=LIMITS)
            bomb = "i=0; while [ $i -lt 40 ]; do sleep 3 & i=$((i+1)); done; echo unbounded"
            reach = ("bash", "-c", "</dev/tcp/198.51.100.7/443")
            attempts = (await sandbox.run(reach, workspace=place, prefix=None, limits=LIMITS)).attempts
            limits = replace(LIMITS, processes=20)
            bombed = await sandbox.run(("sh", "-c", bomb), workspace=place, prefix=None, limits=limits)
            contained = "unbounded" if b"unbounded" in bombed.stdout else "contained"
            return [
                f"uid {sandbox_account().uid}",
                f"{probed.available} {probed.cause}",
                f"{named.exit_code} {named.stdout.decode().strip()}",
                f"126 {contained}",
                f"{attempts.ipv4 if attempts is not None else 'no'} attempt",
            ]

        os.write(writing, "\n".join(asyncio.run(report())).encode())
    except BaseException as error:  # noqa: BLE001 - the parent must hear of it, and this process must not return
        os.write(writing, repr(error).encode())
    finally:
        os._exit(0)


async def test_no_zombie_is_left(run: Run) -> None:
    before = children(os.getpid())
    await run("true")
    assert set(children(os.getpid())) <= set(before)
