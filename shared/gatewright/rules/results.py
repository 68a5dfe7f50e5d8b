"""Whether a worker's result is about the task that it was given: its run, its attempt, its baseline, and times in order."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from gatewright.contracts import TaskResult
from gatewright.ledger.run import Run, RunTask
from gatewright.rules.broken import Broken

CODE = "result_contradicts"
RULE = "task_result"


def broken_by_result(result: TaskResult, task: RunTask, run: Run) -> Iterator[Broken]:
    """1. this run  2. the attempt that was ordered  3. the run's baseline  4. it ended after it began."""
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


def wrong_times(started: str, finished: str) -> str | None:
    """What is wrong with the two times (RFC 3339) of one document, which one clock has written; None when they fit."""
    try:
        reversed_ = datetime.fromisoformat(finished) < datetime.fromisoformat(started)
    except (ValueError, TypeError):
        return f"{started[:40]!r} and {finished[:40]!r} are no two times that can be compared"
    return f"it finished {finished}, before it started {started}" if reversed_ else None
