"""Three NATS servers: the leader of the ledger is killed, paused, cut off while runs come in; no accepted run is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gatewright.bus.identities import BusAddress
from gatewright.client.client import Client
from gatewright.errors import GatewrightError
from tests.compose.deployment import Deployment, engine, slow_request, unverified, wait_until

pytestmark = pytest.mark.compose

SERVERS = ("nats", "nats-2", "nats-3")
#: Seconds that a leader is away: longer than an election takes.
AWAY = 10.0
#: Seconds between two runs that come in.
PACE = 1.0

#: Seconds that the load waits for one answer.
ANSWER = 5.0

Deed = Callable[[Deployment, str], None]


def kill(cluster: Deployment, leader: str) -> None:
    cluster.do("kill", leader)
    time.sleep(AWAY)
    cluster.do("start", leader)


def pause(cluster: Deployment, leader: str) -> None:
    # An engine cannot freeze a container while a health check starts in it.
    wait_until(lambda: cluster.do("pause", leader, check=False).returncode == 0)
    time.sleep(AWAY)
    cluster.do("unpause", leader)


def disconnect(cluster: Deployment, leader: str) -> None:
    (container,) = cluster.containers(leader)
    networks = json.loads(engine("inspect", "--format", "{{json .NetworkSettings.Networks}}", container))
    for network in networks:
        engine("network", "disconnect", network, container)
    time.sleep(AWAY)
    for network, facts in networks.items():
        aliases = [word for alias in facts["Aliases"] or () for word in ("--alias", alias)]
        engine("network", "connect", *aliases, network, container)


def test_every_server_has_a_route_to_both_others_and_refuses_none(cluster: Deployment) -> None:
    names = {"nats-1", "nats-2", "nats-3"}
    wait_until(lambda: all(neighbours(cluster, server) == names - {name_of(server)} for server in SERVERS))
    for server in SERVERS:
        assert "authentication error" not in cluster.do("logs", "--no-color", server).stdout


def neighbours(cluster: Deployment, server: str) -> set[str]:
    """The servers that one server has a route to."""
    said = cluster.inside(server, "wget", "-qO-", "http://127.0.0.1:8222/routez")
    return {route["remote_name"] for route in json.loads(said)["routes"]}


def test_every_stream_lies_on_all_three_servers(cluster: Deployment) -> None:
    streams = {stream["name"]: stream for stream in streams_of(cluster)}
    assert {"INTAKE", "TASKS", "RESULTS", "RUNS", "DEAD", "ARTIFACTS", "KV_gw-locks"} <= set(streams)
    for name, stream in streams.items():
        assert len(stream["cluster"].get("replicas", ())) == 2, name


@pytest.mark.parametrize("deed", [kill, pause, disconnect])
def test_no_accepted_run_is_lost_when_the_leader_goes(deed: Deed, cluster: Deployment) -> None:
    names = [f"{deed.__name__}-{number}" for number in range(6)]
    for name in names:
        cluster.make_project(name)
    wait_until(lambda: all(healthy(cluster, server) for server in SERVERS))
    with load(cluster, names) as accepted:
        wait_until(lambda: len(accepted) >= 2)
        deed(cluster, leader_of(cluster, "RUNS"))
        went_on = len(accepted)
        wait_until(lambda: len(accepted) >= went_on + 2)
    runs = list(accepted)
    with cluster.client() as client:
        ended = [client.wait(run, timeout=120) for run in runs]
    assert [run.status for run in ended] == ["SUCCESS"] * len(runs), [run.failure for run in ended]
    assert unverified(cluster, runs) == []
    times = list(accepted.values())
    silence = max(later - earlier for earlier, later in itertools.pairwise(times))
    words = f"{deed.__name__}: {len(runs)} runs accepted, all landed and verified; nothing accepted for {silence:.1f} s"
    print(words)  # noqa: T201 - the figures of the test


@contextlib.contextmanager
def load(cluster: Deployment, names: list[str]) -> Iterator[dict[str, float]]:
    """Runs that come in one after the other from a thread of their own: the ids of those that were accepted, and when."""
    accepted: dict[str, float] = {}
    stop = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(submit(cluster.address(), names, accepted, stop)))
    thread.start()
    try:
        yield accepted
    finally:
        stop.set()
        thread.join(60)
    assert not thread.is_alive()


async def submit(address: BusAddress, names: list[str], accepted: dict[str, float], stop: threading.Event) -> None:
    async with Client.connect(address, requested_by="load") as client:
        number = 0
        while not stop.is_set():
            request = slow_request(names[number % len(names)], 1.0, key=f"{names[0]}-load-{number:04}")
            # What is not accepted is sent again, by the same key.
            with contextlib.suppress(GatewrightError, TimeoutError):
                async with asyncio.timeout(ANSWER):
                    accepted[await client.submit_request(request)] = time.monotonic()
                number += 1
            await asyncio.sleep(PACE)


def leader_of(cluster: Deployment, stream: str) -> str:
    """The service whose server leads a stream."""
    found = {each["name"]: each["cluster"].get("leader", "") for each in streams_of(cluster)}
    assert found[stream], f"{stream} has no leader"
    return next(server for server in SERVERS if name_of(server) == found[stream])


def name_of(service: str) -> str:
    """What a server is called among servers."""
    return "nats-1" if service == "nats" else service


def streams_of(cluster: Deployment) -> list[dict[str, Any]]:
    said = cluster.inside("nats", "wget", "-qO-", "http://127.0.0.1:8222/jsz?acc=gatewright&streams=true")
    return list(json.loads(said)["account_details"][0]["stream_detail"])


def healthy(cluster: Deployment, server: str) -> bool:
    containers = cluster.containers(server)
    return bool(containers) and engine("inspect", "--format", "{{.State.Health.Status}}", containers[0]) == "healthy"
