"""What a publisher is told of a run of which nothing is heard: by `gw.status` and `gw.runs`, and in words for people."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gatewright.app.cli.show import status_lines
from gatewright.bus.memory.bus import MemoryBus
from gatewright.contracts import RunList, RunRequest, RunsRequest, RunStatus, StatusRequest, SubmitReply, codec
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.gatekeeper.projections.test_silent_runs import make_claim
from tests.gatekeeper.publishing import IntakeFixture, make_publisher, open_intake
from tests.waiting import PATIENCE


@pytest.fixture
async def intake(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> AsyncIterator[IntakeFixture]:
    opened = open_intake(bus, gates, tmp_path, make_publisher("default"))
    yield opened
    for task in opened.following:
        task.cancel()
    await asyncio.gather(*opened.following, return_exceptions=True)


async def told(intake: IntakeFixture, run_id: str) -> tuple[RunStatus, RunList]:
    status = await intake.ask("status", codec.encode(StatusRequest(run_id=run_id)), "default")
    listed = await intake.ask("runs", codec.encode(RunsRequest()), "default")
    return codec.decode(status.data, RunStatus), codec.decode(listed.data, RunList)


async def test_status_and_list_report_silence_until_a_claim(intake: IntakeFixture, request_for: RunRequest) -> None:
    silent, clock = intake.questions.silent, intake.clock
    silent.hears(clock.monotonic())
    answer = await intake.submit(request_for, "default")
    assert isinstance(answer, SubmitReply)
    async with asyncio.timeout(PATIENCE):
        while not silent.tasks(answer.run_id, 0.0):  # noqa: ASYNC110 - there is nothing that would tell
            await asyncio.sleep(0)
    status, listed = await told(intake, answer.run_id)
    assert (status.silent_since, listed.runs[0].silent_since) == (None, None)

    clock.seconds += 2 * 900 + 1
    status, listed = await told(intake, answer.run_id)
    (task,) = (each for each in status.tasks if each.status == "RUNNING")
    assert status.silent_since == listed.runs[0].silent_since == task.silent_since == "2026-01-01T00:00:00.000Z"
    assert any("silent since 2026-01-01T00:00:00.000Z" in line for line in status_lines(status))

    claim = make_claim(task.task_id, task.role, run_id=answer.run_id, activity="command", process="P1")
    assert silent.claimed(claim, clock.monotonic())
    status, listed = await told(intake, answer.run_id)
    (task,) = (each for each in status.tasks if each.status == "RUNNING")
    assert (status.silent_since, listed.runs[0].silent_since, task.silent_since) == (None, None, None)
    assert (task.claimed_at, task.phase, task.activity, task.process) == (
        "2026-01-01T00:30:01.000Z",
        "working",
        "command",
        "P1",
    )
    assert [(each.task_id, each.process) for each in listed.runs[0].claimed] == [(task.task_id, "P1")]
    assert any(
        "claimed 2026-01-01T00:30:01.000Z (working, last command, by process P1)" in line for line in status_lines(status)
    )


async def test_words_from_elsewhere_drive_no_terminal() -> None:
    status = codec.decode(
        (Path(__file__).parents[3] / "shared/schemas/examples/run_status.v1/valid/silent.json").read_bytes(), RunStatus
    )
    hostile = msgspec.structs.replace(status, silent_since="\x1b[2J")
    assert not any("\x1b" in line for line in status_lines(hostile))
