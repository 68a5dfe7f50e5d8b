"""Whether a worker's result is about the task that it was given: its run, its attempt, its baseline, and times in order."""

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
    """1. this run  2. the attempt that was ordered  3. the run's baseline  4. it ended after it began  5. the role that was
    asked made it  6. success has no reason of a failure  7. it used no less than it had reported."""
    attempt = task.contract.attempt if task.contract is not None else task.attempt
    for name, said, ordered in (
        ("run", result.run_id, run.run_id),  # 1
        ("attempt", result.attempt, attempt),  # 2
        ("baseline", result.git.baseline_ref, run.accepted.baseline_commit),  # 3
    ):
        if said != ordered:
            yield Broken(CODE, RULE, f"the result is about {name} {said}, the task is about {ordered}")
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
            yield Broken(CODE, RULE, "it says that less was used than was reported while it worked")


def seconds_between(started: str, finished: str) -> float | None:
    """Seconds from one time to another; None for what are no two times that can be compared."""
    try:
        return (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
    except (ValueError, TypeError):
        return None


def wrong_times(started: str, finished: str) -> str | None:
    """What is wrong with the two times (RFC 3339) of one document, which one clock has written; None when they fit."""
    seconds = seconds_between(started, finished)
    if seconds is None:
        return f"{started[:40]!r} and {finished[:40]!r} are no two times that can be compared"
    return f"it finished {finished}, before it started {started}" if seconds < 0 else None
