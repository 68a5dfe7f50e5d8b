"""The sandbox that is none: no walls, but still limits, a clean environment and an end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gatewright.errors import CommandRefusedError, ConfigurationError
from gatewright.sandbox import Completed, SandboxLimits, make_sandbox
from gatewright.sandbox.environments import Shown
from tests.sandbox.conftest import LIMITS
from tests.sandbox.places import Folder, Run, processes_with
from tests.sandbox.test_ending import DAEMON


@pytest.fixture
def run(place: Folder) -> Run:
    async def run_words(*argv: str, limits: SandboxLimits | None = None, prefix: Shown = None) -> Completed:
        return await make_sandbox("none").run(argv, workspace=place, prefix=prefix, limits=limits or LIMITS)

    return run_words


async def test_command_runs_where_the_files_are(run: Run, place: Folder) -> None:
    completed = await run("sh", "-c", "pwd; touch made; exit 3")
    assert (completed.exit_code, completed.stdout.decode().strip()) == (3, str(place.path))
    assert (place.path / "made").exists()


async def test_environment_does_not_leak_without_a_sandbox(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    assert b"secret" not in (await run("env")).stdout


async def test_limits_hold_without_a_sandbox(run: Run, place: Folder) -> None:
    completed = await run("sh", "-c", "head -c 20m /dev/zero >huge", limits=replace(LIMITS, file_bytes=1 << 20))
    assert completed.exit_code != 0
    assert (place.path / "huge").stat().st_size == 1 << 20
    assert (await run("yes", limits=replace(LIMITS, output_bytes=1000))).truncated


async def test_many_processes_are_stopped_without_a_sandbox(run: Run) -> None:
    script = "i=0; while [ $i -lt 60 ]; do sleep 33.1 & i=$((i+1)); done; wait"
    completed = await run("sh", "-c", script, limits=replace(LIMITS, processes=30))
    assert completed.stopped == "processes"
    assert processes_with("33.1") == []


async def test_daemon_does_not_survive_without_a_sandbox(run: Run) -> None:
    assert (await run("sh", "-c", DAEMON.format(mark="4712.1"))).exit_code == 0
    assert processes_with("4712.1") == []


async def test_time_limit_and_cancel_reach_descendants_without_a_sandbox(run: Run) -> None:
    script = DAEMON.format(mark="4712.2") + "; sleep 30"
    assert (await run("sh", "-c", script, limits=replace(LIMITS, wall_seconds=0.5))).timed_out
    task = asyncio.ensure_future(run("sh", "-c", script))
    await asyncio.sleep(0.4)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert processes_with("4712.2") == []


async def test_overlay_cannot_be_shown_without_a_sandbox(place: Folder) -> None:
    @dataclass(frozen=True)
    class Overlay:
        mounts: tuple[str, ...] = ()
        sources: tuple[Path, ...] = (place.path,)
        path: Path | None = None
        scratch: Path = place.path
        path_inside: str = "/workspace"

        def has_room(self, place: str) -> bool:
            return bool(place)

    with pytest.raises(ConfigurationError):
        await make_sandbox("none").run(("true",), workspace=Overlay(), prefix=None, limits=LIMITS)


async def test_no_argv_is_refused_without_a_sandbox(run: Run) -> None:
    with pytest.raises(CommandRefusedError):
        await run("-c", "x")


async def test_report_shows_that_there_is_no_sandbox() -> None:
    report = await make_sandbox("none").probe()
    assert report.available
    assert report.facts["sandbox"] == "none"
