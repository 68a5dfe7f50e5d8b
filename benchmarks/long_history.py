"""What a long history costs: ``python -m benchmarks.long_history [--runs 200 20000] [--each 20]``.

For each length in one go: a run is done, and its entries are written to the ledger under so many other ids, with a branch for
each in the target, as loose refs. Then the stack is started anew, and measured are

1. the seconds until the gatekeeper lists all runs, from its checkpoint and where there is none, and its memory;
2. processor time and memory of ``gatewright runs``, ``show``, ``watch`` and ``abort`` of a run in the middle of the history;
3. the gatekeeper's processor time for a small run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.processor import used
from benchmarks.scaling import running
from benchmarks.workload import git, make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.stack.supervisor import Supervisor
from gatewright.bus.identities import BusAddress, bus_keys, seed_file
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.topology import run_subject
from gatewright.contracts import Transition, codec
from gatewright.contracts.records import OrchestratorEvent
from gatewright.errors import GatewrightError
from gatewright.ledger import chain
from gatewright.ledger.entry_validation import TRANSITION_SCHEMA
from gatewright.ledger.store import Ledger
from gatewright.run.state import GENESIS
from gatewright.services.gatekeeper.projections.checkpoint import CHECKPOINTS

#: Runs that are written at a time.
IN_FLIGHT = 64
#: How much more the longest history may cost than the shortest; a start that reads all of it is not held to this.
BUDGET = 1.2
#: A small process between: what this one has in memory would count as that of the processes that it starts.
_WAITING = """
import os, subprocess, sys
with subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
print(process.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
"""
console = Console(highlight=False, width=120)


@dataclass
class Cost:
    """Of a history of ``runs``. Seconds and megabytes; ``commands`` by name."""

    runs: int
    messages: int = 0
    start: float = 0.0
    whole: float = 0.0
    memory: float = 0.0
    processor: float = 0.0
    commands: dict[str, tuple[float, float]] = field(default_factory=dict)


async def measure(root: Path, runs: int, each: int) -> Cost:
    home, repository, cost = root / "home", make_repository(root / "repository"), Cost(runs)
    async with running(home, workers=1) as stack, Client.connect(stack.address) as client:
        first = await succeeded(client, await client.submit_request(make_request(repository, 0), patience=10.0))
        bus = await JetStreamBus.connect(BusAddress(stack.address.url, seed_file(bus_keys(home), "gatekeeper")), name="history")
        names = [f"run-{number:020x}" for number in range(runs)]
        transitions = (await Ledger(bus).load(first.run_id)).transitions
        cost.messages = len(transitions) * runs
        await write_history(bus, transitions, names)
        await bus.close()
    commit = git(repository, "rev-parse", "refs/heads/main").decode().strip()
    commands = "".join(f"create refs/heads/gatewright/{name} {commit}\n" for name in names)
    git(repository, "update-ref", "--stdin", stdin=commands.encode())
    begun = time.perf_counter()
    async with running(home, workers=1) as stack, Client.connect(stack.address) as client:
        await until_listed(client)
        cost.start = time.perf_counter() - begun
        pid = gatekeeper_of(stack)
        cost.memory = resident(pid)
        for words in (["runs"], *([word, names[runs // 2]] for word in ("show", "watch", "abort"))):
            cost.commands[words[0]] = await asyncio.to_thread(timed, home, words)
        await small_runs(client, repository, 1, 3)
        spent = used([pid])
        await small_runs(client, repository, 4, each)
        cost.processor = (used([pid]) - spent) / each
    shutil.rmtree(home / CHECKPOINTS)
    begun = time.perf_counter()
    async with running(home, workers=1) as stack, Client.connect(stack.address) as client:
        await until_listed(client)
        cost.whole = time.perf_counter() - begun
    return cost


async def write_history(bus: JetStreamBus, transitions: Sequence[Transition], names: Sequence[str]) -> None:
    """The entries of one run, under many ids."""
    places = asyncio.Semaphore(IN_FLIGHT)

    async def write(run_id: str) -> None:
        async with places:
            for transition in under_another_id(transitions, run_id):
                message_id = f"{run_id}:{transition.number}"
                subject = run_subject(run_id)
                await bus.publish(subject, codec.encode(transition), schema=TRANSITION_SCHEMA, message_id=message_id)

    await asyncio.gather(*map(write, names))


def under_another_id(transitions: Sequence[Transition], run_id: str) -> tuple[Transition, ...]:
    """The same run with another id: its events are chained anew."""
    head, made = GENESIS, []
    for transition in transitions:
        text = codec.encode(transition).replace(transition.run_id.encode(), run_id.encode())
        renamed = codec.decode(text, Transition)
        events: list[OrchestratorEvent] = []
        for event in renamed.events:
            linked = replace(event, prev_hash=head)
            head = chain.digest(linked)
            events.append(replace(linked, hash=head))
        made.append(replace(renamed, events=tuple(events)))
    return tuple(made)


async def until_listed(client: Client) -> None:
    while True:
        try:
            await client.list_runs(limit=1)
        except GatewrightError:
            await asyncio.sleep(0.05)
        else:
            return


async def small_runs(client: Client, repository: Path, first: int, number: int) -> None:
    for each in range(first, first + number):
        await succeeded(client, await client.submit_request(make_request(repository, each), patience=60.0))


def gatekeeper_of(stack: Supervisor) -> int:
    (pid,) = [member.pid for member in stack.members if member.name == "gatekeeper"]
    return pid


def resident(pid: int) -> float:
    """Megabytes that a process has in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def timed(home: Path, words: Sequence[str]) -> tuple[float, float]:
    """Seconds of processor time, the median of three, and megabytes at the most, of a command."""
    seconds, memory = [], 0.0
    for _ in range(3):
        argv = [sys.executable, "-I", "-c", _WAITING, sys.executable, "-m", "gatewright.app.cli.main", *words]
        environment = {**os.environ, "GATEWRIGHT_HOME": str(home)}
        output = subprocess.run(argv, env=environment, check=True, capture_output=True, text=True).stdout.split()
        if output[0] != "0" and words[0] != "abort":  # there is nothing to abort
            raise SystemExit(f"gatewright {words[0]} ended with {output[0]}")
        seconds.append(float(output[1]))
        memory = max(memory, int(output[2]) / 1024)
    return statistics.median(seconds), memory


def show(costs: Sequence[Cost]) -> None:
    table = Table("runs in the ledger", *(f"{cost.runs:,}" for cost in costs), "ratio")

    def row(name: str, values: Sequence[float], form: str) -> None:
        ratio = values[-1] / values[0] if values[0] else 1.0
        table.add_row(name, *(form.format(value) for value in values), f"{ratio:.2f}")

    row("messages", [cost.messages for cost in costs], "{:,.0f}")
    row("start until runs are listed", [cost.start for cost in costs], "{:.2f} s")
    row("the same without a checkpoint", [cost.whole for cost in costs], "{:.2f} s")
    row("memory of the gatekeeper", [cost.memory for cost in costs], "{:.0f} MB")
    for name in costs[0].commands:
        row(f"gatewright {name}, processor", [cost.commands[name][0] for cost in costs], "{:.2f} s")
        row(f"gatewright {name}, memory", [cost.commands[name][1] for cost in costs], "{:.0f} MB")
    row("gatekeeper, processor for a small run", [cost.processor * 1000 for cost in costs], "{:.0f} ms")
    console.print(table)
    console.print(f"[dim]budget for all but what reads the ledger whole, and the gatekeeper's memory: {BUDGET}[/]")


def main(words: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, nargs="+", default=(200, 2_000), help="lengths of the history")
    parser.add_argument("--each", type=int, default=20, help="small runs that are measured")
    options = parser.parse_args(words)
    costs = []
    for runs in options.runs:
        with tempfile.TemporaryDirectory(prefix="gatewright-history-") as folder:
            costs.append(asyncio.run(measure(Path(folder), runs, options.each)))
        console.print(f"[dim]{runs} runs: read in {costs[-1].start:.1f} s[/]")
    show(costs)


if __name__ == "__main__":
    main(sys.argv[1:])
