"""What answers about runs say of the claims that were heard: when of which task, and since when nothing was. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

import msgspec

from gatewright.clock import Clock, timestamp
from gatewright.contracts import RunList, RunStatus
from gatewright.contracts.run_status import MOST_CLAIMED, ClaimedTask, ListedRun, TaskStanding
from gatewright.services.gatekeeper.projections.silent_runs import SilentRuns, TaskLife


class Silence:
    """As it is at one moment. ``clock``: its monotonic times are those of ``silent``, and become times of day by it."""

    def __init__(self, silent: SilentRuns, clock: Clock) -> None:
        self._silent = silent
        self._now: datetime = clock.now()
        self._tick = clock.monotonic()

    def in_status(self, status: RunStatus) -> RunStatus:
        """``status`` with what is known of its tasks in hand; those that are over are left as they are."""
        known = self._silent.tasks(status.run_id, self._tick)
        tasks = tuple(
            self._in_task(task, known[task.task_id]) if task.status == "RUNNING" and task.task_id in known else task
            for task in status.tasks
        )
        since = self._silent.silent_since(status.run_id, self._tick)
        return msgspec.structs.replace(status, tasks=tasks, silent_since=self._when(since) if since is not None else None)

    def in_list(self, listed: RunList) -> RunList:
        """``listed``, in which silent runs are called so, and claimed tasks have the process that claims them."""
        return msgspec.structs.replace(listed, runs=tuple(map(self._in_entry, listed.runs)))

    def _in_entry(self, run: ListedRun) -> ListedRun:
        if run.status != "RUNNING":
            return run
        since = self._silent.silent_since(run.run_id, self._tick)
        silent_since = self._when(since) if since is not None else None
        return msgspec.structs.replace(run, silent_since=silent_since, claimed=self._claimed_tasks(run.run_id))

    def _claimed_tasks(self, run_id: str) -> tuple[ClaimedTask, ...]:
        claims = (life.claim for life in self._silent.tasks(run_id, self._tick).values() if life.claim is not None)
        named = (ClaimedTask(task_id=claim.task_id, process=claim.process) for claim in claims if claim.process)
        return tuple(islice(named, MOST_CLAIMED))

    def _in_task(self, task: TaskStanding, life: TaskLife) -> TaskStanding:
        claim = life.claim
        return msgspec.structs.replace(
            task,
            claimed_at=self._when(life.last) if claim is not None else None,
            phase=claim.phase if claim is not None else None,
            activity=claim.activity if claim is not None else None,
            process=claim.process if claim is not None else None,
            silent_since=self._when(life.last) if life.silent else None,
        )

    def _when(self, tick: float) -> str:
        return timestamp(self._now - timedelta(seconds=self._tick - tick))
