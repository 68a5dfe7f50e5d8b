"""`make bench`: what a run costs, and the floor beside it, measured in one go on one machine.

(a) a cold `gatewright run`; (b) submit to sealed bundle on a running stack, one at a time; (c) many runs in flight;
(d) the same irreducible work done bare; (e) what evidence adds. Figures are for comparing within one go; nothing can fail.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import (
    beyond_suite,
    diff_gate,
    goals,
    large_repository,
    lock_waiting,
    review_beside_tests,
    scaling,
    three_servers,
    verify_large,
)
from benchmarks.evidence_cost import EvidenceCost, one_cost
from benchmarks.floor import Counts, Floor
from benchmarks.processor import used_with_descendants
from benchmarks.waiting_work import when
from benchmarks.workload import make_patch, make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.nats_server import NatsServer
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.contracts import OrchestratorEvent
from gatewright.errors import GatewrightError

COLD_RUNS = 3
WARM_UP = 5
SAMPLES = 30
IN_FLIGHT = 50
console = Console(highlight=False)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gatewright-bench-") as folder:
        root = Path(folder)
        console.print("(a) cold runs ...")
        cold = [cold_run(root, number) for number in range(COLD_RUNS)]
        found = asyncio.run(on_a_running_stack(root))
    warm, events, throughput, floor, evidence, gap, gatekeeper = found
    show(cold, warm, throughput, floor)
    reached = {
        goals.SMALL: statistics.median(warm) / statistics.median(floor),
        goals.COLD: statistics.median(cold),
        goals.RATE: throughput,
        goals.GATEKEEPER: gatekeeper * 1000,
    }
    console.print(f"the longest time from a task's dispatch to its start, one run at a time: {gap * 1000:.0f} ms")
    for line in evidence.lines():
        console.print(line, soft_wrap=True)
    stages(events)
    ended = []
    for measured in (
        large_repository,  # before others delete many files: some disks are slow with new ones after that
        diff_gate,
        verify_large,
        review_beside_tests,
        beyond_suite,
        lock_waiting,
        three_servers,
        scaling,
    ):
        console.print(f"[dim]{measured.__name__} ...[/]")
        try:
            reached |= measured.main()
        except (SystemExit, GatewrightError) as error:
            # The others are worth their minutes all the same.
            console.print(f"[red]{measured.__name__} ended: {error}[/]", soft_wrap=True)
            ended.append(measured.__name__)
    goals.show_goals(reached, console)
    if ended:
        raise SystemExit(f"not measured: {', '.join(ended)}")


def cold_run(root: Path, number: int) -> float:
    """Seconds from typing `gatewright run` to its end, stack start and stop included, in a fresh repository and home."""
    repository = make_repository(root / f"cold{number}")
    patch = root / f"cold{number}.diff"
    patch.write_bytes(make_patch(number))
    words = ["run", "add a file", "--allow", "src", "--patch", str(patch), "--test", "true", "--json"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(root)}
    started = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-m", "gatewright.app.cli.main", *words],
        cwd=repository,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    seconds = time.perf_counter() - started
    if json.loads(finished.stdout.splitlines()[-1])["status"] != "SUCCESS":
        raise SystemExit(f"a cold run failed:\n{finished.stdout}\n{finished.stderr}")
    return seconds


async def on_a_running_stack(
    root: Path,
) -> tuple[list[float], tuple[OrchestratorEvent, ...], float, list[float], EvidenceCost, float, float]:
    """(b), (c), (d) and (e): samples of (b) and (d) take turns, so that both see the same machine.

    Then come the longest time in (b) from a task's dispatch to its start, while every role was free, and the gatekeeper's
    processor time for one of these runs, with the git processes that it starts: both in seconds.
    """
    repository = make_repository(root / "warm")
    home = root / "home"
    make_home(home)
    stack = Supervisor(StackOptions(home=home, base_environment={"PATH": os.environ["PATH"]}, workers=2, shared=True))
    await stack.start()
    bare_server = await NatsServer.start(root / "bare-nats")
    bus = await JetStreamBus.connect(bare_server.address("gatekeeper"), name="gatekeeper")
    try:
        await stack.ready(30.0)
        await ensure_topology(bus)
        async with Client.connect(stack.address) as client:
            counts = await count(client, repository)
            floor_folder = root / "floor"
            floor_folder.mkdir()
            floor = Floor(repository, floor_folder, bus, counts)
            floor.prepare()
            console.print(f"(b) and (d) taking turns, {SAMPLES} times; one run makes {counts} ...")
            warm, bare, gap, spent = [], [], 0.0, gatekeeper_seconds(stack)
            for number in range(WARM_UP + SAMPLES):
                done: list[str] = []
                warm.append(await one_run(client, repository, 1000 + number, done))
                bare.append(await floor.once(number))
                gap = max(gap, longest_gap(await client.events(done[0])))
            spent = (gatekeeper_seconds(stack) - spent) / (WARM_UP + SAMPLES)
            console.print(f"(c) {IN_FLIGHT} runs in flight ...")
            started = time.perf_counter()
            await asyncio.gather(*(one_run(client, repository, 5000 + number) for number in range(IN_FLIGHT)))
            throughput = IN_FLIGHT / (time.perf_counter() - started)
            last = await client.submit_request(make_request(repository, 9000))
            await succeeded(client, last)
            events = await client.events(last)
            console.print("(e) the evidence of that run, written again ...")
            (root / "evidence").mkdir()
            evidence = await one_cost(client, repository, root / "evidence", 10_000)
    finally:
        await bus.close()
        await bare_server.stop()
        await stack.stop()
    return warm[WARM_UP:], events, throughput, bare[WARM_UP:], evidence, gap, spent


def gatekeeper_seconds(stack: Supervisor) -> float:
    """Processor time so far, with all that it has started."""
    return sum(used_with_descendants(member.pid) for member in stack.members if member.name == "gatekeeper" and member.pid)


def longest_gap(events: Sequence[OrchestratorEvent]) -> float:
    """Seconds from the order of a task to its start, the longest of those whose role reports its start."""
    ordered = {event.task_id: when(event) for event in events if event.event_type == "task_dispatched"}
    reports = [(event.task_id, event.payload.get("result") or event.payload.get("report") or {}) for event in events]
    begun = [(task_id, report["started_at"]) for task_id, report in reports if "started_at" in report]
    return max((datetime.fromisoformat(start).timestamp() - ordered[task_id] for task_id, start in begun), default=0.0)


async def one_run(client: Client, repository: Path, number: int, done: list[str] | None = None) -> float:
    """Seconds from submitting a request to its sealed bundle; its id is added to ``done``."""
    started = time.perf_counter()
    run = await succeeded(client, await client.submit_request(make_request(repository, number), patience=5.0))
    if done is not None:
        done.append(run.run_id)
    return time.perf_counter() - started


async def count(client: Client, repository: Path) -> Counts:
    """What one run does to the bus and the disk, read off a real one."""
    run_id = await client.submit_request(make_request(repository, 0), patience=5.0)
    run = await succeeded(client, run_id)
    events = list(await client.events(run_id))
    if run.sealed is None:
        raise SystemExit(f"{run_id} was not sealed")
    tasks = len(run.tasks)
    transitions = (await client.get(run_id)).transitions
    stored = {
        artifact for artifact in json.dumps([event.payload for event in events]).split('"') if artifact[:9] == "artifact:"
    }
    return Counts(transitions + 2 * tasks, len(stored), len(events), files_of(Path(run.sealed.location)))


def files_of(bundle: Path) -> int:
    return sum(1 for path in bundle.rglob("*") if path.is_file())


def show(cold: Sequence[float], warm: Sequence[float], throughput: float, floor: Sequence[float]) -> None:
    table = Table("what", "median", "p95", "min", title="Gatewright, in one go on this machine")

    def row(name: str, samples: Sequence[float]) -> None:
        ranked = sorted(samples)
        p95 = ranked[min(len(ranked) - 1, int(len(ranked) * 0.95))]
        table.add_row(name, *(f"{value * 1000:.0f} ms" for value in (statistics.median(ranked), p95, ranked[0])))

    row("(a) cold gatewright run", cold)
    row("(b) submit to sealed bundle", warm)
    row("(d) the same work done bare", floor)
    console.print(table)
    console.print(f"(c) {IN_FLIGHT} runs in flight: {throughput:.1f} runs/s")
    console.print(f"b/d = {statistics.median(warm) / statistics.median(floor):.2f}")


def stages(events: Sequence[OrchestratorEvent]) -> None:
    """Where the time of one run goes, from the events' own times."""
    console.print("where the time of one run goes (milliseconds since it was accepted):")
    first = datetime.fromisoformat(events[0].ts)
    for event in events:
        passed = (datetime.fromisoformat(event.ts) - first).total_seconds() * 1000
        detail = event.payload.get("state") or event.payload.get("role") or event.payload.get("report", {}).get("gate", "")
        console.print(f"  {passed:7.0f}  {event.event_type} {detail}")


if __name__ == "__main__":
    main()
