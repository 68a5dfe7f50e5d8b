"""Which tasks may be given out now, and which of those that wait comes next. Pure: it publishes nothing and asks no clock.

1. A task that is given out takes a place of its repository and one of its publisher, until it is done or its run is over.
2. Those that wait are in the order of virtual times (start-time fair queueing): a run's tasks stand one behind the other, 1
   apart divided by the weight of its publisher, and a run that begins stands where the last task that was given out stood. So
   a run of one part goes before the rest of a run of sixty, and none that begins later gets before what has waited for long.
3. The first task in this order for which there is room is given out; but of the first that lacks one of its places, the other
   is kept. Without that, a task that needs a place of a busy repository and one of a busy publisher might never find both.
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
    """``turn`` is its virtual time; of two with the same, the one that came first."""

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
    """The places that are taken and the tasks that wait, as far as this gatekeeper has given them out or is to."""

    def __init__(self, policy: SharesPolicy = NO_SHARES) -> None:
        #: May be replaced at any time: what waits is given out by the new one.
        self.policy = policy
        self._taken: dict[str, dict[str, tuple[str, str]]] = {}
        self._repositories: Counter[str] = Counter()
        self._publishers: Counter[str] = Counter()
        self._waiting: dict[str, dict[str, WaitingTask]] = {}
        self._behind: dict[str, float] = {}
        self._now = 0.0
        self._arrived = 0

    def ask(self, run: Run, command: CommandRef) -> None:
        """A task wants to be given out."""
        run_id, task_id = run.run_id, command.task_id
        if self.waits(run_id, task_id):
            return
        self._free(run_id, task_id)  # it was on its way once, and may not have come there
        turn = max(self._now, self._behind.get(run_id, 0.0))
        self._behind[run_id] = turn + 1 / self.policy.weights.get(run.publisher, 1.0)
        self._arrived += 1
        task = WaitingTask(turn, self._arrived, run_id, run.accepted.repository_key, run.publisher, command)
        self._waiting.setdefault(run_id, {})[task_id] = task

    def take(self, run: Run, task_id: str) -> None:
        """A task was given out before, by another gatekeeper or before a restart: it has its places, whatever the bounds."""
        self._take(run.run_id, task_id, run.accepted.repository_key, run.publisher)

    def next_ones(self) -> list[WaitingTask]:
        """Every task that may be given out now, in order; each has its places from now on."""
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
        """It could not be given out after all: it waits again, where it stood."""
        self._free(task.run_id, task.command.task_id)
        self._waiting.setdefault(task.run_id, {})[task.command.task_id] = task

    def waits(self, run_id: str, task_id: str) -> bool:
        return task_id in self._waiting.get(run_id, {})

    def knows(self, run_id: str) -> bool:
        """Whether places or turns of the run are counted here."""
        return run_id in self._taken or run_id in self._waiting

    def saw(self, run: Run) -> None:
        """How a run stands now: what is done has no place any more, and is not given out."""
        running = {} if run.ended else {task.task_id for task in run.tasks.values() if task.status == "RUNNING"}
        for task_id in [each for each in self._taken.get(run.run_id, {}) if each not in running]:
            self._free(run.run_id, task_id)
        for task_id in [each for each in self._waiting.get(run.run_id, {}) if each not in running]:
            self._drop(run.run_id, task_id)

    def forget(self, run_id: str) -> None:
        """The run is over."""
        for task_id in list(self._taken.get(run_id, {})):
            self._free(run_id, task_id)
        self._waiting.pop(run_id, None)
        self._behind.pop(run_id, None)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _has_room(self, task: WaitingTask, first: WaitingTask | None) -> bool:
        """Whether there are both places, beside those that are kept for the ``first`` task that lacks one of its two."""
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
