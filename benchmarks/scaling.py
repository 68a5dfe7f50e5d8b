"""How the system scales: ``python -m benchmarks.scaling [--chart FILE.svg] [--steps 1 8 64] [--each 30]``.

1. Workers, each a process of its own, with tasks of one second that need no processor: what is left of the ideal time
   (tasks / workers x 1 s) in the measured one, from the first task's dispatch to the last result's judgement. Once with an
   executor that waits, once with a command in the sandbox.
2. Trivial runs, more and more of them in flight: where the throughput stops growing, beside the bare JetStream rate of the
   same server in the same go.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import goals
from benchmarks.bare_jetstream import bare_rate
from benchmarks.processor import Machine, used
from benchmarks.scaling_chart import Panel, draw
from benchmarks.waiting_work import MOST_SHARDS, PREFIX, SANDBOXED, WAITING, Scaled, make_fields, scaled
from benchmarks.workload import make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.fork_server import START_ORDER
from gatewright.app.stack.supervisor import StackOptions, Supervisor

WORKERS = (1, 2, 4, 8, 16, 32, 64)
#: Tasks for every worker: the start and the end of a series weigh as much as they do in ten seconds of work.
EACH = 10
LEAST_RUNS = 16
BUDGET = 0.95
console = Console(highlight=False, width=120)


@dataclass(frozen=True)
class Flown:
    """``rate``: runs a second with ``in_flight`` at a time. ``messages``: what one stores. ``bare``: JetStream's own messages a
    second with as many in flight. ``processor``: seconds for one run. ``busy``: of the machine, 0 to 1.
    """

    in_flight: int
    rate: float
    messages: int
    bare: float
    processor: float
    busy: float


async def measure(root: Path, steps: Sequence[int], each: int) -> tuple[list[Scaled], list[Scaled], list[Flown]]:
    fields = make_fields(root / "fields", -(-max(steps) * each // MOST_SHARDS))
    async with running(root / "home", workers=0) as stack, Client.connect(stack.address) as client:
        waiting = [await report(scaled(stack, client, fields, WAITING, count, each)) for count in steps]
        sandboxed = [await report(scaled(stack, client, fields, SANDBOXED, count, each)) for count in steps[::3]]
    repository = make_repository(root / "repository")
    async with running(root / "trivial", workers=2) as stack, Client.connect(stack.address) as client:
        await flown(stack, client, repository, 2, 0, 0.0)
        bare = [await bare_rate(root / f"bare{count}", count) for count in steps]
        flights = [
            await flown(stack, client, repository, count, 1000 * (number + 1), bare[number])
            for number, count in enumerate(steps)
        ]
    return waiting, sandboxed, flights


@contextlib.asynccontextmanager
async def running(home: Path, *, workers: int) -> AsyncIterator[Supervisor]:
    """The embedded stack, ready; without workers of its own when there are to be 0."""
    make_home(home)
    roles = tuple(role for role in START_ORDER if workers or role != "worker")
    stack = Supervisor(
        StackOptions(
            home=home,
            base_environment={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
            workers=workers,
            environments=(PREFIX,),
            shared=True,
            roles=roles,
        )
    )
    await stack.start()
    try:
        await stack.ready(30.0)
        yield stack
    finally:
        await stack.stop()


async def report(work: Awaitable[Scaled]) -> Scaled:
    done = await work
    console.print(f"[dim]{done.workers} workers, {done.tasks} tasks: {done.measured:.2f} s[/]")
    return done


async def flown(stack: Supervisor, client: Client, repository: Path, in_flight: int, first: int, bare: float) -> Flown:
    """``in_flight`` submitters, each with its next run as soon as the last one is sealed."""
    runs = max(LEAST_RUNS, 2 * in_flight)
    done: list[str] = []

    async def submit(start: int) -> None:
        for number in range(first + start, first + runs, in_flight):
            run = await succeeded(client, await client.submit_request(make_request(repository, number), patience=10.0))
            done.append(run.run_id)

    pids = [*(member.pid for member in stack.members), os.getpid()]
    spent, machine, begun = used(pids), Machine.now(), time.perf_counter()
    await asyncio.gather(*map(submit, range(in_flight)))
    seconds = time.perf_counter() - begun
    busy = Machine.now().share_since(machine)
    console.print(f"[dim]{in_flight} in flight: {runs / seconds:.1f} runs/s[/]")
    spent = used(pids) - spent
    last = await client.get(done[-1])
    # A transition is a message, and so are a task and its answer.
    messages = last.transitions + 2 * len(last.tasks)
    return Flown(in_flight, runs / seconds, messages, bare, spent / runs, busy)


def show_scaled(waiting: Sequence[Scaled], sandboxed: Sequence[Scaled]) -> None:
    for kind, series in ((WAITING, waiting), (SANDBOXED, sandboxed)):
        table = Table("workers", "tasks", "ideal", "measured", "efficiency", "tasks/s", "processor a task", "machine busy")
        table.title = f"tasks of one second: {kind.name}"
        for row in series:
            table.add_row(
                str(row.workers),
                str(row.tasks),
                f"{row.ideal:.1f} s",
                f"{row.measured:.2f} s",
                f"{row.efficiency:.1%}" + ("" if row.efficiency >= BUDGET else f" (< {BUDGET:.0%})"),
                f"{row.tasks / row.measured:.1f}",
                f"{row.processor / row.tasks * 1000:.0f} ms",
                f"{row.busy:.0%}",
            )
        console.print(table)


def show_flown(flights: Sequence[Flown]) -> None:
    table = Table("runs in flight", "runs/s", "messages/s", "bare JetStream", "share", "processor a run", "machine busy")
    table.title = "trivial runs"
    for row in flights:
        stored = row.rate * row.messages
        table.add_row(
            str(row.in_flight),
            f"{row.rate:.1f}",
            f"{stored:.0f}",
            f"{row.bare:.0f}/s",
            f"{stored / row.bare:.1%}",
            f"{row.processor * 1000:.0f} ms",
            f"{row.busy:.0%}",
        )
    console.print(table)
    most = max(row.rate for row in flights)
    first = next(row for row in flights if row.rate >= 0.95 * most)
    console.print(f"95 % of the highest throughput ({most:.1f} runs/s) is reached with {first.in_flight} in flight")


def panels(waiting: Sequence[Scaled], sandboxed: Sequence[Scaled], flights: Sequence[Flown]) -> tuple[Panel, Panel]:
    lines = {
        kind.name: [(row.workers, row.efficiency * 100) for row in series]
        for kind, series in ((WAITING, waiting), (SANDBOXED, sandboxed))
    }
    rates = [(row.in_flight, row.rate) for row in flights]
    top = 4.0 * -(-max(rate for _, rate in rates) // 4)
    return (
        Panel("efficiency, tasks of one second", "workers", lines, 100.0, "%", BUDGET * 100),
        Panel("trivial runs a second", "runs in flight", {"runs/s": rates}, top),
    )


def main(words: Sequence[str] = ()) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chart", type=Path, help="where to draw it, as SVG")
    parser.add_argument("--steps", type=int, nargs="+", default=WORKERS, help="numbers of workers and of runs in flight")
    parser.add_argument("--each", type=int, default=EACH, help="tasks for every worker")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-scaling-") as folder:
        waiting, sandboxed, flights = asyncio.run(measure(Path(folder), options.steps, options.each))
    show_scaled(waiting, sandboxed)
    show_flown(flights)
    if options.chart is not None:
        draw(options.chart, panels(waiting, sandboxed, flights))
    last = {goals.WAITING: waiting[-1], goals.SANDBOXED: sandboxed[-1]}
    return {figure: row.efficiency * 100 for figure, row in last.items() if row.workers == WORKERS[-1]}


if __name__ == "__main__":
    main(sys.argv[1:])
