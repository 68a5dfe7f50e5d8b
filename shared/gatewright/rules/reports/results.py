"""A worker's result must be about its task: its run, its attempt, its baseline, and times in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from gatewright.contracts import TaskResult
from gatewright.rules.broken import Broken
from gatewright.run.spending import most
from gatewright.run.state import Run, RunTask

CODE = "result_contradicts"
RULE = "task_result"


def broken_by_result(result: TaskResult, task: RunTask, run: Run) -> Iterator[Broken]:
    """Check a result.

    1. It is about this run.
    2. It is about the ordered attempt.
    3. It has the run's baseline.
    4. It ended after it began.
    5. The assigned role made it.
    6. A success has no failure reason.
    7. Its usage is at least the usage reported before.
    """
    attempt = task.contract.attempt if task.contract is not None else task.attempt
    for name, reported, ordered in (
        ("run", result.run_id, run.run_id),  # 1
        ("attempt", result.attempt, attempt),  # 2
        ("baseline", result.git.baseline_ref, run.accepted.baseline_commit),  # 3
    ):
        if reported != ordered:
            yield Broken(CODE, RULE, f"the result has {name} {reported}, but the task has {ordered}")
    if (words := wrong_times(result.started_at, result.finished_at)) is not None:  # 4
        yield Broken(CODE, RULE, words)
    role = task.contract.assigned_agent.role if task.contract is not None else "WORKER"
    if result.producer.role != role:  # 5
        yield Broken(CODE, RULE, f"a {result.producer.role} made it, and a {role} was asked")
    if result.status == "SUCCESS" and result.failure is not None:  # 6
        yield Broken(CODE, RULE, f"it succeeded, and names a failure: {result.failure[:200]}")
    if result.usage is not None:  # 7
        known = task.usage.get(result.usage.delivery)
        if known is not None and most(known, result.usage) != result.usage:
            yield Broken(CODE, RULE, "it reports less usage than was reported during the work")


def seconds_between(started: str, finished: str) -> float | None:
    """Return the seconds between two times; None when they cannot be compared."""
    try:
        return (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
    except (ValueError, TypeError):
        return None


def wrong_times(started: str, finished: str) -> str | None:
    """Return the fault of two times (RFC 3339) of one document, written by one clock; None when they are consistent."""
    seconds = seconds_between(started, finished)
    if seconds is None:
        return f"{started[:40]!r} and {finished[:40]!r} are no two times that can be compared"
    return f"it finished {finished}, before it started {started}" if seconds < 0 else None
