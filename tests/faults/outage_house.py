"""A NATS server and the six services as processes of their own, each behind a wire of its own, for tests that break things."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.fork_server import ForkServer
from gatewright.app.stack.launch import ProcessPlan, Running
from gatewright.app.stack.nats_server import NatsServer
from gatewright.app.stack.processes import kill
from gatewright.bus.identities import OPERATOR, PROVISIONER, BusAddress, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import REQUEST_SUBJECT, ROLES, Role
from gatewright.contracts import RunRequest, codec
from gatewright.errors import BusError, GatewrightError
from gatewright.run.state import Run, run_id_of
from tests.ecosystems.environments import plain_environment
from tests.tcp_proxy import Wire
from tests.waiting import PATIENCE
from tests.warm_interpreter import warm_interpreter

ROOT = Path(__file__).resolve().parents[2]
#: What the commands of test repositories see as `python`.
PREFIX = plain_environment()
READY_SECONDS = PATIENCE
JUMPING = "tests.faults.jumping"


@dataclass
class House:
    """Everything that runs; ``wires`` by role."""

    home: Path
    server: NatsServer
    wires: Mapping[Role, Wire]
    processes: Mapping[Role, Running]
    told: list[str] = field(default_factory=list)

    @property
    def address(self) -> BusAddress:
        """The operator's, past every wire."""
        return self.server.address(OPERATOR)

    def pids(self) -> dict[Role, int]:
        return {name: process.pid for name, process in self.processes.items()}

    def dead(self) -> list[Role]:
        """Services that have ended; there is nobody here who would start them again."""
        return [name for name, process in self.processes.items() if process.returncode is not None]

    async def restart_server(self, *, kill_it: bool, pause: float = 0.0) -> None:
        """End the server, by force or not, and start it again on its port and files after ``pause`` seconds."""
        port = self.server.port
        if kill_it:
            os.kill(self.server.pid, signal.SIGKILL)
            with contextlib.suppress(GatewrightError):
                await self.server.ended()
        await self.server.stop()
        await asyncio.sleep(pause)
        self.server = await NatsServer.start(self.home / "nats", port=port, keys=bus_keys(self.home))

    def jump(self, seconds: float, *roles: Role) -> None:
        """Set the wall clocks of these services, by default of all, off by so many seconds."""
        for role in roles or ROLES:
            part = clock_file(self.home, role).with_suffix(".part")
            part.write_text(str(seconds))
            part.replace(clock_file(self.home, role))

    async def all_answer(self, within: float) -> float:
        """Seconds until every service has answered on the bus, by the services protocol. TimeoutError when it takes longer."""
        begun = time.monotonic()
        silent = set(ROLES)
        async with asyncio.timeout(within):
            async with contextlib.AsyncExitStack() as opened:
                bus = await JetStreamBus.connect(self.address, name="operator", patience=within)
                opened.push_async_callback(bus.close)
                while silent:
                    for role in tuple(silent):
                        with contextlib.suppress(BusError):
                            await bus.request(f"$SRV.PING.gw-{role}", b"", schema="", timeout=0.3)
                            silent.discard(role)
        return time.monotonic() - begun

    async def run(self, request: RunRequest, *, within: float = 60.0) -> tuple[Run, float]:
        """A run to its sealed bundle, and the seconds that it took."""
        begun = time.monotonic()
        async with Client.connect(self.address) as client:
            run = await client.wait(await client.submit_request(request, patience=within), timeout=within)
        return run, time.monotonic() - begun

    async def run_from_queue(self, request: RunRequest, *, within: float = 60.0) -> tuple[Run, float]:
        """``run``, ordered on the durable subject: nobody has to be there to take it."""
        key = uuid.uuid4().hex
        document = codec.encode(msgspec.structs.replace(request, idempotency_key=key))
        begun = time.monotonic()
        async with Client.connect(self.address) as client:
            await client.bus.publish(REQUEST_SUBJECT, document, schema="run_request.v1", message_id=key)
            run = await client.wait(run_id_of(key), timeout=within)
        return run, time.monotonic() - begun

    def tell(self, words: str) -> None:
        """A figure for whoever runs the tests with ``-s`` or ``-rP``."""
        self.told.append(words)
        print(words)  # noqa: T201 - pytest shows it


@contextlib.asynccontextmanager
async def house(home: Path, *, jumping: bool = False) -> AsyncIterator[House]:
    """Start it all, and stop it all. ``jumping``: with clocks that ``House.jump`` moves."""
    make_home(home)
    async with contextlib.AsyncExitStack() as opened:
        server = await NatsServer.start(home / "nats", keys=bus_keys(home))
        await ensure_topology(server.address(PROVISIONER))
        (home / "logs").mkdir(exist_ok=True)
        wires = {role: await opened.enter_async_context(Wire(server.port)) for role in ROLES}
        base = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared"))),
            "GATEWRIGHT_HOME": str(home),
            "GATEWRIGHT_ENVIRONMENTS": str(PREFIX),
        }
        modules = [f"gatewright.services.{role}" for role in ROLES] + [JUMPING] * jumping
        with warm_interpreter():
            fork_server = await ForkServer.open(modules, base, home / "logs" / "fork-server.log", secrets=home / "secret-rules")
        opened.push_async_callback(fork_server.close)
        processes: dict[Role, Running] = {}
        for role in ROLES:
            own = {"GATEWRIGHT_NATS_URL": f"nats://127.0.0.1:{wires[role].port}"}
            own["GATEWRIGHT_NATS_SEED"] = str(seed_file(bus_keys(home), role))
            own |= {"JUMPING_SERVICE": f"gatewright.services.{role}", "JUMPING_CLOCK": str(clock_file(home, role))}
            clock_file(home, role).write_text("0")
            module, log = JUMPING if jumping else f"gatewright.services.{role}", home / "logs" / f"{role}.log"
            processes[role] = await fork_server.fork(ProcessPlan(role, module, base | own, home, log))
        made = House(home, server, wires, processes)
        try:
            await made.all_answer(READY_SECONDS)
            yield made
        finally:
            for process in processes.values():
                kill(process.pid, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(15):
                    await asyncio.gather(*(process.wait() for process in processes.values()))
            await made.server.stop()


def clock_file(home: Path, role: Role) -> Path:
    """How far the clock of a role is off, in seconds."""
    return home / "logs" / f"{role}.clock"
