"""Best of several: one order is carried out by several makers at once, each result is judged alone, and the best one lands.

A run with candidates has one worker task for each in every round, and one review and one test task for each that came so far.
``Run.seen_from`` shows such a run as if one of them were the only one: that is what every gate is given, so none needs to know
of the others. ``choice`` has the rule by which one of them is chosen. Pure.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Executor
from gatewright.run.state import Run, RunTask

#: A role may name its reason only in this form; anything else is recorded as words.
REASON = re.compile(r"[a-z][a-z0-9_]{2,47}")  # noqa: TID251 - linear: anchored, and no repetition can give to the next


def orders_of(shard: TaskContract) -> tuple[TaskContract, ...]:
    """What is given out for one part of a plan: the part itself, or for each candidate its own copy, with its own executor."""
    return tuple(
        replace(shard, task_id=f"{shard.task_id}.c{number}", executor=executor, candidates=None, candidate=number)
        for number, executor in enumerate(shard.candidates or (), 1)
    ) or (shard,)


def all_worked(run: Run) -> bool:
    """Whether every maker of this round has answered."""
    return all(task.status in {"SUCCESS", "FAILED"} for task in run.workers())


def makers(run: Run) -> tuple[RunTask, ...]:
    """Every worker task of the run, of all candidates and rounds: who did one of them judges none."""
    return tuple(task for task in run.tasks.values() if task.role == "worker")


def made_by(run: Run) -> Executor | None:
    """How the change is made that ``run``, as it is seen from a candidate where there are several, is about."""
    contract = run.contract
    if contract is None or not contract.candidates:
        return contract.executor if contract is not None else None
    return contract.candidates[run.chosen - 1] if 0 < run.chosen <= len(contract.candidates) else None


def reason_of(failure: str, default_code: str) -> str:
    """The code that a role's own words about its failure begin with, where they begin with one."""
    code = failure.partition(":")[0]
    return code if REASON.fullmatch(code) else default_code
