"""Endings of runs, as code and text: the decider records them, and ``verify`` derives them from the previous event. Pure."""

from __future__ import annotations

from typing import Literal, NamedTuple

from gatewright.budgets import Excess
from gatewright.contracts import Error, GateReport, SummonsAnswer, TaskResult
from gatewright.rules.approvals import unapprovable
from gatewright.rules.critic import CRITIC_BLOCKED, critic_words
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
    """Stable code and text of an ending."""

    code: str
    message: str


def landed_ending(ref: str) -> Ending:
    """Return the ending of a run whose candidate is on ``ref``; empty when nothing was to land."""
    return Ending("ok", "landed" if ref else "proven; nothing was to be landed")


def document_ending(run: Run) -> Ending:
    """Return the ending of a run that lands nothing and has made its document."""
    return Ending(run.kind.success, run.kind.words)


def refused_ending(report: GateReport) -> Ending:
    """Return the ending after a gate's refusal."""
    return Ending(report.code, f"{report.gate} gate: {report.summary}")


def escalated_ending(report: GateReport, attempt: int) -> Ending:
    """Return the ending after the maximum number of refusals without a person."""
    words = f"{report.gate} gate ({report.code}): {report.summary}; refused {attempt} times in a row"
    return Ending(ESCALATED, f"{words}, a person has to look at it")


def none_passed(run: Run) -> Ending:
    """Return the ending of a run whose candidates are all eliminated."""
    outcomes = [f"candidate {number}: {state.failure}" for number, state in sorted(run.candidates.items())]
    return Ending(ESCALATED if candidates_escalate(run) else NONE_PASSED, "; ".join(outcomes))


def task_failed(error: Error) -> Ending:
    """Return the ending after a role's failed task."""
    return Ending(reason_of(error.code, "task_failed"), error.message)


def worker_failed(result: TaskResult) -> Ending:
    """Return the ending after a worker's failure."""
    code, _, words = (result.failure or "").partition(":")
    return Ending(reason_of(code, "executor_failed"), words.strip() or result.summary or "the worker failed")


def budget_exceeded(event: e.BudgetExceeded) -> Ending:
    """Return the ending after an exceeded budget."""
    whose = f" by {event.task_id}, of its share" if event.task_id else ""
    words = Excess(event.budget, event.limit, event.used).words
    return Ending(BUDGET_EXCEEDED, words + whose + (f", {event.waiting}" if event.waiting else ""))


def approval_expired(asked: AskedApproval) -> Ending:
    """Return the ending after an approval request expired."""
    words = f"{', '.join(holders(asked))} did not answer {asked.request.rule} until {asked.request.expires_at}"
    return Ending(EXPIRED, words)


def orderer_unknown(run: Run) -> Ending:
    """Return the ending of a run that needs approval while its requester is unknown."""
    return Ending(ORDERER_UNKNOWN, unapprovable(run))


def critic_blocked(answer: SummonsAnswer) -> Ending:
    """Return the ending of a run whose change a model critic blocked."""
    return Ending(CRITIC_BLOCKED, critic_words(answer))


def waiting_for(run: Run, budget: Literal["wall_sec", "tokens", "cost_usd", "iterations"]) -> str:
    """Return as text what an open run waits for when its wall time is exhausted; empty for other budgets."""
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
