"""``python -m benchmarks.small_beside_large [--parts 60] [--runs 8] [--workers 2]``: small runs beside one that fills all.

On a real stack a run of 60 parts of a second each takes all workers; small runs of one part, on its own repository, are
submitted one after another beside it. Measured is the time from submitting one until its worker begins with it, by the result
that the worker gives; before that, the same with nothing else to do. The goal is two seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.processor import Machine
from benchmarks.waiting_work import MOST_SHARDS, PREFIX, SANDBOXED, SECOND, make_fields, waiting_request
from benchmarks.workload import succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.contracts import RunRequest

GOAL = 2.0


async def begun_after(client: Client, request: RunRequest) -> float:
    """Seconds from submitting a run of one part until its worker began."""
    submitted = time.time()
    run = await succeeded(client, await client.submit_request(request, patience=30.0), 600)
    events = await client.events(run.run_id)
    (started,) = [event.payload["result"]["started_at"] for event in events if event.event_type == "task_finished"]
    return datetime.fromisoformat(started).timestamp() - submitted


async def all_workers_taken(client: Client, run_id: str, workers: int) -> None:
    """The large run is under way: more of its parts are done than there are workers."""
    async for event in client.follow(run_id):
        workers -= event.event_type == "task_finished"
        if workers < 0:
            return


async def measure(root: Path, parts: int, runs: int, workers: int) -> tuple[list[float], list[float], int, float]:
    """Alone, beside the large run, how many of its parts were done by the end of the last one, and how busy the machine was."""
    fields, home = make_fields(root / "fields", 1 + 2 * runs), root / "home"
    make_home(home)
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    stack = Supervisor(StackOptions(home=home, base_environment=base, workers=workers, environments=(PREFIX,), shared=True))
    await stack.start()
    try:
        await stack.ready(60.0)
        async with Client.connect(stack.address) as client:
            await begun_after(client, waiting_request(fields, SANDBOXED, 1, 1))  # mirrors and checkouts are there after it
            alone = [await begun_after(client, waiting_request(fields, SANDBOXED, 1 + each, 1)) for each in range(runs)]
            large = await client.submit_request(waiting_request(fields, SANDBOXED, 0, parts), patience=30.0)
            await all_workers_taken(client, large, workers)
            before = Machine.now()
            beside = [await begun_after(client, waiting_request(fields, SANDBOXED, 1 + runs + each, 1)) for each in range(runs)]
            busy = Machine.now().share_since(before)
            state = await client.get(large)
            if state.status != "RUNNING":
                raise SystemExit("the large run was over before the last small one: give it more parts")
            done = sum(task.status == "SUCCESS" for task in state.workers())
            await client.abort(large, "it has been measured")
            return alone, beside, done, busy
    finally:
        await stack.stop()


def words_of(times: Sequence[float]) -> str:
    return f"{statistics.median(times):.2f} s ({min(times):.2f} to {max(times):.2f})"


def main(words: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=60, choices=range(4, MOST_SHARDS + 1), metavar="PARTS")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-small-") as folder:
        alone, beside, done, busy = asyncio.run(measure(Path(folder), given.parts, given.runs, given.workers))
    print(f"a run of one part, {given.runs} of them one after another: until its worker begins, median (least to most)")
    print(f"  with nothing else to do                        {words_of(alone)}")
    print(f"  beside {given.parts} parts of {SECOND:.0f} s on its own repository    {words_of(beside)}; goal {GOAL:.0f} s")
    print(f"  {given.workers} workers; {done} of {given.parts} parts were done by then; machine {100 * busy:.0f} % busy")
    return 0 if max(beside) <= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
