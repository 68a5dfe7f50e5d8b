"""The life of a role's process, on a real server: start, readiness, work, death, exit codes."""

from __future__ import annotations

import asyncio
import signal
import socket
import urllib.request
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.bus.topology import CANCEL_SUBJECT
from gatewright.contracts import TaskContract, TaskResult
from gatewright.tasks.protocol import cancel_notice
from tests.factories import make_contract
from tests.service.conftest import Gatekeeper, StartRole
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE


def make_order(spec: str) -> TaskContract:
    contract = make_contract()
    return replace(contract, inputs=replace(contract.inputs, spec=spec))


async def connection_names(server: OpenServer) -> list[str]:
    def ask() -> bytes:
        with urllib.request.urlopen(f"{server._monitoring}/connz") as answer:  # noqa: S310 - our own server
            body: bytes = answer.read()
            return body

    listed = msgspec.json.decode(await asyncio.to_thread(ask))
    return [connection["name"] for connection in listed["connections"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_process_becomes_ready_works_and_leaves_cleanly(
    server: OpenServer, gatekeeper: Gatekeeper, start_role: StartRole, number: signal.Signals
) -> None:
    role = await start_role({"nats_url": server.url})
    await role.get_until("/readyz", lambda body: body == "ok\n")
    assert await role.get("/healthz") == (200, "ok\n")
    await gatekeeper.give(make_order("work"))
    assert isinstance(await gatekeeper.result(), TaskResult)
    answered = 'gatewright_tasks_total{outcome="answered",role="worker"} 1.0'
    await role.get_until("/metrics", lambda body: answered in body)
    assert "worker" in await connection_names(server)
    pong = await gatekeeper.bus.request("$SRV.PING.gw-worker", b"", schema="", timeout=PATIENCE)
    assert msgspec.json.decode(pong.data)["name"] == "gw-worker"
    role.send(number)
    assert await role.ended() == 0
    assert [line["event"] for line in role.lines][-2:] == ["signal_received", "service_stopped"]
    assert server.url.encode() not in role.raw


@pytest.mark.long
async def test_process_killed_in_the_middle_of_a_task_loses_nothing(
    server: OpenServer, gatekeeper: Gatekeeper, start_role: StartRole
) -> None:
    first = await start_role({"nats_url": server.url})
    await first.logged("service_started")
    await gatekeeper.give(make_order("die once"))
    assert await first.ended() == -signal.SIGKILL
    await start_role({"nats_url": server.url})
    result = await gatekeeper.result()
    assert isinstance(result, TaskResult)
    assert result.summary == "2"


@pytest.mark.long
async def test_sigterm_returns_a_long_task_to_another_process_immediately(
    server: OpenServer, gatekeeper: Gatekeeper, start_role: StartRole
) -> None:
    first = await start_role({"nats_url": server.url, "drain_seconds": "0.1"})
    await gatekeeper.give(make_order("sleep 600"))
    await first.logged("task_started")
    first.send(signal.SIGTERM)
    assert await first.ended() == 0
    second = await start_role({"nats_url": server.url})
    assert (await second.logged("task_started"))["delivery"] == 2


async def test_aborted_run_stops_its_task_in_another_process(
    server: OpenServer, gatekeeper: Gatekeeper, start_role: StartRole
) -> None:
    role = await start_role({"nats_url": server.url})
    contract = make_order("sleep 600")
    await gatekeeper.give(contract)
    await role.logged("task_started")
    await gatekeeper.bus.broadcast(CANCEL_SUBJECT, cancel_notice(contract.log_refs.run_id))
    await role.logged("task_cancelled")
    role.send(signal.SIGINT)
    assert await role.ended() == 0
    assert not await gatekeeper.task_in_queue(0.2)


async def test_unexpected_error_ends_the_process_with_one_and_a_redacted_traceback(
    server: OpenServer, gatekeeper: Gatekeeper, start_role: StartRole
) -> None:
    role = await start_role({"nats_url": server.url})
    await gatekeeper.give(make_order("crash"))
    assert await role.ended() == 1
    assert b"hunter2" not in role.raw
    assert b"RuntimeError: token=[redacted:assignment]" in role.raw
    assert role.lines[-1]["event"] == "service_failed"
    assert await gatekeeper.task_in_queue(5)


@pytest.mark.long
async def test_server_that_comes_back_is_found_again(
    tmp_path: Path, server: OpenServer, gatekeeper: Gatekeeper, start_role: StartRole
) -> None:
    role = await start_role({"nats_url": server.url})
    await role.get_until("/readyz", lambda body: body == "ok\n")
    await server.stop()
    assert "bus: not connected" in await role.get_until("/healthz", lambda body: body != "ok\n")
    password = server.url.split(":")[2].split("@")[0]
    async with await OpenServer.open(tmp_path / "nats", port=server.port, password=password):
        await role.get_until("/readyz", lambda body: body == "ok\n")
        await gatekeeper.give(make_order("work"))
        assert isinstance(await gatekeeper.result(), TaskResult)
        assert "gatewright_bus_reconnects_total 1.0" in (await role.get("/metrics"))[1]
        role.send(signal.SIGTERM)
        assert await role.ended() == 0


async def test_host_that_cannot_do_the_work_is_alive_but_not_ready(
    server: OpenServer, gatekeeper: Gatekeeper, start_role: StartRole
) -> None:
    role = await start_role({"nats_url": server.url, "can_work": "false"})
    await role.get_until("/readyz", lambda body: body == "probe: no user namespaces here\n")
    assert (await role.get("/healthz"))[0] == 200
    metrics = (await role.get("/metrics"))[1]
    assert 'gatewright_sandbox_failures_total{during="probe",role="worker"} 1.0' in metrics
    assert 'gatewright_ready{role="worker"} 0.0' in metrics
    await gatekeeper.give(make_order("work"))
    assert isinstance(await gatekeeper.result(), TaskResult)


async def test_refused_credential_is_an_infrastructure_failure(server: OpenServer, start_role: StartRole) -> None:
    role = await start_role({"nats_url": f"nats://gatewright:hunter2@127.0.0.1:{server.port}"})
    assert await role.ended() == 3
    assert b"hunter2" not in role.raw


async def test_wrong_setting_stops_the_start_and_names_the_variable(start_role: StartRole) -> None:
    role = await start_role({"concurrency": "many", "sandbox": "docker"})
    assert await role.ended() == 2
    cause = role.lines[-1]["cause"]
    assert "GATEWRIGHT_CONCURRENCY: " in cause
    assert "GATEWRIGHT_SANDBOX: Input should be 'bubblewrap' or 'none'" in cause


async def test_metrics_address_that_is_taken_stops_the_start(server: OpenServer, start_role: StartRole) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        role = await start_role({"nats_url": server.url, "metrics_port": str(taken.getsockname()[1])})
        assert await role.ended() == 2
    assert "cannot serve metrics on 127.0.0.1" in role.lines[-1]["cause"]


@pytest.mark.long
async def test_metrics_can_be_switched_off(server: OpenServer, start_role: StartRole) -> None:
    role = await start_role({"nats_url": server.url, "metrics_port": "-1"})
    assert (await role.logged("service_started"))["metrics_port"] == -1
    role.send(signal.SIGTERM)
    assert await role.ended() == 0


async def test_an_uncaught_exception_is_a_redacted_line_too(server: OpenServer, start_role: StartRole) -> None:
    role = await start_role({"nats_url": server.url, "starts": "false"})
    assert await role.ended() == 1
    assert role.lines[-1]["event"] == "uncaught_exception"
    assert b"hunter2" not in role.raw


@pytest.mark.parametrize(
    ("failures", "code", "event"),
    [
        ('BusError("gone"), BusError("gone")', 3, "service_failed"),
        ('ConfigurationError("wrong key")', 2, "service_failed"),
        ('BusError("gone"), RuntimeError("token=hunter2")', 1, "uncaught_exception"),
    ],
)
async def test_failures_of_tasks_that_ran_together_give_one_exit_code(
    server: OpenServer, start_role: StartRole, failures: str, code: int, event: str
) -> None:
    program = f"""
from gatewright.errors import BusError, ConfigurationError
from gatewright.service.process import run_process
from gatewright.service.settings import ServiceSettings

async def body(service, settings):
    raise ExceptionGroup("together", [ExceptionGroup("nested", [{failures}])])

raise SystemExit(run_process("gatekeeper", body, ServiceSettings))
"""
    role = await start_role({"nats_url": server.url}, program)
    assert await role.ended() == code
    assert role.lines[-1]["event"] == event
    assert b"hunter2" not in role.raw
