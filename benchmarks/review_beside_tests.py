"""A reviewer that takes two seconds and tests that take two, on one candidate: how long until both are judged.

Measured from the first of both tasks' dispatch to the last of both answers in the ledger. Run it with ``python -m
benchmarks.review_beside_tests [--samples 5]``. ``make bench`` does so too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.goals import BESIDE
from benchmarks.waiting_work import ROOT, when
from benchmarks.workload import make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.fork_server import START_ORDER
from gatewright.app.stack.launch import ProcessPlan, execute
from gatewright.app.stack.processes import kill
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.identities import bus_keys, seed_file
from gatewright.contracts.vocabulary import AcceptanceTest

_TASKS = frozenset({"reviewer", "testrunner"})
_ANSWERS = frozenset({"review_received", "tests_received"})


async def measure(root: Path, samples: int) -> float:
    """Seconds, the median."""
    repository, home = make_repository(root / "repository"), root / "home"
    make_home(home)
    roles = tuple(role for role in START_ORDER if role != "reviewer")
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared")))}
    stack = Supervisor(StackOptions(home=home, base_environment=environment, workers=1, shared=True, roles=roles))
    await stack.start()
    try:
        await stack.ready(60.0)
        own = {
            **environment,
            "GATEWRIGHT_HOME": str(home),
            "GATEWRIGHT_NATS_URL": stack.address.url,
            "GATEWRIGHT_NATS_SEED": str(seed_file(bus_keys(home), "reviewer")),
            "GATEWRIGHT_METRICS_PORT": "-1",
        }
        log = home / "logs" / "reviewer.log"
        reviewer = await execute(ProcessPlan("reviewer", "benchmarks.waiting_reviewer", own, home, log))
        try:
            async with Client.connect(stack.address) as client:
                taken = [await _once(client, repository, number) for number in range(samples + 1)]
        finally:
            kill(reviewer.pid, signal.SIGTERM)
            await reviewer.wait()
    finally:
        await stack.stop()
    return statistics.median(taken[1:])


async def _once(client: Client, repository: Path, number: int) -> float:
    tests = (AcceptanceTest(name="two seconds", cmd="sleep 2", must_pass=True),)
    request = replace(make_request(repository, number), acceptance_tests=tests)
    run_id = await client.submit_request(request, patience=30.0)
    await succeeded(client, run_id, 120)
    events = await client.events(run_id)
    begun = [when(each) for each in events if each.event_type == "task_dispatched" and each.payload["role"] in _TASKS]
    done = [when(each) for each in events if each.event_type in _ANSWERS]
    if not len(begun) == len(done) == len(_TASKS):
        raise SystemExit(f"{run_id}: {len(begun)} tasks, {len(done)} answers")
    return max(done) - min(begun)


def main(words: Sequence[str] = ()) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=5)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-beside-") as folder:
        seconds = asyncio.run(measure(Path(folder), given.samples))
    print(f"a reviewer of 2 s and tests of 2 s on one candidate: {seconds:.2f} s")
    return {BESIDE: seconds}


if __name__ == "__main__":
    main(sys.argv[1:])
