"""Priority class of a task: the run's priority, lowered where other runs would have to wait. Pure.

The rules apply to each role's pool separately, since tasks of different pools never wait for each other:
1. A task has the priority of its run, which the run's request or contract states.
2. The first 4 tasks of a run in flight, and the first 8 of a repository, keep that priority. Of each other run on the
   repository only its first 4 tasks are included, so the rest of a large run queues behind a small run's first tasks.
3. The next tasks, up to four times that number, are one class lower; all others are low.
So a large run fills the machine while no other run needs it, and queues behind every other run's first tasks otherwise.
"""

from __future__ import annotations

from collections import Counter

from gatewright.bus.topology import DEFAULT_POOL, TASK_CLASSES
from gatewright.contracts.vocabulary import Priority
from gatewright.run.state import Run

#: Tasks in flight per run that keep the run's priority.
RUN_SHARE = 4
REPOSITORY_SHARE = 8
#: Number of shares that are one class lower before all further tasks are low.
SECOND_CLASS = 4


def class_of(run: Run, task_id: str, of_others: int) -> Priority:
    """Return the class of a task of ``run`` in flight.

    Args:
        run: the run of the task.
        task_id: the task.
        of_others: tasks in flight of the same role for other runs on the same repository, as ``InFlight`` counts them.
    """
    order = run.tasks[task_id]
    before = 0  # earlier tasks of this run
    for task in run.tasks.values():
        if task.task_id == task_id:
            break
        before += (task.role, task.pool) == (order.role, order.pool) and task.status == "RUNNING"
    lower = max(_lower(before, RUN_SHARE), _lower(before + of_others, REPOSITORY_SHARE))
    return TASK_CLASSES[min(TASK_CLASSES.index(priority_of(run)) + lower, len(TASK_CLASSES) - 1)]


def priority_of(run: Run) -> Priority:
    """Return the priority that the run was accepted with."""
    document = run.accepted.request or run.accepted.contract
    return document.priority if document is not None else "normal"


def _lower(before: int, share: int) -> int:
    """Return the number of classes to lower by."""
    if before < share:
        return 0
    return 1 if before < share * (1 + SECOND_CLASS) else len(TASK_CLASSES)


class InFlight:
    """Tasks in flight by repository and run, for the runs that this gatekeeper has moved."""

    def __init__(self) -> None:
        self._repositories: dict[str, dict[str, Counter[tuple[str, str]]]] = {}
        self._repository_of: dict[str, str] = {}

    def saw(self, run: Run) -> None:
        """Update the counts from the state of a run."""
        repository = run.accepted.repository_key
        roles = Counter((task.role, task.pool) for task in run.tasks.values() if task.status == "RUNNING")
        if run.ended or not roles:
            self.forget(run.run_id)
            return
        self._repositories.setdefault(repository, {})[run.run_id] = Counter(roles)
        self._repository_of[run.run_id] = repository

    def of_others(self, run: Run, role: str, pool: str = DEFAULT_POOL) -> int:
        """Count tasks in flight of a role's pool for other runs on the repository of ``run``, each run up to its share."""
        runs = self._repositories.get(run.accepted.repository_key, {})
        return sum(min(roles[role, pool], RUN_SHARE) for run_id, roles in runs.items() if run_id != run.run_id)

    def forget(self, run_id: str) -> None:
        """Drop an ended run."""
        repository = self._repository_of.pop(run_id, None)
        if repository is None:
            return
        runs = self._repositories[repository]
        del runs[run_id]
        if not runs:
            del self._repositories[repository]
