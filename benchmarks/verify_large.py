"""What it costs to verify 1 GB of evidence, beside the bare sha256 of the same files, in one go; and the memory that it takes.

Run it with `.venv/bin/python benchmarks/verify_large.py [MEGABYTES]`. `make bench` does so too.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.goals import VERIFY
from gatewright.contracts.vocabulary import Artifact
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.run import events as e
from tests.evidence.recorded_runs import RecordedRun

PIECE = 32 * 1024 * 1024
ROUNDS = 3


@dataclass(frozen=True)
class Cost:
    """Seconds, medians of several rounds; megabytes of memory at the most."""

    megabytes: int
    verify: float
    sha256: float
    memory: float


class LargeRun(RecordedRun):
    """A successful run whose worker attached much."""

    attached: tuple[Artifact, ...] = ()

    def work(self) -> None:
        for task in self.run.workers():
            result = self.result(task.task_id, patch=b"a patch\n", extra=self.attached)
            finished = e.LabelledEvent(e.TaskFinished(result=result, accepted=True, tree=self.git.tree))
            self.step(finished, self.gate("diff", task_id=task.task_id, evidence=result.git.patch))


def measure(megabytes: int = 1024) -> Cost:
    """Make a bundle of so much evidence, then verify and hash it in turns, each as a process of its own."""
    with tempfile.TemporaryDirectory(prefix="gatewright-large-") as folder:
        root = Path(folder)
        # In a process of its own: memory that this one had used would count as that of its children.
        making = [sys.executable, str(Path(__file__).resolve()), "--make", str(root), str(megabytes)]
        bundle = Path(subprocess.run(making, check=True, capture_output=True, text=True).stdout.strip())
        verifying = [sys.executable, "-m", "gatewright.app.cli.main", "verify", str(bundle), "--key", str(root / "key.pem.pub")]
        hashing = [sys.executable, str(Path(__file__).resolve()), "--hash", str(bundle)]
        verified, hashed, memory = [], [], 0.0
        for _ in range(ROUNDS):
            seconds, used = _timed(verifying)
            verified.append(seconds)
            memory = max(memory, used)
            hashed.append(_timed(hashing)[0])
    return Cost(megabytes, statistics.median(verified), statistics.median(hashed), memory)


def hash_all(bundle: Path) -> None:
    """The floor: sha256 of every file, in blocks."""
    for path in bundle.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                hashlib.file_digest(file, "sha256")


def _bundle(root: Path, megabytes: int) -> Path:
    signer = Signer(keys.create(root / "key.pem"))
    run = LargeRun()
    pieces = megabytes * 1024 * 1024 // PIECE
    run.attached = tuple(run.artifact(f"log-{number}", os.urandom(64) * (PIECE // 64)) for number in range(pieces))
    run.accept()
    run.plan(shards=1)
    run.work()
    run.compose()
    run.pass_review()
    run.land()
    return Path(asyncio.run(BundleWriter(root / "runs").seal(run.run, run.transitions, run.store, signer)).location)


def _timed(argv: list[str]) -> tuple[float, float]:
    """Seconds, and megabytes of memory at the most."""
    started = time.perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{argv} ended with {process.returncode}")
    return time.perf_counter() - started, usage.ru_maxrss / 1024


def main(words: Sequence[str] = ()) -> dict[str, float]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("megabytes", type=int, nargs="?", default=1024)
    # What the measurement has done in processes of their own.
    parser.add_argument("--hash", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.hash:
        hash_all(options.hash)
        return {}
    if options.make:
        print(_bundle(options.make, options.megabytes))
        return {}
    cost = measure(options.megabytes)
    print(
        f"verify {cost.megabytes} MB: {cost.verify:.2f} s; bare sha256 of the same files: {cost.sha256:.2f} s; "
        f"ratio {cost.verify / cost.sha256:.2f}; memory at most {cost.memory:.0f} MB"
    )
    return {VERIFY: cost.verify / cost.sha256}


if __name__ == "__main__":
    main(sys.argv[1:])
