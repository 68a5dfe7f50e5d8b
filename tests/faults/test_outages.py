"""The bus goes away, comes back, stalls and crawls: the services come back to work by themselves."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gatewright import Client
from gatewright.bus.identities import BusAddress, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.topology import run_subject
from gatewright.contracts import RunRequest
from gatewright.run.state import Run
from tests.e2e.conftest import FILES
from tests.e2e.stack import slow_request
from tests.faults.crash_points import TRANSITIONS
from tests.faults.outage_house import House, house
from tests.git.repositories import MakeRepository
from tests.tcp_proxy import Wire
from tests.waiting import PATIENCE, in_state, until

SLOW_BYTES = 4_000


@pytest.fixture
async def broken_house(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path / "home-of-house") as made:
        yield made


@pytest.fixture
def project(make_repository: MakeRepository) -> Path:
    return make_repository("project", files=FILES).path


def assert_done(run: Run) -> None:
    assert (run.status, run.failure) == ("SUCCESS", None)
    assert run.sealed is not None


async def usual_seconds(house: House, request: RunRequest) -> float:
    """What a run takes when nothing is broken and every role knows the repository."""
    await house.run(request)
    run, seconds = await house.run(request)
    assert_done(run)
    return seconds


@pytest.mark.long
@pytest.mark.parametrize("kill_it", [False, True], ids=["stopped", "killed"])
async def test_the_services_outlive_a_restart_of_the_server_with_their_pulls_open(
    broken_house: House, project: Path, *, kill_it: bool
) -> None:
    usual = await usual_seconds(broken_house, slow_request(project, 0.0))
    await broken_house.restart_server(kill_it=kill_it, pause=1.0)
    begun = time.monotonic()
    run, _ = await broken_house.run(slow_request(project, 0.0))
    seconds = time.monotonic() - begun - usual
    assert_done(run)
    assert broken_house.dead() == []
    broken_house.tell(
        f"after a server that was {'killed' if kill_it else 'stopped'}: at work again after {max(seconds, 0):.1f} s"
    )


@pytest.mark.long
async def test_a_run_goes_on_where_a_restart_of_the_server_met_it(broken_house: House, project: Path) -> None:
    async with Client.connect(broken_house.address) as client:
        run_id = await client.submit_request(slow_request(project, 2.0), patience=PATIENCE)
        for state in ("S2", "S4"):
            await in_state(client, run_id, state)
            await broken_house.restart_server(kill_it=True, pause=0.5)
        begun = time.monotonic()
        assert_done(await client.wait(run_id, timeout=PATIENCE))
    seconds = time.monotonic() - begun - 2.0
    broken_house.tell(f"a run through two kills of the server ended {max(seconds, 0):.1f} s later than its work takes")
    assert broken_house.dead() == []


@pytest.mark.long
async def test_cut_connections_are_made_anew(broken_house: House, project: Path) -> None:
    """Every connection is cut at every transition of a run, the last of which is its seal."""
    cuts = 0
    async with Client.connect(broken_house.address) as client:
        run_id = await client.submit_request(slow_request(project, 0.5), patience=PATIENCE)
        async with contextlib.aclosing(client.bus.replay(run_subject(run_id), follow=True)) as messages:
            async for message in messages:
                for wire in broken_house.wires.values():
                    wire.cut()
                cuts += 1
                if b'"bundle_sealed"' in message.data:
                    break
        assert_done(await client.wait(run_id, timeout=PATIENCE))
        following, seconds = await broken_house.run(slow_request(project, 0.0))
    assert_done(following)
    broken_house.tell(f"a run through {cuts} cuts of every connection; the next one took {seconds:.1f} s")
    assert cuts >= TRANSITIONS
    assert broken_house.dead() == []


@pytest.mark.long
async def test_connections_that_swallow_everything_are_given_up(broken_house: House, project: Path) -> None:
    """Neither side is told: no reset, no end of file. Only pings find it out."""
    usual = await usual_seconds(broken_house, slow_request(project, 0.0))
    for role in ("gatekeeper", "worker", "testrunner"):
        broken_house.wires[role].stall()
        run, seconds = await broken_house.run_from_queue(slow_request(project, 0.0))
        assert_done(run)
        late = max(seconds - usual, 0.0)
        broken_house.tell(f"with the connection of the {role} stalled for good: at work again after {late:.1f} s")
    assert broken_house.dead() == []


@pytest.mark.long
async def test_a_role_that_reads_slowly_delays_its_own_work_alone(broken_house: House, project: Path) -> None:
    usual = await usual_seconds(broken_house, slow_request(project, 0.0))
    reviewer, before = broken_house.wires["reviewer"], broken_house.wires["reviewer"].passed
    reviewer.slow(SLOW_BYTES)
    run, seconds = await broken_house.run(slow_request(project, 0.0))
    assert_done(run)
    its_own = (reviewer.passed - before) / SLOW_BYTES
    broken_house.tell(
        f"a reviewer that reads {SLOW_BYTES} bytes a second: {seconds - usual:.1f} s later, {its_own:.1f} s of it its own"
    )
    assert broken_house.dead() == []


@pytest.mark.long
async def test_a_watcher_that_does_not_read_delays_no_other_reader(broken_house: House, project: Path) -> None:
    """What it leaves lying is more than all buffers between it and the server hold."""
    big = msgspec.structs.replace(slow_request(project, 0.0), request="a long story. " * 80_000)
    run, _ = await broken_house.run(big)
    assert_done(run)
    seen: set[int] = set()
    async with Wire(broken_house.server.port) as wire:
        address = BusAddress(f"nats://127.0.0.1:{wire.port}", seed_file(bus_keys(broken_house.home), "watcher"))
        watcher = await JetStreamBus.connect(address, name="watcher")
        following = asyncio.create_task(follow(watcher, seen))
        await until(lambda: len(seen) >= 1)
        wire.stall()
        for _ in range(4):
            run, _ = await broken_house.run(big)
            assert_done(run)
        begun = time.monotonic()
        async with Client.connect(broken_house.address) as client:
            stored = {message.sequence async for message in client.bus.replay("gw.run.*")}
        await until(lambda: seen >= stored)
        caught_up = time.monotonic() - begun
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await watcher.close()
    broken_house.tell(
        f"four runs beside a watcher that does not read; it had caught up {caught_up:.1f} s after the last of them"
    )
    assert broken_house.dead() == []


async def follow(bus: JetStreamBus, seen: set[int]) -> None:
    async with contextlib.aclosing(bus.replay("gw.run.*", follow=True)) as messages:
        async for message in messages:
            seen.add(message.sequence)
