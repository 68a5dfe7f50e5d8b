"""Agents at once in one worker, each with its box and its gateway: the memory of all that is not theirs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agent_model import BenchmarkModel
from benchmarks.agent_processes import Memory, memory_of
from benchmarks.agent_requests import agent_request
from gatewright import Client
from gatewright.agents.installation import InstalledAgent
from gatewright.app.stack.supervisor import Supervisor

_MB = 1_000_000
GOAL_MB = 150
_LOOKS = 5


@dataclass(frozen=True)
class AtOnce:
    """``idle``: the worker with all that it has loaded, and no agent. ``busy``: the most of several looks."""

    count: int
    idle: Memory
    busy: Memory

    def lines(self) -> list[str]:
        beside, theirs, idle = (size / _MB for size in (self.busy.ours, self.busy.agents, self.idle.ours))
        return [
            f"{self.busy.running} agents at once in one worker: {beside:.0f} MB beside {theirs:.0f} MB of their own",
            f"  goal {GOAL_MB} MB; the worker without any: {idle:.0f} MB, so {(beside - idle) / self.count:.1f} MB for each",
        ]


async def eight_at_once(
    agent: InstalledAgent, model: BenchmarkModel, stack: Supervisor, client: Client, repository: Path, count: int
) -> AtOnce:
    """After earlier runs, so that everything that a worker loads is loaded."""
    model.forget()
    worker = next(member.pid for member in stack.members if member.name.startswith("worker"))
    idle = memory_of(worker, agent.folder)
    runs = [
        await client.submit_request(agent_request(repository, "waiting", (f"src/part{number}",)), patience=10.0)
        for number in range(count)
    ]
    async with asyncio.timeout(300):
        while model.waiting < count:  # noqa: ASYNC110 - other processes ask
            await asyncio.sleep(0.1)
    looks = []
    for _ in range(_LOOKS):
        await asyncio.sleep(1.0)
        looks.append(memory_of(worker, agent.folder))
    for run in runs:
        await client.abort(run, reason="measured")
    await asyncio.gather(*(client.wait(run, timeout=60) for run in runs))
    return AtOnce(count, idle, max(looks, key=lambda look: look.ours))
