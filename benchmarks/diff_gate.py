"""What the diff gate costs on a patch of 10,000 files, beside the bare git work, in turns on equal mirrors.

The floor is `git apply --cached`, `git write-tree` and `git diff-tree` by a plain git on the same cached baseline. Run it with
`.venv/bin/python benchmarks/diff_gate.py`. `make bench` does so too.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.goals import DIFF_GATE
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Scope
from gatewright.git.mirror import Mirrors
from gatewright.resources import policy_directory
from gatewright.services.gatekeeper.gates.change.candidate import judge_patch
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.gatekeeper.policies.load import Policies, load
from tests.factories import make_contract
from tests.gatekeeper.contexts import make_context
from tests.gatekeeper.recorded import make_open_run

FILES = 10_000
ROUNDS = 7
RUN = "run-0123456789"


@dataclass(frozen=True)
class Cost:
    """Seconds, medians; ``ratio`` is the median of the rounds' own ratios."""

    gate: float
    floor: float
    ratio: float


@dataclass(frozen=True)
class _Work:
    root: Path
    repository: Path
    baseline: str
    tree: str
    patch: bytes
    contract: TaskContract
    policies: Policies


def measure() -> Cost:
    with tempfile.TemporaryDirectory(prefix="gatewright-bench-") as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(root: Path) -> Cost:
    repository, patch = _project(root / "project")
    seed = await Mirrors(root / "seed").open(str(repository))
    baseline = await seed.resolve("HEAD")
    # The baseline's index is cached, as it is after the first task of a repository.
    await seed.apply(baseline, b"--- /dev/null\n+++ b/src/fresh.py\n@@ -0,0 +1 @@\n+fresh = 1\n")
    contract = make_contract(RUN, scope=Scope(allow=("large_diff",)))
    policies = load(policy_directory())
    work = _Work(root, repository, baseline, await seed.tree_of(baseline), patch, contract, policies)
    gates: list[float] = []
    floors: list[float] = []
    for number in range(ROUNDS):
        turns = [_floor, _gate] if number % 2 else [_gate, _floor]
        for turn in turns:
            (gates if turn is _gate else floors).append(await turn(work, root / f"{turn.__name__}{number}"))
    ratios = [gate / floor for gate, floor in zip(gates, floors, strict=True)]
    return Cost(statistics.median(gates), statistics.median(floors), statistics.median(ratios))


def _project(path: Path) -> tuple[Path, bytes]:
    """A repository, and a patch that changes a third of 10,000 files, moves a third and adds a third."""
    path.mkdir()
    _git(path, "init", "--quiet")
    for number in range(FILES):
        file = path / f"src/p{number % 100:02}/module_{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"value = {number}\n" * 20)
    _git(path, "add", "--all")
    _git(path, "-c", "user.name=bench", "-c", "user.email=bench@localhost", "commit", "--quiet", "-m", "first")
    for number in range(FILES):
        file = path / f"src/p{number % 100:02}/module_{number}.py"
        if number % 3 == 0:
            file.write_text(f"changed = {number}\n" + file.read_text())
        elif number % 3 == 1:
            file.rename(file.with_name(f"moved_{number}.py"))
        else:
            file.with_name(f"added_{number}.py").write_text(f"added = {number}\n" * 20)
    _git(path, "add", "--all")
    return path, _git(path, "diff", "--cached", "--binary", "--no-renames", "HEAD")


async def _gate(work: _Work, folder: Path) -> float:
    shutil.copytree(work.root / "seed", folder)
    os.sync()
    mirror = await Mirrors(folder).open(str(work.repository))
    run = make_open_run(RUN, work.contract, work.baseline, work.tree)
    context = make_context(RUN, "diff", work.policies).of_change(work.contract, mirror)
    started = time.perf_counter()
    await judge_patch(context, SecretsCheck(), work.patch, run)
    seconds = time.perf_counter() - started
    if not context.report.clean:
        raise SystemExit(f"the patch was refused: {context.report.violations[0]}")
    return seconds


async def _floor(work: _Work, folder: Path) -> float:
    shutil.copytree(work.root / "seed", folder)
    bare = _only(folder)
    environment = {"PATH": os.environ["PATH"], "GIT_DIR": str(bare), "GIT_INDEX_FILE": str(folder / "index")}
    _git(folder, "read-tree", work.tree, environment=environment)
    os.sync()
    started = time.perf_counter()
    _git(folder, "apply", "--cached", "--whitespace=nowarn", environment=environment, stdin=work.patch)
    tree = _git(folder, "write-tree", environment=environment).decode().strip()
    _git(folder, "diff-tree", "-r", "-z", "--raw", "--no-renames", work.tree, tree, environment=environment)
    return time.perf_counter() - started


def _only(folder: Path) -> Path:
    """The one mirror in ``folder``."""
    (mirror,) = folder.glob("*.git")
    return mirror


def _git(folder: Path, *words: str, environment: dict[str, str] | None = None, stdin: bytes = b"") -> bytes:
    return subprocess.run(["git", *words], cwd=folder, env=environment, input=stdin, check=True, capture_output=True).stdout


def main() -> dict[str, float]:
    cost = measure()
    print(f"diff gate on {FILES} files: {cost.gate:.2f} s; bare git: {cost.floor:.2f} s; ratio {cost.ratio:.2f}")
    return {DIFF_GATE: cost.ratio}


if __name__ == "__main__":
    main()
