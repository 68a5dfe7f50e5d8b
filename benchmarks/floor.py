"""The floor: the work that a run cannot do without, done bare in one process, one step after another.

The gatekeeper, the reviewer and the test runner must each build the candidate tree themselves, or none of them could be
disbelieved: that is three applications of the patch. Publishes and fsyncs are as many as a run of this kind makes.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.workload import git, make_patch
from gatewright.bus.port import Bus
from gatewright.sandbox.binary import find_bwrap

PARTIES = 3


@dataclass(frozen=True)
class Counts:
    """What one run was seen to do: messages in streams, artifacts, and files of its bundle."""

    publishes: int
    artifacts: int
    events: int
    bundle_files: int


class Floor:
    """The bare work on one mirror."""

    def __init__(self, repository: Path, folder: Path, bus: Bus, counts: Counts) -> None:
        self._repository = repository
        self._folder = folder
        self._bus = bus
        self._counts = counts
        self._mirror = folder / "mirror.git"
        self._checkout = folder / "checkout"
        self._baseline_index = folder / "baseline.index"

    def prepare(self) -> None:
        """What a role keeps between runs: mirror, index and checkout of the baseline."""
        git(self._folder, "init", "--quiet", "--bare", str(self._mirror))
        git(self._mirror, "fetch", "--quiet", str(self._repository), "main:refs/heads/main")
        git(self._mirror, "read-tree", "main", index=self._baseline_index)
        self._checkout.mkdir()
        git(self._mirror, f"--work-tree={self._checkout}", "checkout-index", "--all", index=self._baseline_index)

    async def once(self, number: int) -> float:
        """Seconds that one run's irreducible work takes."""
        started = time.perf_counter()
        patch = make_patch(number)
        git(self._mirror, "fetch", "--quiet", str(self._repository), "main")
        commit = git(self._mirror, "rev-parse", "refs/heads/main").decode().strip()
        tree = ""
        for _ in range(PARTIES):
            tree = self._apply(patch)
        git(self._mirror, "diff-tree", "-r", "-z", "--raw", "--no-renames", commit, tree)
        git(self._mirror, "diff-tree", "-p", "--binary", "--full-index", "--no-renames", commit, tree)
        await self._sandboxed(number)
        identity = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
        landed = git(self._mirror, *identity, "commit-tree", "-p", commit, "-m", "x", tree).decode().strip()
        git(self._mirror, "push", "--quiet", str(self._repository), f"{landed}:refs/heads/floor/{number}")
        for item in range(self._counts.publishes):
            subject = f"gw.run.floor-{number}-{item}"
            await self._bus.publish(subject, b"x" * 3000, schema="bench", message_id=subject)
        for item in range(self._counts.artifacts):
            await self._bus.put_artifact(f"floor {number} {item}".encode() * 20)
        self._bundle(number)
        return time.perf_counter() - started

    def _apply(self, patch: bytes) -> str:
        handle, name = tempfile.mkstemp(dir=self._folder)
        os.close(handle)
        index = Path(name)
        shutil.copyfile(self._baseline_index, index)
        git(self._mirror, "apply", "--cached", "-", stdin=patch, index=index)
        tree = git(self._mirror, "write-tree", index=index).decode().strip()
        index.unlink()
        return tree

    async def _sandboxed(self, number: int) -> None:
        upper, work = self._folder / f"upper{number}", self._folder / f"work{number}"
        upper.mkdir()
        work.mkdir()
        overlay = ["--overlay-src", str(self._checkout), "--overlay", str(upper), str(work), "/workspace"]
        argv = [*bare_sandbox(), *overlay, "--chdir", "/workspace", "true"]
        process = await asyncio.create_subprocess_exec(*argv)
        if await process.wait() != 0:
            raise SystemExit("the bare sandbox does not work here")

    def _bundle(self, number: int) -> None:
        folder = self._folder / f"bundle{number}"
        folder.mkdir()
        with (folder / "events.jsonl").open("ab") as events:
            for _ in range(self._counts.events):
                events.write(b"x" * 1500 + b"\n")
                events.flush()
                os.fsync(events.fileno())
        for item in range(self._counts.bundle_files):
            with (folder / f"file{item}").open("wb") as file:
                file.write(b"x" * 1500)
                file.flush()
                os.fsync(file.fileno())


def bare_sandbox() -> list[str]:
    """The start of a bwrap command line with no network and a read-only system."""
    argv = [str(find_bwrap().path), "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    for system in ("/usr", "/bin", "/lib", "/lib64"):
        if Path(system).exists():
            argv += ["--ro-bind", system, system]
    return [*argv, "--proc", "/proc", "--dev", "/dev"]
