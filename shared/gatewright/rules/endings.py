"""Why a run ends, in code and words: what the decider writes, and what ``verify`` makes of the event before the end. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gatewright.budgets import Excess
from gatewright.contracts import Error, GateReport, TaskResult
from gatewright.rules.approvals import unapprovable
from gatewright.rules.people.delegations import holders
from gatewright.rules.people.ownership import ORDERER_UNKNOWN
from gatewright.rules.rounds import ESCALATED, candidates_escalate
from gatewright.run import events as e
from gatewright.run.candidates import reason_of
from gatewright.run.choice import NONE_PASSED
from gatewright.run.state import AskedApproval, Run

BUDGET_EXCEEDED = "budget_exceeded"
EXPIRED = "approval_expired"


class Ending(NamedTuple):
    """The stable code of an end, and words for people."""

    code: str
    message: str


def landed_ending(ref: str) -> Ending:
    """A candidate is on ``ref``; empty: nothing was to be landed."""
    return Ending("ok", "landed" if ref else "proven; nothing was to be landed")


def refused_ending(report: GateReport) -> Ending:
    """A gate refused."""
    return Ending(report.code, f"{report.gate} gate: {report.summary}")


def escalated_ending(report: GateReport, attempt: int) -> Ending:
    """A gate refused as often as it may without a person."""
    words = f"{report.gate} gate ({report.code}): {report.summary}; refused {attempt} times in a row"
    return Ending(ESCALATED, f"{words}, a person has to look at it")


def none_passed(run: Run) -> Ending:
    """Every candidate is out."""
    outcomes = [f"candidate {number}: {state.failure}" for number, state in sorted(run.candidates.items())]
    return Ending(ESCALATED if candidates_escalate(run) else NONE_PASSED, "; ".join(outcomes))


def task_failed(error: Error) -> Ending:
    """A role could not do its task."""
    return Ending(reason_of(error.code, "task_failed"), error.message)


def worker_failed(result: TaskResult) -> Ending:
    """A worker could not make the change."""
    code, _, words = (result.failure or "").partition(":")
    return Ending(reason_of(code, "executor_failed"), words.strip() or result.summary or "the worker failed")


def budget_exceeded(event: e.BudgetExceeded) -> Ending:
    """A budget is used up."""
    whose = f" by {event.task_id}, of its share" if event.task_id else ""
    words = Excess(event.budget, event.limit, event.used).words
    return Ending(BUDGET_EXCEEDED, words + whose + (f", {event.waiting}" if event.waiting else ""))


def approval_expired(asked: AskedApproval) -> Ending:
    """A person who was asked did not answer in time."""
    words = f"{', '.join(holders(asked))} did not answer {asked.request.rule} until {asked.request.expires_at}"
    return Ending(EXPIRED, words)


def orderer_unknown(run: Run) -> Ending:
    """A person has to approve, and it is not known who ordered the run."""
    return Ending(ORDERER_UNKNOWN, unapprovable(run))


def waiting_for(run: Run, budget: Literal["wall_sec", "tokens", "cost_usd", "iterations"]) -> str:
    """What an open run is waiting for when its time is over, in words; empty for any other budget."""
    if budget != "wall_sec":
        return ""
    if run.parked:
        return "while waiting for a person"
    if run.state == "S5":
        return "before the next round of fixing"
    if run.waiting_for_locks:
        return "while waiting for paths that others hold"
    first, *others = [*(task.role for task in run.tasks.values() if task.status == "RUNNING"), ""]
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return f"while waiting for the {first}{more}" if first else ""
