"""What a run adds to a real test suite: a part of this project's own, in a clone of this checkout.

The command alone, in the clone; a run that has it as its acceptance test, on a running stack; and `gatewright run` with a
stack of its own. The three take turns, after one of each that is not counted: mirrors and the baseline's tests are known then.
It reports the median of a round's run less its suite. Run it with ``python -m benchmarks.beyond_suite [--rounds 3]``.
``make bench`` does so too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.goals import ALONE, UNDER_UP
from benchmarks.workload import git, succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.client.client import inline_artifact
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Repository

ROOT = Path(__file__).resolve().parent.parent
PREFIX = Path(sys.prefix)
#: Pure, quick to import, some hundreds of tests, and nothing that a sandbox has not.
SUITE = "python -m pytest -q tests/path_patterns"
PLACE = "docs/beyond"


async def measure(root: Path, rounds: int) -> tuple[float, float, float]:
    """Seconds, medians: the suite, and what is beyond it on a running stack, and alone."""
    shared, lonely = root / "shared", root / "alone"
    for clone in (shared, lonely):
        git(root, "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone))
        git(clone, "checkout", "--quiet", "-B", "main")
    home = root / "home"
    make_home(home)
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    stack = Supervisor(StackOptions(home=home, base_environment=base, workers=1, shared=True, environments=(PREFIX,)))
    await stack.start()
    suites, under, alone = [], [], []
    try:
        await stack.ready(60.0)
        async with Client.connect(stack.address) as client:
            for number in range(rounds + 1):
                suite = await asyncio.to_thread(_suite, shared)
                suites.append(suite)
                under.append(await _under(client, shared, number) - suite)
                alone.append(await asyncio.to_thread(_alone, root, lonely, number) - suite)
    finally:
        await stack.stop()
    return statistics.median(suites[1:]), statistics.median(under[1:]), statistics.median(alone[1:])


def _patch(number: int) -> bytes:
    name = f"{PLACE}{number}.md"
    return (
        f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+{number}\n"
    ).encode()


def _suite(clone: Path) -> float:
    started = time.perf_counter()
    path = os.pathsep.join((str(PREFIX / "bin"), os.environ["PATH"]))
    # The checkout's own library, and not the one that is installed beside pytest.
    environment = {"PATH": path, "HOME": str(clone.parent), "PYTHONPATH": str(clone / "shared")}
    finished = subprocess.run(SUITE.split(), cwd=clone, env=environment, check=False, capture_output=True, text=True)
    if finished.returncode != 0:
        raise SystemExit(f"the suite fails by itself:\n{finished.stdout[-2000:]}\n{finished.stderr[-2000:]}")
    return time.perf_counter() - started


async def _under(client: Client, clone: Path, number: int) -> float:
    request = RunRequest(
        request="add a page",
        repository=Repository(url=str(clone)),
        requested_by="bench",
        baseline_ref="main",
        allowed_paths=("docs",),
        acceptance_tests=(AcceptanceTest(name="suite", cmd=SUITE, must_pass=True),),
        executor=Executor(kind="patch", artifacts=("patch",)),
        artifacts=(inline_artifact("patch", _patch(number)),),
        environment=Environment(prefix=str(PREFIX)),
    )
    started = time.perf_counter()
    await succeeded(client, await client.submit_request(request, patience=30.0), 600)
    return time.perf_counter() - started


def _alone(root: Path, clone: Path, number: int) -> float:
    patch, home = root / f"alone{number}.diff", root / "person"
    home.mkdir(exist_ok=True)
    patch.write_bytes(_patch(number))
    words = ["run", "add a page", "--allow", "docs", "--patch", str(patch), "--test", SUITE, "--env", str(PREFIX), "--json"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(home)}
    argv = [sys.executable, "-m", "gatewright.app.cli.main", *words]
    started = time.perf_counter()
    finished = subprocess.run(argv, cwd=clone, env=environment, check=False, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if finished.returncode != 0 or json.loads(finished.stdout.splitlines()[-1])["status"] != "SUCCESS":
        raise SystemExit(f"the run failed:\n{finished.stdout[-2000:]}\n{finished.stderr[-2000:]}")
    return seconds


def main(words: Sequence[str] = ()) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="gatewright-beyond-") as folder:
        suite, under, alone = asyncio.run(measure(Path(folder), given.rounds))
    print(f"a real suite of {suite:.2f} s; beyond it: {under:.2f} s on a running stack, {alone:.2f} s alone")
    return {UNDER_UP: under, ALONE: alone}


if __name__ == "__main__":
    main(sys.argv[1:])
