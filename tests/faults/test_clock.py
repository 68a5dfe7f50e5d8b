"""The time of day jumps by a day, forwards and backwards, in the middle of work: nothing waits for it, nothing is given up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from gatewright import Client
from gatewright.bus.topology import Role
from gatewright.contracts.vocabulary import Budget, Executor, TimeoutRetry
from tests.e2e.conftest import FILES
from tests.e2e.stack import Stack, slow_request
from tests.faults.outage_house import House, house
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE, in_state

DAY = 86_400.0
#: How long the worker and the test of the run take, each; and a run of that kind, with room for a busy machine.
PAUSE = 1.0
BACK_OFF = 2.0
#: Edits one file of two, which the acceptance test does not let through.
HALF = b"import pathlib\npathlib.Path('src/a.py').write_text('edited = True\\n')\n"


@pytest.fixture
async def jumping_house(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home-of-house", jumping=True) as made:
        yield made


@pytest.fixture
def project(make_repository: MakeRepository) -> Path:
    return make_repository("project", files={**FILES, "tools/half.py": HALF}).path


async def run_with_jumps(jumping_house: House, project: Path, first: float, second: float, *roles: Role) -> tuple[str, float]:
    """A run with the clocks set off by ``first`` during its work, by ``second`` during its test: its bundle, its seconds."""
    begun = asyncio.get_running_loop().time()
    async with Client.connect(jumping_house.address) as client:
        run_id = await client.submit_request(slow_request(project, PAUSE), patience=PATIENCE)
        for state, seconds in (("S2", first), ("S4", second)):
            await in_state(client, run_id, state)
            jumping_house.jump(seconds, *roles)
        run = await client.wait(run_id, timeout=PATIENCE)
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.sealed is not None
    return run.sealed.location, asyncio.get_running_loop().time() - begun


def span_of(lines: Path) -> timedelta:
    """Between the earliest and the latest time in a file of JSON lines."""
    stamps = [datetime.fromisoformat(json.loads(line)["ts"]) for line in lines.read_text().splitlines()]
    return max(stamps) - min(stamps)


@pytest.mark.long
async def test_a_run_takes_its_usual_time_while_every_clock_jumps(jumping_house: House, project: Path) -> None:
    location, seconds = await run_with_jumps(jumping_house, project, DAY, -DAY)
    jumping_house.tell(f"a run through a day forwards and two back: {seconds:.1f} s, {2 * PAUSE:.0f} s of it work")
    assert span_of(jumping_house.home / "logs" / "gatekeeper.log") > timedelta(days=1.9), "the clocks were not moved"
    assert span_of(Path(location, "events.jsonl")) < timedelta(minutes=1)
    for words in (("verify", location), ("replay", location), ("report", location, "-o", f"{location}.html")):
        looked = await asyncio.to_thread(Stack(jumping_house.home).process, *words)
        assert looked.returncode == 0, looked.stdout + looked.stderr
    assert jumping_house.dead() == []


@pytest.mark.long
async def test_the_clock_of_one_service_may_be_a_day_off(jumping_house: House, project: Path) -> None:
    """Services of one system on hosts that disagree about the time, and one of them is corrected while it works."""
    for role in ("gatekeeper", "worker", "testrunner"):
        _, seconds = await run_with_jumps(jumping_house, project, DAY, -DAY, role)
        jumping_house.tell(f"{role} a day ahead, then a day behind: {seconds:.1f} s")
        jumping_house.jump(0.0)
    assert jumping_house.dead() == []


@pytest.mark.long
async def test_a_back_off_ends_although_the_clock_goes_back(jumping_house: House, project: Path) -> None:
    request = msgspec.structs.replace(
        slow_request(project, 0.0),
        executor=Executor(kind="command", commands=("python tools/half.py {paths}", "python tools/edit.py 0 {paths}")),
        timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=BACK_OFF),
    )
    begun = asyncio.get_running_loop().time()
    async with Client.connect(jumping_house.address) as client:
        run_id = await client.submit_request(request, patience=PATIENCE)
        await in_state(client, run_id, "S5")
        jumping_house.jump(-DAY)
        run = await client.wait(run_id, timeout=PATIENCE)
    seconds = asyncio.get_running_loop().time() - begun
    assert (run.status, run.failure) == ("SUCCESS", None)
    jumping_house.tell(f"a back-off of {BACK_OFF:g} s, and the clock a day back in it: {seconds:.1f} s")


@pytest.mark.long
async def test_a_jumping_clock_uses_up_no_time_budget(jumping_house: House, project: Path) -> None:
    request = msgspec.structs.replace(slow_request(project, PAUSE), budget=Budget(wall_sec=3600.0))
    async with Client.connect(jumping_house.address) as client:
        run_id = await client.submit_request(request, patience=PATIENCE)
        await in_state(client, run_id, "S2")
        jumping_house.jump(DAY)
        run = await client.wait(run_id, timeout=PATIENCE)
    assert (run.status, run.failure) == ("SUCCESS", None)
