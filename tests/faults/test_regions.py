"""Two regions: a leaf node with workers, a publisher and a mirror of the ledger, as docs/deploy.md has it; its link is cut."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client as PlainClient
from nats.js.errors import NotFoundError

from gatewright.app.cli.bundle_sources import receive_bundle
from gatewright.app.stack.nats_server import find_binary
from gatewright.app.stack.processes import dies_with_parent
from gatewright.bus import identities
from gatewright.bus.identities import MIRROR, OPERATOR, PROVISIONER, STANDING, BusAddress, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.server_config import ServerConfig, accounts, render
from gatewright.bus.topology import run_subject
from gatewright.client import Client
from gatewright.errors import BusError, GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.verification.verify import verify
from tests.e2e.conftest import FILES
from tests.e2e.stack import slow_request
from tests.faults.fault_stack import ROOT
from tests.faults.rolling_upgrade import Fleet, answers
from tests.faults.server_cluster import free_ports
from tests.git.repositories import MakeRepository
from tests.tcp_proxy import Wire
from tests.waiting import PATIENCE

PAGE = ROOT / "docs" / "deploy.md"
HERE = ("gatekeeper", "pm", "techlead", "reviewer", "testrunner")
THERE = ("worker", "publisher", "watcher", MIRROR)
SECONDS = PATIENCE


def blocks(language: str) -> list[str]:
    """The fenced blocks of the page: what is tried is what is written there."""
    parts = PAGE.read_text("utf-8").split("```")[1::2]
    return [body for head, _, body in (part.partition("\n") for part in parts) if head == language]


def mirror_config() -> bytes:
    """The stream that copies the ledger, as the page has it."""
    (config,) = [block for block in blocks("json") if '"mirror"' in block]
    return config.encode()


@dataclass
class Regions:
    """``wire`` joins them; ``first`` and ``other`` are ports of clients."""

    seeds: Path
    first: int
    other: int
    leaf: int
    wire: Wire
    key: Path

    def address(self, port: int, identity: str) -> BusAddress:
        return BusAddress(f"nats://127.0.0.1:{port}", seed_file(self.seeds, identity))

    def cut(self) -> None:
        """Nothing gets through, and nothing answers."""
        self.wire.target = free_ports(1)[0]
        self.wire.cut()

    def mend(self) -> None:
        self.wire.target = self.leaf


def serve(config: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([find_binary(), "-c", config], env=dict(environment), preexec_fn=dies_with_parent())  # noqa: PLW1509 - as in server_cluster


async def answering(port: int) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                return
            await asyncio.sleep(0.05)


@pytest.fixture
async def regions(tmp_path: Path) -> AsyncIterator[Regions]:
    seeds, key = tmp_path / "bus", tmp_path / "signing-key.pem"
    identities.make(seeds, (*STANDING, MIRROR))
    keys.load_or_create(key)
    first, leaf, other, *monitors = free_ports(5)
    leafnodes, page = [block for block in blocks("") if "leafnodes" in block]
    config = ServerConfig(
        store=tmp_path / "first",
        accounts=accounts(identities.public_keys(seeds)),
        listen=f"127.0.0.1:{first}",
        monitor=f"127.0.0.1:{monitors[0]}",
        log_file=tmp_path / "first.log",
    )
    (tmp_path / "first.conf").write_text(f"{render(config)}\n{leafnodes}".replace("0.0.0.0:7422", f"127.0.0.1:{leaf}"))
    async with Wire(leaf) as wire:
        text = page.replace("127.0.0.1:4222", f"127.0.0.1:{other}").replace("first:7422", f"127.0.0.1:{wire.port}")
        text = text.replace('"/data"', f'"{tmp_path / "other"}"') + f'log_file: "{tmp_path / "other.log"}"\n'
        (tmp_path / "other.conf").write_text(text)
        public = identities.public_keys(seeds)
        known = {f"{name.upper()}_KEY": public[name] for name in THERE}
        known |= {f"{name.upper()}_SEED": identities.load(seed_file(seeds, name)).seed for name in THERE}
        servers = [serve(tmp_path / "first.conf", {}), serve(tmp_path / "other.conf", known)]
        try:
            for port in (first, other):
                await answering(port)
            made = Regions(seeds, first, other, leaf, wire, key)
            await ensure_topology(made.address(first, PROVISIONER))
            yield made
        finally:
            for server in servers:
                server.kill()
                server.wait()


async def mirrored(regions: Regions, client: PlainClient, count: int) -> list[tuple[str, bytes]]:
    """The copy of the ledger, once it holds so many messages."""
    jetstream = client.jetstream()
    async with asyncio.timeout(SECONDS):
        while (await jetstream.stream_info("RUNS")).state.messages < count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.1)
    found = await copied(client)
    assert len(found) == count
    return found


async def copied(client: PlainClient) -> list[tuple[str, bytes]]:
    """The copy of the ledger as it is."""
    found: list[tuple[str, bytes]] = []
    with contextlib.suppress(NotFoundError):
        while True:
            message = await client.jetstream().get_msg("RUNS", len(found) + 1)
            found.append((message.subject or "", message.data or b""))
    return found


async def ledger(bus: JetStreamBus) -> list[tuple[str, bytes]]:
    return [(message.subject, message.data) async for message in bus.replay(run_subject("*"))]


@contextlib.asynccontextmanager
async def roles(regions: Regions, root: Path, bus: JetStreamBus) -> AsyncIterator[None]:
    """Gatekeeper and all roles but the worker in the first region, the worker in the other one."""
    trees = {"new": ROOT}
    here = Fleet(root / "here", f"nats://127.0.0.1:{regions.first}", regions.seeds, regions.key, trees)
    there = Fleet(root / "there", f"nats://127.0.0.1:{regions.other}", regions.seeds, regions.key, trees)
    for fleet in (here, there):
        fleet.root.mkdir()
    try:
        for name in HERE:
            await here.start(name, "new")
        await there.start("worker", "new")
        for name in (*HERE, "worker"):
            await answers(bus, name)
        yield
    finally:
        for fleet in (here, there):
            for name in tuple(fleet.running):
                await fleet.stop(name)


async def in_hand(client: Client, run_id: str) -> None:
    """The worker has a task of the run."""
    async with asyncio.timeout(SECONDS):
        async for event in client.follow(run_id):
            if event.event_type == "task_dispatched" and event.payload["role"] == "worker":
                return


@pytest.mark.long
async def test_a_second_region_survives_a_partition_without_loss(
    regions: Regions, tmp_path: Path, make_repository: MakeRepository
) -> None:
    project = make_repository("project", files=FILES).path
    async with contextlib.AsyncExitStack() as stack:
        bus = await JetStreamBus.connect(regions.address(regions.first, OPERATOR), name="operator")
        stack.push_async_callback(bus.close)
        plain = await nats.connect(
            f"nats://127.0.0.1:{regions.other}", nkeys_seed_str=identities.load(seed_file(regions.seeds, MIRROR)).seed
        )
        stack.push_async_callback(plain.close)
        answer = await plain.request("$JS.API.STREAM.CREATE.RUNS", mirror_config(), timeout=PATIENCE)
        assert "error" not in json.loads(answer.data)
        await stack.enter_async_context(roles(regions, tmp_path, bus))
        here = Client(bus, requested_by="tests", publisher=bus.publisher)
        there = await stack.enter_async_context(Client.connect(regions.address(regions.other, "publisher"), patience=3.0))

        # Submitted, worked on, looked at and proven in the other region.
        first = await there.submit_request(slow_request(project, 0.1), patience=PATIENCE)
        assert (await there.wait(first, timeout=SECONDS)).status == "SUCCESS"
        bundle = await receive_bundle(there, first, tmp_path / "evidence")
        assert await mirrored(regions, plain, len(await ledger(bus))) == await ledger(bus)

        # Cut while a task is in hand there; the first region goes on.
        held = await here.submit_request(slow_request(project, 2.0), patience=PATIENCE)
        await in_hand(here, held)
        regions.cut()
        waiting = await here.submit_request(slow_request(project, 0.1), patience=PATIENCE)
        assert (await here.get(waiting)).status == "RUNNING"
        with pytest.raises(BusError):
            await there.submit_request(slow_request(project, 0.1), patience=0.1)
        # What was on its way at the cut may still arrive.
        copy = await copied(plain)
        assert copy == (await ledger(bus))[: len(copy)]
        found = await asyncio.to_thread(verify, bundle, [keys.load(regions.key).public])
        assert found.findings == ()

        regions.mend()
        for run_id in (held, waiting):
            assert (await here.wait(run_id, timeout=SECONDS)).status == "SUCCESS"
        last = await there.submit_request(slow_request(project, 0.1), patience=SECONDS)
        assert (await there.wait(last, timeout=SECONDS)).status == "SUCCESS"
        whole = await ledger(bus)
        assert await mirrored(regions, plain, len(whole)) == whole
        for run_id in (first, held, waiting, last):
            kinds = [event.event_type for event in await here.events(run_id)]
            assert [kinds.count(kind) for kind in ("landed", "bundle_sealed", "task_finished")] == [1, 1, 1]


@pytest.mark.long
async def test_the_mirror_takes_more_than_one_window_and_writes_nothing(regions: Regions) -> None:
    gatekeeper = await JetStreamBus.connect(regions.address(regions.first, "gatekeeper"), name="gatekeeper")
    plain = await nats.connect(
        f"nats://127.0.0.1:{regions.other}", nkeys_seed_str=identities.load(seed_file(regions.seeds, MIRROR)).seed
    )
    await plain.request("$JS.API.STREAM.CREATE.RUNS", mirror_config(), timeout=PATIENCE)
    places = asyncio.Semaphore(64)

    async def put(number: int) -> None:
        async with places:
            await gatekeeper.publish(run_subject(f"run-{number % 50}"), bytes(16_000), schema="s", message_id=str(number))

    await asyncio.gather(*map(put, range(2_000)))
    assert await mirrored(regions, plain, 2_000) == await ledger(gatekeeper)
    mirror = await JetStreamBus.connect(regions.address(regions.first, MIRROR), name="mirror", patience=0.5)
    for attempt in (
        mirror.publish(run_subject("run-1"), b"", schema="s", message_id="forged"),
        mirror.publish("gw.task.worker.default.normal", b"", schema="s", message_id="forged"),
    ):
        with pytest.raises(GatewrightError):
            await attempt
    assert len(await ledger(gatekeeper)) == 2_000
    for each in (mirror, gatekeeper):
        await each.close()
    await plain.close()
