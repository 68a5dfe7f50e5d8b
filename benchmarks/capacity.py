"""What an installation has to be given: ``python -m benchmarks.capacity [--runs 24] [--in-flight 4] [--parts 4 16]``.

First runs that land a patch on a branch of their own, then runs of so many parts each: processor time of every role and of
the NATS server for one run, messages that it puts into each stream, bytes that stay (ledger, artifacts, bundle). From these
follow the runs a second that a core does, and what a disk holds. The commands do next to nothing: what a project's own commands
and tests take comes on top. At the end all of it is backed up and looked at, timed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.processor import used
from benchmarks.scaling import running
from benchmarks.waiting_work import SANDBOXED, make_fields, waiting_request
from benchmarks.workload import make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.backup.contents import check_files, read_backup
from gatewright.app.backup.taking import Installation, take_backup
from gatewright.app.cluster.asking import ask_cluster
from gatewright.app.stack.supervisor import Supervisor
from gatewright.bus.identities import PROVISIONER, BusAddress, bus_keys, public_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.stream_snapshots import existing
from gatewright.bus.topology import STREAM_NAMES
from gatewright.clock import SystemClock
from gatewright.contracts import RunRequest

KEPT = ("RUNS", "ARTIFACTS")
console = Console(highlight=False, width=140)


@dataclass(frozen=True)
class Counted:
    """So far: seconds of processor by role, messages and bytes by stream, bytes of bundles."""

    seconds: Mapping[str, float]
    messages: Mapping[str, int]
    stored: Mapping[str, int]
    bundles: int

    @classmethod
    async def now(cls, stack: Supervisor, bus: JetStreamBus) -> Counted:
        seconds: defaultdict[str, float] = defaultdict(float)
        for member in stack.members:
            if member.pid and member.name != "fork-server":
                seconds[member.name.rstrip("-0123456789")] += used([member.pid])
        found = {name: await existing(bus.connection, name) for name in STREAM_NAMES}
        sizes = {each.name: each.size for each in (await ask_cluster(bus.connection, ("default",))).streams}
        files = (path for path in (stack.options.home / "runs").rglob("*") if path.is_file())
        return cls(
            seconds, {name: each[1] if each else 0 for name, each in found.items()}, sizes, sum(f.stat().st_size for f in files)
        )


@dataclass(frozen=True)
class Cost:
    """Of one run."""

    what: str
    seconds: Mapping[str, float]
    messages: Mapping[str, float]
    kept: Mapping[str, float]
    rate: float

    @property
    def processor(self) -> float:
        return sum(self.seconds.values())


async def cost(what: str, requests: Sequence[RunRequest], in_flight: int, stack: Supervisor, bus: JetStreamBus) -> Cost:
    before, began, places = await Counted.now(stack, bus), time.monotonic(), asyncio.Semaphore(in_flight)

    async def run(client: Client, request: RunRequest) -> None:
        async with places:
            await succeeded(client, await client.submit_request(request, patience=30.0), 600)

    async with Client.connect(stack.address) as client:
        await asyncio.gather(*(run(client, request) for request in requests))
    seconds, count = time.monotonic() - began, len(requests)
    after = await Counted.now(stack, bus)
    kept = {name: (after.stored[name] - before.stored[name]) / count for name in KEPT}
    return Cost(
        what,
        {name: (spent - before.seconds.get(name, 0.0)) / count for name, spent in after.seconds.items()},
        {name: (number - before.messages[name]) / count for name, number in after.messages.items()},
        {**kept, "bundle": (after.bundles - before.bundles) / count},
        count / seconds,
    )


async def measure(root: Path, runs: int, in_flight: int, parts: Sequence[int]) -> list[Cost]:
    repository, fields = make_repository(root / "repository"), make_fields(root / "fields", runs)
    home, found = root / "home", []
    async with running(home, workers=2) as stack:
        bus = await JetStreamBus.connect(stack.address, name="bench")
        await cost("warm", [make_request(repository, 1000 + number) for number in range(4)], in_flight, stack, bus)
        small = [make_request(repository, number) for number in range(runs)]
        found.append(await cost("a patch that lands", small, in_flight, stack, bus))
        for number in parts:
            large = [waiting_request(fields, SANDBOXED, each, number) for each in range(runs)]
            found.append(await cost(f"{number} parts of a second", large, in_flight, stack, bus))
        await bus.close()
        await backed_up(root / "backup", home, stack.address.url)
    return found


async def backed_up(folder: Path, home: Path, url: str) -> None:
    connection = await Connection.open(BusAddress(url, seed_file(bus_keys(home), PROVISIONER)), name="backup")
    what = Installation(files={}, runs=home / "runs", signing_key="", identities=public_keys(bus_keys(home)))
    began = time.monotonic()
    outcome = await take_backup(connection, what, folder, SystemClock(), lambda _words: None)
    taken = time.monotonic()
    check_files(folder, read_backup(folder)[0])
    looked = time.monotonic()
    await connection.close()
    size, bundles = outcome.contents.size(), len(outcome.contents.bundles)
    console.print(
        f"backup of {bundles} bundles and {outcome.contents.moment} messages of the ledger, {size / 1e6:.1f} MB: "
        f"{taken - began:.2f} s; looked at in {looked - taken:.2f} s"
    )


def show(costs: Sequence[Cost]) -> None:
    table = Table("one run", *(each.what for each in costs), title="processor seconds, messages, bytes")
    for name in sorted({name for each in costs for name in each.seconds}):
        table.add_row(f"{name}, s", *(f"{each.seconds.get(name, 0.0):.3f}" for each in costs))
    table.add_row("together, s", *(f"{each.processor:.3f}" for each in costs))
    table.add_row("runs a second and core", *(f"{1 / each.processor:.1f}" for each in costs))
    table.add_row("runs a second here", *(f"{each.rate:.1f}" for each in costs))
    for name in STREAM_NAMES:
        table.add_row(f"messages in {name}", *(f"{each.messages[name]:.1f}" for each in costs))
    for name in (*KEPT, "bundle"):
        table.add_row(f"kB that stay: {name}", *(f"{each.kept[name] / 1e3:.1f}" for each in costs))
    console.print(table)


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--in-flight", type=int, default=4)
    parser.add_argument("--parts", type=int, nargs="*", default=[4, 16])
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-capacity-") as folder:
        show(asyncio.run(measure(Path(folder), given.runs, given.in_flight, given.parts)))


if __name__ == "__main__":
    main(sys.argv[1:])
