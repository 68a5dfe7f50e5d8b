"""``python -m tests.faults.rolling_upgrade [--old REV] [--seconds 60]``: an older commit and this one side by side, under load.

Every process is that of the older commit at first. One after another is ended and started again from this checkout, roles
first and gatekeepers last; then, in the reverse order, all are taken back. Runs are given all the time, asked for and by
queue. At the end each is looked at: 0 lost, 0 landed twice. How many processes of each version there were is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from gatewright.app.stack.launch import ProcessPlan, Running, execute
from gatewright.app.stack.nats_server import NatsServer
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.identities import OPERATOR, PROVISIONER, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.client import Client
from gatewright.errors import BusError, GatewrightError
from gatewright.evidence.signing import keys
from tests.ecosystems.environments import plain_environment
from tests.faults.fault_stack import ROOT, House
from tests.faults.load import Load, judge
from tests.waiting import PATIENCE

#: Started anew in this order on the way up: a role reads what any gatekeeper sends before one of the new version sends it.
ORDER = ("pm", "techlead", "reviewer", "testrunner", "worker", "worker-2", "gatekeeper", "gatekeeper-2")
READY_SECONDS = PATIENCE
LEAVE_SECONDS = PATIENCE
#: Runs that are open at a time: more would wait for the test runner, and show nothing.
LANES = 8
OLDER = "0.0.1"


@dataclass
class Fleet:
    """The processes of an installation, each from one of two trees."""

    root: Path
    url: str
    seeds: Path
    key: Path
    trees: dict[str, Path]
    running: dict[str, Running] = field(default_factory=dict)
    started: Counter[str] = field(default_factory=Counter)

    async def start(self, name: str, version: str) -> None:
        role = name.partition("-")[0]
        # Two gatekeepers of one host share their home folder; what else they share is the bus.
        home = self.root / ("home" if role == "gatekeeper" else name)
        home.mkdir(exist_ok=True)
        tree = self.trees[version]
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            "PYTHONPATH": os.pathsep.join((str(tree / "shared"), str(tree))),
            "GATEWRIGHT_METRICS_PORT": "-1",
            "GATEWRIGHT_ENVIRONMENTS": str(plain_environment()),
            "GATEWRIGHT_NATS_URL": self.url,
            "GATEWRIGHT_NATS_SEED": str(seed_file(self.seeds, role)),
            "GATEWRIGHT_HOME": str(home),
            "GATEWRIGHT_KEY": str(self.key),
        }
        log = self.root / "logs" / f"{name}-{version}.log"
        log.parent.mkdir(exist_ok=True)
        plan = ProcessPlan(name, f"gatewright.services.{role}", environment, home, log)
        self.running[name] = await execute(plan)
        self.started[version] += 1

    async def replace(self, name: str, version: str, bus: JetStreamBus) -> None:
        """As a rolling upgrade does: the process is told to leave, and the new one has to answer before the next is touched."""
        await self.stop(name)
        await self.start(name, version)
        await answers(bus, name.partition("-")[0])

    async def stop(self, name: str) -> None:
        process = self.running.pop(name)
        os.kill(process.pid, 15)
        async with asyncio.timeout(LEAVE_SECONDS):
            await process.wait()


async def answers(bus: JetStreamBus, role: str) -> None:
    async with asyncio.timeout(READY_SECONDS):
        while True:
            try:
                await bus.request(f"$SRV.PING.gw-{role}", b"", schema="", timeout=0.5)
            except BusError:
                await asyncio.sleep(0.05)
            else:
                return


def before_the_newest_schemas() -> str:
    """The commit before the newest change of what crosses the bus. Raises CalledProcessError where the history is not here."""

    def asked(*words: str) -> str:
        return subprocess.run(("git", *words), cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    newest = asked("rev-list", "--no-merges", "--max-count=1", "HEAD", "--", "shared/schemas")
    return asked("rev-parse", "--verify", "--quiet", f"{newest}^")


def extract(revision: str, into: Path) -> Path:
    """The tree of a commit of this repository, with a version of its own, as every release has: readers go by it."""
    data = subprocess.run(("git", "archive", revision), cwd=ROOT, check=True, capture_output=True).stdout
    into.mkdir()
    with tarfile.open(fileobj=BytesIO(data)) as packed:
        packed.extractall(into, filter="fully_trusted")  # noqa: S202 - our own commit
    version = into / "shared/gatewright/version.py"
    version.write_text(f'"""An older version."""\n\n__version__ = "{OLDER}"\n')
    return into


async def trial(root: Path, old: str, seconds: float) -> dict[str, object]:
    home, key = root / "home", root / "signing-key.pem"
    home.mkdir()
    keys.load_or_create(key)
    tree = await asyncio.to_thread(extract, old, root / "old")
    async with await NatsServer.start(root / "nats", keys=bus_keys(home)) as server:
        await ensure_topology(server.address(PROVISIONER))
        fleet = Fleet(root, server.url, bus_keys(home), key, {"old": tree, "new": ROOT})
        bus = await JetStreamBus.connect(server.address(OPERATOR), name="trial")
        house = House(
            root,
            Supervisor(StackOptions(home=home, base_environment={})),
            [],
            (home,),
            bus,
            Client(bus, requested_by="faults", publisher=bus.publisher),
            root / "points",
            key,
        )
        try:
            for name in ORDER:
                await fleet.start(name, "old")
            for role in dict.fromkeys(name.partition("-")[0] for name in ORDER):
                await answers(bus, role)
            return await _under_load(fleet, house, seconds)
        finally:
            for name in tuple(fleet.running):
                await fleet.stop(name)
            await bus.close()


async def _under_load(fleet: Fleet, house: House, seconds: float) -> dict[str, object]:
    load = Load(house)
    enough = asyncio.Event()

    async def give() -> None:
        while not enough.is_set():
            one = await load.give(durable=len(load.given) % 4 == 0)
            with contextlib.suppress(GatewrightError):  # it is found lost at the end
                await house.client.wait(one.run_id, timeout=PATIENCE)

    giving = [asyncio.create_task(give()) for _ in range(LANES)]
    steps = [(name, "new") for name in ORDER] + [(name, "old") for name in reversed(ORDER)]
    pause = seconds / (len(steps) + 2)
    await asyncio.sleep(pause)
    for name, version in steps:
        began = time.monotonic()
        await fleet.replace(name, version, house.bus)
        await asyncio.sleep(max(0.0, pause - (time.monotonic() - began)))
    enough.set()
    await asyncio.gather(*giving)
    await load.settle(120.0)
    outcome = await judge(house, load.given)
    letters = [message async for message in house.bus.replay("gw.dead.>")]
    return {
        "runs": outcome.runs,
        "sealed": outcome.sealed,
        "processes started": dict(fleet.started),
        "dead letters": len(letters),
        "faults": outcome.faults,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", help="a commit of this repository; left out: the one before the newest change of a schema")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the upgrade and the way back take together")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gatewright-upgrade-") as root:
        found = asyncio.run(trial(Path(root), given.old or before_the_newest_schemas(), given.seconds))
    for name, value in found.items():
        sys.stdout.write(f"{name:18} {value}\n")
    return 1 if found["faults"] or found["dead letters"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
