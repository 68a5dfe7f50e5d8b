"""Small runs on a running stack, counted: ``python -m benchmarks.small_runs [--runs 20] [--cold 1]`` prints one JSON document.

``small_run_ms``: submit to sealed bundle, one at a time; ``floor_ms``: the same work bare, taking turns with it (see
``benchmarks.floor``); ``processor_ms``: processor time of one run, by role and together, git and all else that roles start
included; ``cold_ms`` and ``cold_processor_ms``: `gatewright run` with a stack of its own, for the first time in a
repository; ``cold_again_ms`` and ``cold_again_processor_ms``: once more there. Milliseconds, medians (processor time of a
run: the mean). With another tree's ``shared`` first on PYTHONPATH it measures that tree; ``benchmarks.compare`` does so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks.floor import Counts, Floor
from benchmarks.processor import used_with_descendants
from benchmarks.workload import make_patch, make_repository, make_request, succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.nats_server import NatsServer
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology

WARM_UP = 3
#: What a small run does to the bus and the disk (``benchmarks.run`` reads it off a run); the same for both of two trees.
COUNTS = Counts(publishes=20, artifacts=7, events=30, bundle_files=50)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--cold", type=int, default=1)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-bench-") as folder:
        found = asyncio.run(_warm(Path(folder), given.runs))
        cold = [_cold(Path(folder), number) for number in range(given.cold)]
    if cold:
        for turn, name in enumerate(("cold", "cold_again")):
            found[f"{name}_ms"] = statistics.median(each[turn][0] for each in cold)
            found[f"{name}_processor_ms"] = statistics.median(each[turn][1] for each in cold)
    sys.stdout.write(json.dumps({name: round(value, 2) for name, value in found.items()}) + "\n")


async def _warm(root: Path, runs: int) -> dict[str, float]:
    repository, home = make_repository(root / "warm"), root / "home"
    make_home(home)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    stack = Supervisor(StackOptions(home=home, base_environment=environment, workers=1, shared=True))
    await stack.start()
    bare_server = await NatsServer.start(root / "bare-nats")
    bus = await JetStreamBus.connect(bare_server.address("gatekeeper"), name="gatekeeper")
    warm, bare = [], []
    try:
        await stack.ready(60.0)
        await ensure_topology(bus)
        (root / "floor").mkdir()
        floor = Floor(repository, root / "floor", bus, COUNTS)
        floor.prepare()
        async with Client.connect(stack.address) as client:
            for number in range(WARM_UP):
                await _one(client, repository, 1000 + number)
            before = _processor(stack)
            for number in range(runs):
                warm.append(await _one(client, repository, number))
                bare.append(await floor.once(number) * 1000)
            after = _processor(stack)
    finally:
        await bus.close()
        await bare_server.stop()
        await stack.stop()
    found = {"small_run_ms": statistics.median(warm), "floor_ms": statistics.median(bare)}
    found["small_run_to_floor"] = found["small_run_ms"] / found["floor_ms"]
    spent = {name: (seconds - before.get(name, 0.0)) * 1000 / runs for name, seconds in after.items()}
    found["processor_ms"] = sum(spent.values())
    return found | {f"processor_ms {name}": value for name, value in sorted(spent.items())}


async def _one(client: Client, repository: Path, number: int) -> float:
    """Milliseconds from submitting to the sealed bundle."""
    started = time.perf_counter()
    await succeeded(client, await client.submit_request(make_request(repository, number), patience=30.0))
    return (time.perf_counter() - started) * 1000


def _processor(stack: Supervisor) -> Mapping[str, float]:
    """Seconds so far, by role."""
    members = [member for member in stack.members if member.pid and member.name != "fork-server"]
    return {member.name: used_with_descendants(member.pid) for member in members if member.pid}


def _cold(root: Path, number: int) -> list[tuple[float, float]]:
    """Milliseconds of time and of processor time of `gatewright run` in a repository, for the first time there and again."""
    repository, patch, home = make_repository(root / f"cold{number}"), root / f"cold{number}.diff", root / f"home{number}"
    home.mkdir()
    words = ["run", "add a file", "--allow", "src", "--patch", str(patch), "--test", "true", "--json"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(home)}
    argv = [sys.executable, "-m", "gatewright.app.cli.main", *words]
    found = []
    for turn in range(2):
        patch.write_bytes(make_patch(2 * number + turn))
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        finished = subprocess.run(argv, cwd=repository, env=environment, check=False, capture_output=True, text=True)
        seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        if finished.returncode != 0 or json.loads(finished.stdout.splitlines()[-1])["status"] != "SUCCESS":
            raise SystemExit(f"a cold run failed:\n{finished.stdout}\n{finished.stderr}")
        processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found.append((seconds * 1000, processor * 1000))
    return found


if __name__ == "__main__":
    main()
