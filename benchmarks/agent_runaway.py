"""A Codex that does not stop: how far beyond its limit it came, and how long it lived after that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.agent_model import DOLLARS, BenchmarkModel
from benchmarks.agent_processes import agents_of
from benchmarks.agent_requests import PATH, agent_request
from benchmarks.workload import proved
from gatewright import Client
from gatewright.agents.installation import InstalledAgent
from gatewright.app.stack.supervisor import Supervisor
from gatewright.contracts.vocabulary import Budget
from gatewright.run.spending import spending_of

GOAL_SECONDS, GOAL_SHARE = 2.0, 0.05
_MILLION = 1_000_000
_LOOK_SECONDS = 0.02


@dataclass(frozen=True)
class Case:
    """``amount``: of tokens read and tokens written, in the unit of the limit."""

    model: str
    unit: str
    limit: float
    budget: Budget
    amount: Callable[[int, int], float]


def _dollars(read: int, written: int) -> float:
    return (read * DOLLARS.input + written * DOLLARS.output) / _MILLION


CASES = (
    Case("talking", "tokens", 60_000, Budget(tokens=60_000), lambda read, written: read + written),
    Case("talking", "dollars", 0.3, Budget(cost_usd=0.3), _dollars),
    Case("turning", "tokens", 100_000, Budget(tokens=100_000), lambda read, written: read + written),
    Case("turning", "dollars", 0.1, Budget(cost_usd=0.1), _dollars),
)


@dataclass(frozen=True)
class Stopped:
    """``counted``: the run's recorded usage; ``sent``: what the provider had sent by then. ``seconds``: from what went beyond
    the limit, or the last reply before it, until no process of the agent was left.
    """

    case: Case
    counted: float
    sent: float
    seconds: float


@dataclass
class Runaways:
    each: list[Stopped]

    def lines(self) -> list[str]:
        lines = []
        for case in CASES:
            mine = [stopped for stopped in self.each if stopped.case is case]
            worst = max(max(each.counted, each.sent) for each in mine) / case.limit - 1
            seconds = max(each.seconds for each in mine)
            lines.append(
                f"a Codex that goes on {case.model}, limit {case.limit:,} {case.unit}, the worst of {len(mine)}: "
                f"{worst:+.1%} of the limit (goal {GOAL_SHARE:.0%}), its last process gone after {seconds:.2f} s "
                f"(goal {GOAL_SECONDS:.0f} s)"
            )
        return lines


async def runaways(
    agent: InstalledAgent, model: BenchmarkModel, stack: Supervisor, client: Client, repository: Path, samples: int
) -> Runaways:
    worker = next(member.pid for member in stack.members if member.name.startswith("worker"))
    return Runaways([await _stopped(case, agent, model, worker, client, repository) for case in CASES for _ in range(samples)])


async def _stopped(
    case: Case, agent: InstalledAgent, model: BenchmarkModel, worker: int, client: Client, repository: Path
) -> Stopped:
    model.forget()
    watching = asyncio.ensure_future(asyncio.to_thread(_gone, worker, agent.folder))
    run_id = await client.submit_request(agent_request(repository, case.model, (PATH,), case.budget), patience=10.0)
    run = proved(await client.wait(run_id, timeout=600), "budget_exceeded")
    gone = await watching
    used = spending_of(run)
    counted = used.cost_usd if case.unit == "dollars" else used.tokens
    # The first that is sent is what was read; of a talk, all after it was written.
    read = model.sent[0][1] if case.model == "talking" else model.sent[-1][1]
    amounts = [(when, case.amount(min(tokens, read), max(0, tokens - read))) for when, tokens in model.sent]
    crossed = next((when for when, amount in amounts if amount >= case.limit), amounts[-1][0])
    return Stopped(case, counted, amounts[-1][1], gone - crossed)


def _gone(worker: int, installation: Path) -> float:
    """When the last process of an agent was seen, after the first had come."""
    seen = False
    while True:
        if agents_of(worker, installation):
            seen = True
        elif seen:
            return time.monotonic()
        time.sleep(_LOOK_SECONDS)
