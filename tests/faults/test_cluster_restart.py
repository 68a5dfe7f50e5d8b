"""All servers of a cluster end at once and come back: no service ends with them, and work goes on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.launch import ProcessPlan, Running, execute
from gatewright.app.stack.processes import kill
from gatewright.bus.identities import OPERATOR, PROVISIONER, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.errors import BusError
from tests.factories import make_request
from tests.faults.outage_house import ROOT
from tests.faults.server_cluster import SERVERS, ServerCluster
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE

#: The one that decides, and one that is given tasks: the loops of all others are this one's.
PROCESSES = ("gatekeeper", "pm")
SECONDS = PATIENCE

pytestmark = pytest.mark.long


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[ServerCluster]:
    make_home(tmp_path / "home")
    made = ServerCluster.prepare(tmp_path / "nats", bus_keys(tmp_path / "home"))
    try:
        await made.start()
        await ensure_topology(made.address(PROVISIONER), replicas=SERVERS)
        yield made
    finally:
        made.kill()


@pytest.fixture
async def services(cluster: ServerCluster, tmp_path: Path) -> AsyncIterator[dict[str, Running]]:
    home = tmp_path / "home"
    (home / "logs").mkdir(exist_ok=True)
    started: dict[str, Running] = {}
    for name in PROCESSES:
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared"))),
            "GATEWRIGHT_HOME": str(home),
            "GATEWRIGHT_NATS_URL": cluster.url,
            "GATEWRIGHT_NATS_SEED": str(seed_file(cluster.keys, name)),
            "GATEWRIGHT_STREAM_REPLICAS": str(SERVERS),
        }
        log = home / "logs" / f"{name}.log"
        started[name] = await execute(ProcessPlan(name, f"gatewright.services.{name}", environment, home, log))
    try:
        await all_answer(cluster, started)
        yield started
    finally:
        for process in started.values():
            with contextlib.suppress(ProcessLookupError):
                kill(process.pid, signal.SIGKILL)
            await process.wait()


async def all_answer(cluster: ServerCluster, services: dict[str, Running]) -> None:
    """Each of these processes has answered on the bus; one that has ended is named with the end of its log."""
    bus = await JetStreamBus.connect(cluster.address(OPERATOR), name="operator", patience=SECONDS)
    try:
        async with asyncio.timeout(SECONDS):
            for name, process in services.items():
                while not await answers(bus, name):
                    assert process.returncode is None, f"{name} ended with {process.returncode}"
    finally:
        await bus.close()


async def answers(bus: JetStreamBus, name: str) -> bool:
    try:
        await bus.request(f"$SRV.PING.gw-{name}", b"", schema="", timeout=1)
    except BusError:
        return False
    return True


async def test_no_service_ends_when_all_cluster_servers_restart(
    cluster: ServerCluster, services: dict[str, Running], make_repository: MakeRepository
) -> None:
    for _ in range(2):
        cluster.kill()
        await cluster.start()
        await all_answer(cluster, services)
    request = make_request(repository=RepositoryField(url=make_repository().url), baseline_ref="HEAD")
    async with Client.connect(cluster.address(OPERATOR)) as client:
        run_id = await client.submit_request(request, patience=SECONDS)
        async with asyncio.timeout(SECONDS):
            # The task is stored, taken, answered, and the answer is in the ledger.
            while (await client.get(run_id)).contract is None:  # noqa: ASYNC110 - it is in other processes
                await asyncio.sleep(0.1)
    assert {name: process.returncode for name, process in services.items()} == dict.fromkeys(PROCESSES)
