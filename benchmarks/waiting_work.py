"""Work that takes a second and changes nothing, and the worker processes that do it: what ``scaling`` measures with."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from benchmarks.processor import Machine, used
from benchmarks.workload import IDENTITY, git, succeeded
from gatewright import Client
from gatewright.app.stack.fork_server import ForkServer
from gatewright.app.stack.launch import ProcessPlan
from gatewright.app.stack.processes import kill
from gatewright.app.stack.supervisor import Supervisor
from gatewright.bus.identities import bus_keys, seed_file
from gatewright.contracts import OrchestratorEvent, RunRequest
from gatewright.contracts.vocabulary import AcceptanceTest, Environment, Executor, Repository, Sharding

#: A run has this many shards at most.
MOST_SHARDS = 64
#: Seconds that a task takes.
SECOND = 1.0
READY_SECONDS = 60.0
PREFIX = Path(sys.prefix)
#: A test that proves something: what lands on a branch in use needs one.
_TEST = """import pathlib, unittest


class Fields(unittest.TestCase):
    def test_the_first_field_is_there(self):
        self.assertEqual(pathlib.Path("field0/file0.txt").read_text(), "0 0\\n")
"""
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Kind:
    """``module`` is run by each worker process; ``command`` is the contract's command."""

    name: str
    module: str
    command: str


WAITING = Kind("an executor that waits", "benchmarks.waiting_worker", "touch -c {paths}")
SANDBOXED = Kind("a sandboxed `python` that waits", "gatewright.services.worker", "python -I -S wait.py {paths}")


@dataclass(frozen=True)
class Scaled:
    """What ``workers`` did with ``tasks`` tasks. ``measured``: seconds from the first dispatch to the last judgement.

    ``processor``: seconds of all our processes together. ``busy``: how busy the machine was, 0 to 1, by us or by others.
    """

    workers: int
    tasks: int
    measured: float
    processor: float
    busy: float

    @property
    def ideal(self) -> float:
        return self.tasks / self.workers * SECOND

    @property
    def efficiency(self) -> float:
        return self.ideal / self.measured


async def scaled(stack: Supervisor, client: Client, fields: Path, kind: Kind, workers: int, each: int) -> Scaled:
    """``each`` tasks for every one of so many workers, after one for each to get to know the repository."""
    async with crew(stack, kind, workers) as crew_pids:
        await do_all(client, fields, kind, workers)
        pids = [*crew_pids, *(member.pid for member in stack.members), os.getpid()]
        spent, machine = used(pids), Machine.now()
        measured = await do_all(client, fields, kind, workers * each)
        busy = Machine.now().share_since(machine)
        return Scaled(workers, workers * each, measured, used(pids) - spent, busy)


@contextlib.asynccontextmanager
async def crew(stack: Supervisor, kind: Kind, workers: int) -> AsyncIterator[list[int]]:
    """Worker processes, forked from one that has imported what they need; their process numbers."""
    home = stack.options.home
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "shared"))),
        "GATEWRIGHT_HOME": str(home),
        "GATEWRIGHT_NATS_URL": stack.address.url,
        "GATEWRIGHT_NATS_SEED": str(seed_file(bus_keys(home), "worker")),
        "GATEWRIGHT_ENVIRONMENTS": str(PREFIX),
        "GATEWRIGHT_METRICS_PORT": "-1",
    }
    logs = home / "crews" / f"{kind.module}-{workers}"
    fork_server = await ForkServer.open([kind.module], environment, logs / "fork-server.log", secrets=home / "secret-rules")
    try:
        plans = [
            ProcessPlan(f"crew-{number}", kind.module, environment, home, logs / f"{number}.log") for number in range(workers)
        ]
        for plan in plans:
            plan.log.touch()
        processes = [await fork_server.fork(plan) for plan in plans]
        async with asyncio.timeout(READY_SECONDS):
            for plan in plans:
                while b'"probe_passed"' not in plan.log.read_bytes():  # noqa: ASYNC110 - another process writes it
                    await asyncio.sleep(0.05)
        yield [process.pid for process in processes]
        for process in processes:
            kill(process.pid, signal.SIGTERM)
        await asyncio.gather(*(process.wait() for process in processes))
    finally:
        await fork_server.close()


async def do_all(client: Client, fields: Path, kind: Kind, tasks: int) -> float:
    """Have so many tasks done, in as many runs as they need; seconds from the first dispatch to the last judgement."""
    shards = [min(MOST_SHARDS, tasks - start) for start in range(0, tasks, MOST_SHARDS)]
    requests = [waiting_request(fields, kind, number, count) for number, count in enumerate(shards)]
    run_ids = await asyncio.gather(*(client.submit_request(request, patience=10.0) for request in requests))
    await asyncio.gather(*(succeeded(client, run_id, 600) for run_id in run_ids))
    events = [event for run_id in run_ids for event in await client.events(run_id)]
    begun = [when(event) for event in events if event.event_type == "task_dispatched" and event.payload["role"] == "worker"]
    done = [when(event) for event in events if event.event_type == "task_finished"]
    if not len(done) == len(begun) == tasks:
        raise SystemExit(f"{tasks} tasks were ordered, {len(begun)} were given and {len(done)} done")
    return max(done) - min(begun)


def when(event: OrchestratorEvent) -> float:
    return datetime.fromisoformat(event.ts).timestamp()


def make_fields(path: Path, count: int, seconds: float = SECOND) -> Path:
    """A repository of ``count`` folders with a file for every shard: runs on different folders do not wait for each other.

    A task takes ``seconds``.
    """
    for number in range(count):
        folder = path / f"field{number}"
        folder.mkdir(parents=True)
        for shard in range(MOST_SHARDS):
            (folder / f"file{shard}.txt").write_text(f"{number} {shard}\n")
    # The start of the interpreter counts as part of the time.
    (path / "wait.py").write_text(f"import time\ntime.sleep(max(0, {seconds} - time.process_time()))\n")
    (path / "test_fields.py").write_text(_TEST)
    git(path, "init", "--quiet", "--initial-branch=main")
    git(path, "add", "--all")
    git(path, *IDENTITY, "commit", "--quiet", "--message", "baseline")
    return path


def waiting_request(fields: Path, kind: Kind, number: int, shards: int) -> RunRequest:
    return RunRequest(
        request="wait",
        repository=Repository(url=str(fields)),
        requested_by="bench",
        allowed_paths=(f"field{number}",),
        acceptance_tests=(AcceptanceTest(name="trivial", cmd="true", must_pass=True),),
        executor=Executor(kind="command", commands=(kind.command,)),
        sharding=Sharding(count=shards),
        environment=Environment(prefix=str(PREFIX)),
        audit_only=True,
    )
