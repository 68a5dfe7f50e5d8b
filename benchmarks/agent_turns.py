"""A turn of Codex bare, and the same one as a whole run: time, and processor time of all that is not the agent."""

from __future__ import annotations

import asyncio
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.agent_model import BenchmarkModel
from benchmarks.agent_requests import PATH, agent_request
from benchmarks.processor import used
from benchmarks.workload import succeeded
from gatewright import Client
from gatewright.agents.installation import InstalledAgent
from gatewright.app.stack.supervisor import Supervisor
from gatewright.services.worker.agents.port import AgentOrder
from gatewright.services.worker.agents.protocols import launch_of, protocol_of
from gatewright.services.worker.agents.wire import JsonLines

_HOME = "@HOME@"


@dataclass
class Turns:
    """Seconds of each sample. ``task``: from the worker's taking it to its answer; ``run``: from submitting to the bundle.

    ``processor`` of a run is of all our processes; not of the agent, which is killed with its box: nothing waits for it there.
    """

    model: str
    bare: list[float] = field(default_factory=list)
    bare_processor: list[float] = field(default_factory=list)
    task: list[float] = field(default_factory=list)
    run: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def lines(self) -> list[str]:
        bare, task, run = (statistics.median(each) for each in (self.bare, self.task, self.run))
        own, whole = statistics.median(self.bare_processor), statistics.median(self.processor)
        shares = [f"{max(0.0, 1 - bare / each):.0%}" for each in (task, run)]
        return [
            f"{self.model}: bare turn {bare:.2f} s, worker's task {task:.2f} s, whole run {run:.2f} s",
            f"  around the turn: {shares[0]} of the task's time, {shares[1]} of the run's",
            f"  processor time: the agent {own:.2f} s, we {whole:.2f} s",
        ]


@dataclass
class AllTurns:
    each: list[Turns]

    def lines(self) -> list[str]:
        return [line for turns in self.each for line in turns.lines()]


async def turns(
    root: Path,
    agent: InstalledAgent,
    model: BenchmarkModel,
    stack: Supervisor,
    client: Client,
    repository: Path,
    samples: int,
) -> AllTurns:
    """Bare and whole take turns, so that both see the same machine; the first of each is not counted."""
    found = []
    for name in ("quick", "thinking"):
        measured = Turns(name)
        for number in range(samples + 1):
            bare = await bare_turn(root, agent, model, name)
            whole = await whole_run(stack, client, repository, name)
            if number:
                measured.bare.append(bare[0])
                measured.bare_processor.append(bare[1])
                measured.task.append(whole[0])
                measured.run.append(whole[1])
                measured.processor.append(whole[2])
        found.append(measured)
    return AllTurns(found)


async def bare_turn(root: Path, agent: InstalledAgent, model: BenchmarkModel, name: str) -> tuple[float, float]:
    """Seconds and processor seconds of the agent, with no walls and no gateway: it asks the model itself."""
    with tempfile.TemporaryDirectory(dir=root) as above:
        home, folder = Path(above) / "home", Path(above) / "work"
        (folder / PATH).mkdir(parents=True)
        order = AgentOrder(prompt="Do it.", directory=str(folder), model=name, base_url=model.base_url, shell="never")
        protocol = protocol_of(agent)
        launch = launch_of(agent, protocol, order)
        for place, data in launch.files.items():
            (home / place).parent.mkdir(parents=True, exist_ok=True)
            (home / place).write_bytes(data.replace(_HOME.encode(), str(home).encode()))
        variables = {each: value.replace(_HOME, str(home)) for each, value in launch.variables.items()}
        before, begun = _children(), time.perf_counter()
        process = await asyncio.create_subprocess_exec(
            *launch.argv,
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(home), **variables},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        end = await protocol.converse(JsonLines(_Bare(process)), order, lambda _: None)
        process.kill()
        await process.wait()
        seconds = time.perf_counter() - begun
        if end.how != "completed" or not (folder / PATH / "added.py").exists():
            raise SystemExit(f"the bare agent did not do its turn: {end}")
        return seconds, _children() - before


async def whole_run(stack: Supervisor, client: Client, repository: Path, name: str) -> tuple[float, float, float]:
    """Seconds of the worker's task and of the run, and processor seconds of all processes of the stack."""
    pids = [member.pid for member in stack.members]
    before, begun = used(pids), time.perf_counter()
    run = await succeeded(client, await client.submit_request(agent_request(repository, name, (PATH,))), 300)
    seconds = time.perf_counter() - begun
    events = await client.events(run.run_id)
    results: Sequence[dict[str, Any]] = [event.payload.get("result") or {} for event in events]
    task = next(result for result in results if "started_at" in result)
    times = [datetime.fromisoformat(task[each]).timestamp() for each in ("started_at", "finished_at")]
    return times[1] - times[0], seconds, used(pids) - before


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class _Bare:
    """A ``SandboxSession`` without a sandbox: pipes, and nothing else."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.door = None

    @property
    def complaints(self) -> bytes:
        return b""

    @property
    def stopped(self) -> str | None:
        return None

    async def read(self) -> bytes:
        return await self._process.stdout.read(1 << 16) if self._process.stdout is not None else b""

    async def write(self, data: bytes) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(data)
            await self._process.stdin.drain()

    def finish(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
