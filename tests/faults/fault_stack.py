"""A whole Gatewright to break: the embedded stack's own server and roles, and as many gatekeepers as are wanted.

Everything that dies is started again at once, as an operator's supervisor would. The gatekeepers share one home folder, or have
one each; they share the key that signs.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gatewright.app.stack.fork_server import START_ORDER, ForkServer
from gatewright.app.stack.launch import ProcessPlan
from gatewright.app.stack.supervised_process import RestartPolicy, SupervisedProcess
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.identities import bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.ledger_layout import PARTITIONS
from gatewright.client import Client
from gatewright.clock import SystemClock
from gatewright.errors import BusError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.keys import PublicKey
from tests.ecosystems.environments import plain_environment
from tests.faults.crash_points import FOLDER
from tests.waiting import PATIENCE
from tests.warm_interpreter import warm_interpreter

ROOT = Path(__file__).resolve().parents[2]
ROLES = tuple(role for role in START_ORDER if role != "gatekeeper")
#: Restarted at once, for ever.
STUBBORN = RestartPolicy(settled=0.0)
READY_SECONDS = PATIENCE
PING = "$SRV.PING.gw-gatekeeper"


@dataclass
class House:
    """``root`` holds everything; ``homes`` are those of the gatekeepers, the first of them the stack's."""

    root: Path
    supervisor: Supervisor
    kept: list[SupervisedProcess]
    homes: tuple[Path, ...]
    bus: JetStreamBus
    client: Client
    points: Path
    key: Path
    dead: list[SupervisedProcess] = field(default_factory=list)

    @property
    def public_key(self) -> PublicKey:
        return keys.load(self.key).public

    def pids(self, victim: str) -> list[int]:
        """The processes of a role, of ``gatekeeper``, ``gatekeeper-2``, or of ``nats-server``, that live now."""
        members = [*(member for member in self.supervisor.members), *(process.member for process in self.kept)]
        return [member.pid for member in members if member.pid and _is(member.name, victim)]

    def kill(self, victim: str, number: signal.Signals = signal.SIGKILL) -> list[int]:
        """Signal every process of ``victim``; who they were."""
        victims = self.pids(victim)
        for pid in victims:
            os.kill(pid, number)
        return victims

    async def back(self, victim: str, gone: Sequence[int], seconds: float = PATIENCE) -> None:
        """Wait until others live in the place of those that were killed."""
        async with asyncio.timeout(seconds):
            while True:
                now = self.pids(victim)
                if len(now) >= len(gone) and not set(now) & set(gone):
                    return
                await asyncio.sleep(0.02)


def _is(name: str, victim: str) -> bool:
    return name == victim or (victim != "nats-server" and name.rpartition("-")[0] == victim)


@asynccontextmanager
async def open_house(
    root: Path,
    *,
    gatekeepers: int = 1,
    own_homes: bool = False,
    workers: int = 2,
    testrunners: int = 1,
    points: bool = False,
    partitions: int = 1,
    policies: Path | None = None,
) -> AsyncIterator[House]:
    """A house with everything running. ``points``: the gatekeepers are those of ``crash_points.py``.

    ``partitions``: in how many streams the ledger lies. ``policies``: a folder in place of the project's own.
    """
    base = {
        "PATH": os.environ["PATH"],
        "HOME": str(root),
        "GATEWRIGHT_METRICS_PORT": "-1",
        PARTITIONS: str(partitions),
        "GATEWRIGHT_ENVIRONMENTS": str(plain_environment()),
        # This checkout, whatever is installed.
        "PYTHONPATH": os.pathsep.join((str(ROOT / "shared"), str(ROOT))),
        **({"GATEWRIGHT_POLICIES": str(policies)} if policies is not None else {}),
    }
    home = root / "home-1"
    homes = tuple(root / f"home-{number}" if own_homes else home for number in range(1, gatekeepers + 1))
    armed, key = root / "points", root / "signing-key.pem"
    for folder in {*homes, armed}:
        folder.mkdir(parents=True)
    keys.load_or_create(key)
    roles = tuple(role for role in ROLES if workers or role != "worker")
    options = StackOptions(
        home=home, base_environment=base, workers=workers, shared=True, roles=roles, policy=STUBBORN, grace=10.0
    )
    supervisor = Supervisor(options)
    module = "tests.faults.pointed_gatekeeper" if points else "gatewright.services.gatekeeper"
    modules = {"gatekeeper": module, "testrunner": "gatewright.services.testrunner"}
    # The stack has one test runner of its own.
    places = [("gatekeeper", own) for own in homes] + [("testrunner", home)] * (testrunners - 1)
    kept: list[SupervisedProcess] = []
    with warm_interpreter():
        programs = list(modules.values())
        fork_server = await ForkServer.open(programs, base, root / "logs" / "fork-server.log", secrets=home / "secret-rules")
        await supervisor.start()
    try:
        for number, (role, own) in enumerate(places, 1):
            environment = {
                **base,
                "GATEWRIGHT_NATS_URL": supervisor.address.url,
                "GATEWRIGHT_NATS_SEED": str(seed_file(bus_keys(home), role)),
                "GATEWRIGHT_HOME": str(own),
                **({"GATEWRIGHT_KEY": str(key), FOLDER: str(armed)} if role == "gatekeeper" else {}),
            }
            name = f"{role}-{number}"
            plan = ProcessPlan(name, modules[role], environment, own, root / "logs" / f"{name}.log")
            process = SupervisedProcess(
                plan, launch=fork_server.fork, policy=STUBBORN, clock=SystemClock(), on_change=lambda: None
            )
            await process.start()
            kept.append(process)
        await supervisor.ready(READY_SECONDS)
        bus = await JetStreamBus.connect(supervisor.address, name="house")
        try:
            await _answer(bus)
            client = Client(bus, requested_by="faults", publisher=bus.publisher)
            yield House(root, supervisor, kept, homes, bus, client, armed, key)
        finally:
            await bus.close()
    finally:
        await asyncio.gather(*(process.stop(10.0) for process in kept))
        await fork_server.close()
        await supervisor.stop()


async def _answer(bus: JetStreamBus) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while True:
            try:
                await bus.request(PING, b"", schema="", timeout=0.5)
            except BusError:
                await asyncio.sleep(0.05)
            else:
                return
