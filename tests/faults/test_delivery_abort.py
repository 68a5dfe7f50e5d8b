"""An abort reaches the command that runs in a sandbox, also where its notice was missed the first time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from gatewright import Client
from gatewright.bus.topology import TASK_CLASSES, task_subject
from tests.e2e.conftest import FILES
from tests.e2e.stack import slow_request
from tests.faults.outage_house import House, house
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE

#: How long the commands would run if nobody stopped them; the number is looked for in the process table.
AGES = 3123.25


@pytest.fixture
async def whole_house(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home-of-house") as made:
        yield made


@pytest.fixture
def project(make_repository: MakeRepository) -> Path:
    return make_repository("project", files=FILES).path


def sleepers() -> list[int]:
    """The processes of the command, as this host sees them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(AGES).encode() in words and b"tools/edit.py" in words:
                found.append(int(entry.name))
    return found


async def until(what: Callable[[], bool], seconds: float) -> float:
    """Seconds until ``what`` is true."""
    begun = time.monotonic()
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - it is in other processes
            await asyncio.sleep(0.02)
    return time.monotonic() - begun


async def at_work(client: Client, project: Path) -> str:
    """A run whose worker sleeps in its sandbox."""
    run_id = await client.submit_request(slow_request(project, AGES), patience=PATIENCE)
    await until(lambda: bool(sleepers()), PATIENCE)
    return run_id


async def tasks_left(client: Client) -> int:
    subjects = [task_subject("worker", task_class=each) for each in TASK_CLASSES]
    return sum([len([message async for message in client.bus.unsettled(subject)]) for subject in subjects])


@pytest.mark.long
async def test_an_abort_ends_the_command_in_its_sandbox(whole_house: House, project: Path) -> None:
    async with Client.connect(whole_house.address) as client:
        run_id = await at_work(client, project)
        await client.abort(run_id, "enough")
        seconds = await until(lambda: not sleepers(), PATIENCE)
        run = await client.wait(run_id, timeout=PATIENCE)
        assert await tasks_left(client) == 0
    whole_house.tell(f"abort to the end of the command: {seconds:.2f} s")
    assert run.status == "ABORTED"


@pytest.mark.long
async def test_the_command_abort_does_the_same(whole_house: House, project: Path) -> None:
    async with Client.connect(whole_house.address) as client:
        run_id = await at_work(client, project)
        seed = whole_house.address.seed
        environment = {"GATEWRIGHT_NATS_URL": whole_house.address.url, "GATEWRIGHT_NATS_SEED": str(seed)}
        words = [sys.executable, "-m", "gatewright.app.cli.main", "abort", run_id, "--json"]
        finished = await asyncio.to_thread(subprocess.run, words, check=False, capture_output=True, text=True, env=environment)
        await until(lambda: not sleepers(), PATIENCE)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.long
async def test_a_worker_that_was_cut_off_stops_once_it_is_back(whole_house: House, project: Path) -> None:
    wire = whole_house.wires["worker"]
    async with Client.connect(whole_house.address) as client:
        run_id = await at_work(client, project)
        target, wire.target = wire.target, 1  # nobody listens there
        wire.cut()
        await client.abort(run_id, "enough")
        run = await client.wait(run_id, timeout=PATIENCE)
        assert run.status == "ABORTED"
        assert sleepers()
        wire.target = target
        seconds = await until(lambda: not sleepers(), PATIENCE)
        async with asyncio.timeout(PATIENCE):
            while await tasks_left(client):  # noqa: ASYNC110 - they are in another process
                await asyncio.sleep(0.1)
    whole_house.tell(f"connection whole to the end of the command: {seconds:.2f} s")
    assert whole_house.dead() == []
