"""A task whose role dies on every delivery, before the real server and gatekeeper: its run ends, and nothing is blocked."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright import Client
from gatewright.app.stack.processes import kill
from gatewright.bus.identities import BusAddress, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.topology import task_consumer, task_consumers
from gatewright.tasks.dead_letters import DeadLetters
from gatewright.tasks.priority_queue import ClassQueue
from tests.e2e.conftest import FILES
from tests.e2e.stack import slow_request
from tests.faults.outage_house import House, house
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE


@pytest.fixture
async def whole_house(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home-of-house") as made:
        yield made


async def worker_of(house: House) -> JetStreamBus:
    """A connection as the worker, whose process is killed: what the server sees of a worker that dies over and over."""
    kill(house.processes["worker"].pid, signal.SIGKILL)
    await house.processes["worker"].wait()
    address = BusAddress(house.address.url, seed_file(bus_keys(house.home), "worker"))
    return await JetStreamBus.connect(address, name="worker")


@pytest.mark.long
async def test_a_task_that_kills_every_worker_ends_only_its_run(whole_house: House, make_repository: MakeRepository) -> None:
    project = make_repository("project", files=FILES).path
    bus = await worker_of(whole_house)
    queue = await ClassQueue.open(bus, task_consumers("worker"))
    async with Client.connect(whole_house.address) as client:
        poison = await client.submit_request(slow_request(project, 0), patience=PATIENCE)
        for attempt in range(task_consumer("worker").max_deliver):
            delivery = await queue.next(20)
            assert delivery is not None
            assert delivery.attempts == attempt + 1
            await delivery.nak()
        honest = asyncio.create_task(queue.next(30))
        run = await client.wait(poison, timeout=PATIENCE)
        assert (run.status, run.failure and run.failure.code) == ("FAILED", "attempts_exhausted")
        async with asyncio.timeout(PATIENCE):
            while not (letters := await DeadLetters(client.bus).all()):  # noqa: ASYNC110 - it is in another process
                await asyncio.sleep(0.05)
            assert [(letter.code, letter.attempts) for letter in letters] == [("attempts_exhausted", 6)]
            while [message async for message in client.bus.unsettled("gw.task.worker.>")]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await client.submit_request(slow_request(project, 0), patience=PATIENCE)
        delivery = await honest
        assert delivery is not None
        assert delivery.attempts == 1
    await queue.close()
    await bus.close()
