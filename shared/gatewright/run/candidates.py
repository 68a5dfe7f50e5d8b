"""Best of several: several makers carry out one order in parallel, each result is judged separately, and the best one lands.

A run with candidates has one worker task for each in every round, and one review and one test task for each that reaches that
stage. ``Run.seen_from`` presents such a run as if one of them were the only one. Every gate receives that view, so none has to
know about the others. ``choice`` has the selection rule. Pure.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Executor
from gatewright.run.state import Run, RunTask

#: Reasons of a role have this form; anything else is recorded as text.
REASON = re.compile(r"[a-z][a-z0-9_]{2,47}")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


def orders_of(shard: TaskContract) -> tuple[TaskContract, ...]:
    """Return the tasks for one part of a plan: the part itself, or a copy per candidate with its own executor."""
    return tuple(
        replace(shard, task_id=f"{shard.task_id}.c{number}", executor=executor, candidates=None, candidate=number)
        for number, executor in enumerate(shard.candidates or (), 1)
    ) or (shard,)


def all_worked(run: Run) -> bool:
    """Return whether every maker of this round has answered."""
    return all(task.status in {"SUCCESS", "FAILED"} for task in run.workers())


def makers(run: Run) -> tuple[RunTask, ...]:
    """Return every worker task of the run, of all candidates and rounds: their agents may judge none."""
    return tuple(task for task in run.tasks.values() if task.role == "worker")


def made_by(run: Run) -> Executor | None:
    """Return the executor of the change, for ``run`` as seen from a candidate where there are several."""
    contract = run.contract
    if contract is None or not contract.candidates:
        return contract.executor if contract is not None else None
    return contract.candidates[run.chosen - 1] if 0 < run.chosen <= len(contract.candidates) else None


def reason_of(failure: str, default_code: str) -> str:
    """Return the reason code at the beginning of a role's failure text, or ``default_code``."""
    code = failure.partition(":")[0]
    return code if REASON.fullmatch(code) else default_code
