"""What a task costs on a repository of 50,000 files, beside the same task on 500, once both baselines are cached.

Whole runs through a running stack, in turns: a codemod of one file, review, a test, landing, seal.
Run it with `.venv/bin/python benchmarks/large_repository.py`. `make bench` does so too.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.goals import FIRST
from benchmarks.goals import LARGE as LARGE_RATIO
from benchmarks.workload import succeeded
from gatewright import Client
from gatewright.app.cli.home import make_home
from gatewright.app.stack.supervisor import StackOptions, Supervisor
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Repository

SMALL, LARGE = 500, 50_000
WARM_UP = 2
SAMPLES = 9
PREFIX = Path(sys.prefix)
CODEMOD = b"import pathlib, sys\nfile = pathlib.Path('src/p00/module_0.py')\nfile.write_text(f'changed = {sys.argv[1]}\\n')\n"
CHECK = b"import pathlib\nassert 'changed' in pathlib.Path('src/p00/module_0.py').read_text()\n"


@dataclass(frozen=True)
class Cost:
    """Seconds from submitting to the sealed bundle, medians; ``ratio`` of the medians."""

    small: float
    large: float
    first_large: float

    @property
    def ratio(self) -> float:
        return self.large / self.small


def measure() -> Cost:
    with tempfile.TemporaryDirectory(prefix="gatewright-bench-") as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(root: Path) -> Cost:
    repositories = [make_project(root / f"files-{count}", count) for count in (SMALL, LARGE)]
    home = root / "home"
    make_home(home)
    options = StackOptions(
        home=home, base_environment={"PATH": os.environ["PATH"]}, workers=1, shared=True, environments=(PREFIX,)
    )
    stack = Supervisor(options)
    await stack.start()
    samples: list[list[float]] = [[], []]
    try:
        await stack.ready(30.0)
        async with Client.connect(stack.address) as client:
            for number in range(WARM_UP + SAMPLES):
                for repository, taken in zip(repositories, samples, strict=True):
                    taken.append(await _once(client, repository, number))
    finally:
        await stack.stop()
    small, large = (statistics.median(taken[WARM_UP:]) for taken in samples)
    return Cost(small, large, samples[1][0])


async def _once(client: Client, repository: Path, number: int) -> float:
    request = RunRequest(
        request="change one file",
        repository=Repository(url=str(repository)),
        requested_by="bench",
        baseline_ref="main",
        allowed_paths=("src/p00",),
        acceptance_tests=(AcceptanceTest(name="check", cmd="python check.py", must_pass=True),),
        executor=Executor(kind="command", commands=(f"python codemod.py {number}",)),
        environment=Environment(prefix=str(PREFIX)),
    )
    started = time.perf_counter()
    await succeeded(client, await client.submit_request(request, patience=5.0))
    return time.perf_counter() - started


def make_project(path: Path, count: int) -> Path:
    """A repository of ``count`` files, its objects in one pack, as a clone has them.

    Left loose, git would pack them by itself, beside the first task.
    """
    path.mkdir()
    for number in range(count):
        file = path / f"src/p{number % 100:02}/module_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"value = {number}\n" * 20)
    (path / "codemod.py").write_bytes(CODEMOD)
    (path / "check.py").write_bytes(CHECK)
    for words in (
        ["init", "--quiet", "--initial-branch=main"],
        ["add", "--all"],
        ["-c", "user.name=bench", "-c", "user.email=bench@localhost", "-c", "gc.auto=0", "commit", "--quiet", "-m", "first"],
        ["gc", "--quiet"],
    ):
        subprocess.run(["git", *words], cwd=path, check=True, capture_output=True)
    return path


def main() -> dict[str, float]:
    cost = measure()
    print(
        f"a task on {LARGE} files: {cost.large * 1000:.0f} ms; on {SMALL}: {cost.small * 1000:.0f} ms; "
        f"ratio {cost.ratio:.2f}; the first task there took {cost.first_large:.1f} s"
    )
    return {LARGE_RATIO: cost.ratio, FIRST: cost.first_large}


if __name__ == "__main__":
    main()
