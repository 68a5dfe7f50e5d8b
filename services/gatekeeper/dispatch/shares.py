"""Fair shares: decides which waiting tasks may be dispatched now, and in which order. Pure: no bus, no clock.

1. A dispatched task occupies a slot of its repository and a slot of its publisher until it is done or its run ends.
2. Waiting tasks are ordered by virtual time (start-time fair queueing). Tasks of a run follow each other at a distance of 1
   divided by the weight of the publisher. A new run starts at the virtual time of the last dispatched task. So a run of one
   task goes ahead of the rest of a run of sixty, and no later run overtakes a task that has waited for long.
3. The first task in this order with both slots free is dispatched. The first task that lacks one of its slots keeps the other
   reserved. Otherwise a task that needs a busy repository and a busy publisher might never get both.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

from gatewright.contracts.records import CommandRef
from gatewright.run.state import Run
from gatewright.services.gatekeeper.policies.dispatch import NO_SHARES, SharesPolicy

TaskName = tuple[str, str]


@dataclass(frozen=True, slots=True, order=True)
class WaitingTask:
    """A task in the waiting order. ``turn`` is its virtual time; on a tie the earlier arrival goes first."""

    turn: float
    number: int
    run_id: str
    repository: str
    publisher: str
    command: CommandRef

    @property
    def name(self) -> TaskName:
        return self.run_id, self.command.task_id


class FairShares:
    """Occupied slots and waiting tasks, for the tasks that this gatekeeper has dispatched or will dispatch."""

    def __init__(self, policy: SharesPolicy = NO_SHARES) -> None:
        #: May be replaced at any time; waiting tasks then follow the new policy.
        self.policy = policy
        self._taken: dict[str, dict[str, tuple[str, str]]] = {}
        self._repositories: Counter[str] = Counter()
        self._publishers: Counter[str] = Counter()
        self._waiting: dict[str, dict[str, WaitingTask]] = {}
        self._behind: dict[str, float] = {}
        self._now = 0.0
        self._arrived = 0

    def ask(self, run: Run, command: CommandRef) -> None:
        """Queue a task for dispatch."""
        run_id, task_id = run.run_id, command.task_id
        if self.waits(run_id, task_id):
            return
        self._free(run_id, task_id)  # dispatched before, possibly without arriving
        turn = max(self._now, self._behind.get(run_id, 0.0))
        self._behind[run_id] = turn + 1 / self.policy.weights.get(run.publisher, 1.0)
        self._arrived += 1
        task = WaitingTask(turn, self._arrived, run_id, run.accepted.repository_key, run.publisher, command)
        self._waiting.setdefault(run_id, {})[task_id] = task

    def take(self, run: Run, task_id: str) -> None:
        """Occupy the slots of a task that was dispatched before (another gatekeeper, a restart), regardless of limits."""
        self._take(run.run_id, task_id, run.accepted.repository_key, run.publisher)

    def next_ones(self) -> list[WaitingTask]:
        """Occupy slots for every task that may be dispatched now, and return these tasks in order."""
        found: list[WaitingTask] = []
        first_blocked: WaitingTask | None = None
        order = [task for tasks in self._waiting.values() for task in tasks.values()]
        heapq.heapify(order)
        while order:
            task = heapq.heappop(order)
            if not self._has_room(task, first_blocked):
                first_blocked = first_blocked or task
                continue
            self._drop(task.run_id, task.command.task_id)
            self._take(task.run_id, task.command.task_id, task.repository, task.publisher)
            self._now = max(self._now, task.turn)
            found.append(task)
        return found

    def give_back(self, task: WaitingTask) -> None:
        """Return a task to its place in the waiting order after a failed dispatch."""
        self._free(task.run_id, task.command.task_id)
        self._waiting.setdefault(task.run_id, {})[task.command.task_id] = task

    def waits(self, run_id: str, task_id: str) -> bool:
        return task_id in self._waiting.get(run_id, {})

    def knows(self, run_id: str) -> bool:
        """Return whether this object tracks slots or waiting tasks of the run."""
        return run_id in self._taken or run_id in self._waiting

    def saw(self, run: Run) -> None:
        """Update from the state of a run: finished tasks free their slots and leave the waiting order."""
        running = {} if run.ended else {task.task_id for task in run.tasks.values() if task.status == "RUNNING"}
        for task_id in [each for each in self._taken.get(run.run_id, {}) if each not in running]:
            self._free(run.run_id, task_id)
        for task_id in [each for each in self._waiting.get(run.run_id, {}) if each not in running]:
            self._drop(run.run_id, task_id)

    def forget(self, run_id: str) -> None:
        """Drop an ended run."""
        for task_id in list(self._taken.get(run_id, {})):
            self._free(run_id, task_id)
        self._waiting.pop(run_id, None)
        self._behind.pop(run_id, None)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _has_room(self, task: WaitingTask, first: WaitingTask | None) -> bool:
        """Return whether both slots are free, apart from slots reserved for ``first``, the first task that lacks one."""
        repository, publisher = self.policy.tasks_per_repository, self.policy.tasks_per_publisher
        kept_repository = first is not None and first.repository == task.repository
        kept_publisher = first is not None and first.publisher == task.publisher
        return (repository is None or self._repositories[task.repository] + kept_repository < repository) and (
            publisher is None or self._publishers[task.publisher] + kept_publisher < publisher
        )

    def _take(self, run_id: str, task_id: str, repository: str, publisher: str) -> None:
        places = self._taken.setdefault(run_id, {})
        if task_id not in places:
            places[task_id] = repository, publisher
            self._repositories[repository] += 1
            self._publishers[publisher] += 1

    def _free(self, run_id: str, task_id: str) -> None:
        places = self._taken.get(run_id, {})
        if task_id not in places:
            return
        repository, publisher = places.pop(task_id)
        if not places:
            del self._taken[run_id]
        for counter, key in ((self._repositories, repository), (self._publishers, publisher)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]

    def _drop(self, run_id: str, task_id: str) -> None:
        tasks = self._waiting[run_id]
        del tasks[task_id]
        if not tasks:
            del self._waiting[run_id]
