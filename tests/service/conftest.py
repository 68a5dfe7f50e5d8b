"""A real NATS server and real role processes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import RESULT_CONSUMER, task_consumer, task_subject
from gatewright.contracts import TaskContract, codec
from gatewright.contracts.vocabulary import Document
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE

ROOT = Path(__file__).parents[2]
ECHO = "import runpy; runpy.run_module('tests.service.echo_role', run_name='__main__')"
#: The NATS client calls datetime.utcnow, which Python 3.12 deprecates.
STRICT = ("-W", "error", "-W", "ignore::DeprecationWarning:nats.micro.service")


@dataclass
class RoleProcess:
    """A role as a process of its own; what it logs is read as it comes."""

    process: asyncio.subprocess.Process

    def __post_init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.raw = b""

    async def logged(self, event: str) -> dict[str, Any]:
        """The first line with this event, also an earlier one."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while True:
                for line in self.lines:
                    if line["event"] == event:
                        return line
                text = await self.process.stderr.readline()
                assert text, f"it ended without {event}: {self.lines}"
                self.raw += text
                self.lines.append(msgspec.json.decode(text))

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of its HTTP face."""
        port = (await self.logged("service_started"))["metrics_port"]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        await writer.wait_closed()
        return int(head.split(" ")[1]), body

    async def get_until(self, path: str, wanted: Callable[[str], bool]) -> str:
        async with asyncio.timeout(PATIENCE):
            while True:
                _, body = await self.get(path)
                if wanted(body):
                    return body
                await asyncio.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    async def ended(self) -> int:
        """Its exit code; the rest of its log is in ``lines``."""
        _, rest = await asyncio.wait_for(self.process.communicate(), PATIENCE)
        self.raw += rest
        self.lines += [msgspec.json.decode(text) for text in rest.splitlines()]
        assert self.process.returncode is not None
        return self.process.returncode


class StartRole(Protocol):
    async def __call__(self, settings: Mapping[str, str], program: str = ECHO) -> RoleProcess:
        """Start a process with these settings (names without their prefix) and this program."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[OpenServer]:
    async with await OpenServer.open(tmp_path / "nats") as running:
        await ensure_topology(running.url)
        yield running


@pytest.fixture
async def start_role(tmp_path: Path) -> AsyncIterator[StartRole]:
    started: list[RoleProcess] = []

    async def start(settings: Mapping[str, str], program: str = ECHO) -> RoleProcess:
        environment = {"PATH": os.environ["PATH"], "GATEWRIGHT_HOME": str(tmp_path / "home")}
        environment |= {f"GATEWRIGHT_{name.upper()}": value for name, value in settings.items()}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *STRICT, "-c", program),
            cwd=ROOT,
            env=environment,
            stderr=asyncio.subprocess.PIPE,
        )
        started.append(RoleProcess(process))
        return started[-1]

    yield start
    for role in started:
        if role.process.returncode is None:
            role.process.kill()
            await role.process.communicate()


class Gatekeeper:
    """The other side of the bus."""

    def __init__(self, bus: JetStreamBus) -> None:
        self.bus = bus

    async def give(self, contract: TaskContract) -> None:
        await self.bus.publish(
            task_subject("worker"), codec.encode(contract), schema="task_contract.v1", message_id=f"give:{contract.task_id}"
        )

    async def result(self) -> Document:
        """The next answer of the worker."""
        subscription = await self.bus.consume(RESULT_CONSUMER)
        delivery = await subscription.next(30)
        assert delivery is not None
        await delivery.ack()
        await subscription.close()
        return codec.decode_named(delivery.message.data, delivery.message.headers["Gw-Schema"])

    async def task_in_queue(self, seconds: float) -> bool:
        """Whether a task for the worker is, or becomes within ``seconds``, free to be taken."""
        subscription = await self.bus.consume(task_consumer("worker"))
        delivery = await subscription.next(seconds)
        await subscription.close()
        return delivery is not None


@pytest.fixture
async def gatekeeper(server: OpenServer) -> AsyncIterator[Gatekeeper]:
    bus = await JetStreamBus.connect(server.url, name="gatekeeper")
    await ensure_topology(bus)
    yield Gatekeeper(bus)
    await bus.close()
