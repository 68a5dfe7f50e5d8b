"""Which priority class a task is given out in: what the run asks for, and less where others would have to wait for it. Pure.

The rules, for each role's pool by itself, since its tasks wait for no others':
1. A task has the priority of its run, which the run's request or contract names, and nothing after that.
2. The first 4 tasks of a run that are in flight, and the first 8 of a repository, keep it. Of another run on the repository no
   more than its own first 4 count: the rest of a large run stands behind a small one's first tasks, and not before them.
3. The next ones, up to four times that many, are given out one class lower; the rest as low.
So a large run fills the machine while no other wants it, and stands behind every other's first tasks as soon as one does.
"""

from __future__ import annotations

from collections import Counter

from gatewright.bus.topology import DEFAULT_POOL, TASK_CLASSES
from gatewright.contracts.vocabulary import Priority
from gatewright.run.state import Run

#: Tasks in flight that keep the priority of their run.
RUN_SHARE = 4
REPOSITORY_SHARE = 8
#: So many shares of tasks are given out one class lower before all others are low.
SECOND_CLASS = 4


def class_of(run: Run, task_id: str, of_others: int) -> Priority:
    """The class of a task of ``run`` that is in flight.

    ``of_others``: tasks of the same role that other runs on the same repository have in flight, as ``InFlight`` counts them.
    """
    order = run.tasks[task_id]
    before = 0  # tasks of this run that were given out before this one
    for task in run.tasks.values():
        if task.task_id == task_id:
            break
        before += (task.role, task.pool) == (order.role, order.pool) and task.status == "RUNNING"
    lower = max(_lower(before, RUN_SHARE), _lower(before + of_others, REPOSITORY_SHARE))
    return TASK_CLASSES[min(TASK_CLASSES.index(priority_of(run)) + lower, len(TASK_CLASSES) - 1)]


def priority_of(run: Run) -> Priority:
    """What the run was accepted with."""
    document = run.accepted.request or run.accepted.contract
    return document.priority if document is not None else "normal"


def _lower(before: int, share: int) -> int:
    """By how many classes."""
    if before < share:
        return 0
    return 1 if before < share * (1 + SECOND_CLASS) else len(TASK_CLASSES)


class InFlight:
    """Tasks in flight by repository and run, as far as this gatekeeper has moved the runs."""

    def __init__(self) -> None:
        self._repositories: dict[str, dict[str, Counter[tuple[str, str]]]] = {}
        self._repository_of: dict[str, str] = {}

    def saw(self, run: Run) -> None:
        """Take note of how a run stands now."""
        repository = run.accepted.repository_key
        roles = Counter((task.role, task.pool) for task in run.tasks.values() if task.status == "RUNNING")
        if run.ended or not roles:
            self.forget(run.run_id)
            return
        self._repositories.setdefault(repository, {})[run.run_id] = Counter(roles)
        self._repository_of[run.run_id] = repository

    def of_others(self, run: Run, role: str, pool: str = DEFAULT_POOL) -> int:
        """Tasks of a role's pool that other runs on the repository of ``run`` have in flight, each within its share."""
        runs = self._repositories.get(run.accepted.repository_key, {})
        return sum(min(roles[role, pool], RUN_SHARE) for run_id, roles in runs.items() if run_id != run.run_id)

    def forget(self, run_id: str) -> None:
        """The run is over."""
        repository = self._repository_of.pop(run_id, None)
        if repository is None:
            return
        runs = self._repositories[repository]
        del runs[run_id]
        if not runs:
            del self._repositories[repository]
