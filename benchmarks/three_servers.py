"""Trivial runs in flight on three NATS servers of one cluster, every stream synced on each, beside the same on one server.

Both are set up alike: one process of each role and two workers, started one by one. Run it with ``python -m
benchmarks.three_servers [--runs 48] [--in-flight 16]``. ``make bench`` does so too.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.goals import THREE_SERVERS
from benchmarks.workload import make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.fork_server import START_ORDER, ForkServer
from gatewright.app.stack.launch import ProcessPlan
from gatewright.app.stack.nats_server import NatsServer
from gatewright.app.stack.processes import kill
from gatewright.bus import identities
from gatewright.bus.identities import OPERATOR, PROVISIONER, BusAddress, bus_keys, process_identity, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.errors import BusError
from tests.faults.server_cluster import SERVERS, ServerCluster

ROOT = Path(__file__).resolve().parent.parent
WORKERS = 2
WARM_UP = 4
READY_SECONDS = 120.0


async def measure(root: Path, runs: int, in_flight: int) -> tuple[float, float]:
    """Runs a second on one server, and on three."""
    repository = make_repository(root / "repository")
    async with _one(root / "one") as address, _roles(root / "one", address, 1):
        alone = await _rate(address, repository, runs, in_flight, 0)
    async with _three(root / "three") as address, _roles(root / "three", address, SERVERS):
        return alone, await _rate(address, repository, runs, in_flight, 100_000)


async def _rate(address: BusAddress, repository: Path, runs: int, in_flight: int, first: int) -> float:
    async with Client.connect(address) as client:

        async def submit(start: int, stop: int) -> None:
            for number in range(start, stop, in_flight):
                await succeeded(client, await client.submit_request(make_request(repository, number), patience=30.0))

        for number in range(WARM_UP):
            await submit(first + number, first + number + 1)
        begun, start = time.perf_counter(), first + WARM_UP
        await asyncio.gather(*(submit(start + number, start + runs) for number in range(in_flight)))
        return runs / (time.perf_counter() - begun)


@contextlib.asynccontextmanager
async def _one(home: Path) -> AsyncIterator[BusAddress]:
    keys = _made(home)
    server = await NatsServer.start(home / "nats", keys=keys)
    try:
        await ensure_topology(server.address(PROVISIONER))
        yield server.address(OPERATOR)
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def _three(home: Path) -> AsyncIterator[BusAddress]:
    servers = ServerCluster.prepare(home / "servers", _made(home))
    try:
        await servers.start()
        await ensure_topology(servers.address(PROVISIONER), replicas=SERVERS)
        yield servers.address(OPERATOR)
    finally:
        servers.kill()


def _made(home: Path) -> Path:
    make_home(home)
    identities.make(bus_keys(home), (process_identity("worker", number + 1) for number in range(WORKERS)))
    return bus_keys(home)


@contextlib.asynccontextmanager
async def _roles(home: Path, address: BusAddress, replicas: int) -> AsyncIterator[None]:
    """One process of each role and so many workers, forked as the embedded stack forks them, until each answers."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared"))),
        "GATEWRIGHT_HOME": str(home),
        "GATEWRIGHT_NATS_URL": address.url,
        "GATEWRIGHT_STREAM_REPLICAS": str(replicas),
        "GATEWRIGHT_METRICS_PORT": "-1",
    }
    modules = [f"gatewright.services.{role}" for role in START_ORDER]
    forks = await ForkServer.open(modules, environment, home / "logs" / "fork-server.log", secrets=home / "secret-rules")
    started = []
    try:
        for role in START_ORDER:
            for number in range(1, (WORKERS if role == "worker" else 1) + 1):
                who = process_identity("worker", number) if role == "worker" else role
                own = {**environment, "GATEWRIGHT_NATS_SEED": str(seed_file(bus_keys(home), who))}
                log = home / "logs" / f"{role}-{number}.log"
                log.touch()
                started.append(await forks.fork(ProcessPlan(f"{role}-{number}", f"gatewright.services.{role}", own, home, log)))
        await _all_answer(address)
        yield
    finally:
        for process in started:
            kill(process.pid, signal.SIGTERM)
        await asyncio.gather(*(process.wait() for process in started))
        await forks.close()


async def _all_answer(address: BusAddress) -> None:
    bus = await JetStreamBus.connect(address, name="benchmark", patience=READY_SECONDS)
    try:
        async with asyncio.timeout(READY_SECONDS):
            for role in START_ORDER:
                while True:
                    with contextlib.suppress(BusError):
                        await bus.request(f"$SRV.PING.gw-{role}", b"", schema="", timeout=1.0)
                        break
                    await asyncio.sleep(0.05)
    finally:
        await bus.close()


def main(words: Sequence[str] = ()) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=48)
    parser.add_argument("--in-flight", type=int, default=16)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-servers-") as folder:
        one, three = asyncio.run(measure(Path(folder), given.runs, given.in_flight))
    print(f"{given.in_flight} runs in flight: {one:.1f} runs/s on one server, {three:.1f} on three; {three / one:.2f}")
    return {THREE_SERVERS: three / one}


if __name__ == "__main__":
    main(sys.argv[1:])
