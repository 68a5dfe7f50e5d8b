"""An installation as an observer sees it, on a real server with its permissions as rendered: all figures, no message."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.doctor import for_observer, see_cluster
from gatewright.app.cluster.asking import ClusterLook
from gatewright.app.cluster.judging import judge
from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus import identities
from gatewright.bus.identities import APPROVER, OBSERVER, OPERATOR, PROVISIONER, WATCHER, BusAddress, seed_file
from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import DEFAULT_POOL, dead_subject, task_consumer, task_subject
from gatewright.errors import BusError, ConfigurationError

POOLS = (DEFAULT_POOL,)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[NatsServer]:
    async with AsyncExitStack() as opened:
        started = await opened.enter_async_context(await NatsServer.start(tmp_path / "nats", keys=tmp_path / "bus"))
        await ensure_topology(started.address(PROVISIONER))
        gatekeeper, worker = [
            await JetStreamBus.connect(started.address(each), name=each, patience=5) for each in ("gatekeeper", "worker")
        ]
        opened.push_async_callback(gatekeeper.close)
        opened.push_async_callback(worker.close)
        await worker.serve("gw-worker", {})
        gatekeeper.report_facts(lambda: {"dead_letters": "1"})
        await gatekeeper.serve("gw-gatekeeper", {})
        for number in range(2):
            await gatekeeper.publish(task_subject("worker"), b"{}", schema="task_contract.v1", message_id=f"task-{number}")
        await worker.publish(dead_subject("worker"), b"{}", schema="dead_letter.v1", message_id="dead")
        yield started


async def look_as(server: NatsServer, identity: str) -> ClusterLook:
    address = server.address(identity)
    return await see_cluster(CommandContext(Path("/nowhere"), Path("/nowhere"), address, Path("/nowhere/key")), POOLS)


async def test_an_observer_sees_what_an_operator_sees(server: NatsServer) -> None:
    observed, known = await look_as(server, OBSERVER), await look_as(server, OPERATOR)
    depths = {each.queue.durable: each for each in observed.queues}
    assert [replace(each, oldest=0.0, at_most=False) for each in observed.queues] == [
        replace(each, oldest=0.0) for each in known.queues
    ]
    waiting = task_consumer("worker").durable
    assert (depths[waiting].waiting, depths[waiting].at_most) == (2, True)
    assert {each.role for each in observed.processes} == {"gatekeeper", "worker"}
    assert (observed.dead_letters, observed.missing) == (1, known.missing)
    assert [each.name for each in observed.streams] == [each.name for each in known.streams]
    found, expected = [{(each.code, each.about) for each in judge(look)} for look in (observed, known)]
    assert found == expected
    assert {"role_silent", "queue_unattended", "dead_letters_open"} <= {code for code, _ in found}


async def test_an_observer_sees_at_most_the_true_waiting_time(server: NatsServer) -> None:
    (observed,) = [each for each in (await look_as(server, OBSERVER)).queues if each.queue == task_consumer("worker")]
    (known,) = [each for each in (await look_as(server, OPERATOR)).queues if each.queue == task_consumer("worker")]
    assert 0 < observed.oldest <= known.oldest < observed.oldest + 60  # the second look came later


async def test_an_observer_reads_no_message_and_follows_no_run(server: NatsServer) -> None:
    bus = await JetStreamBus.connect(server.address(OBSERVER), name=OBSERVER, patience=5)
    try:
        for stream in ("TASKS", "RUNS", "DEAD"):
            with pytest.raises(BusError):
                await bus.connection.api(f"STREAM.MSG.GET.{stream}", {"seq": 1}, ApiReply)
        assert "permissions violation" in str(bus.connection.client.last_error)
    finally:
        await bus.close()


@pytest.mark.parametrize("identity", [WATCHER, APPROVER, "publisher"])
async def test_the_system_is_shown_by_no_other_identity(server: NatsServer, identity: str) -> None:
    with pytest.raises(ConfigurationError, match="an observer may look"):
        await look_as(server, identity)


def test_the_live_page_takes_an_observers_seed_alone(tmp_path: Path) -> None:
    identities.make(tmp_path)
    watcher, observer = (seed_file(tmp_path, each) for each in (WATCHER, OBSERVER))
    place = CommandContext(tmp_path, tmp_path, BusAddress("nats://127.0.0.1:1", watcher), tmp_path / "key")
    seen = for_observer(place, observer).bus
    assert seen is not None
    assert seen.seed == observer
    with pytest.raises(ConfigurationError) as caught:
        for_observer(place, watcher)
    assert caught.value.reason == "identity_invalid"
