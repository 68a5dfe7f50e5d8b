"""Watch on target branches: has the target of a run moved while people decide about the run?

A lookup contacts the repository's host, which may be slow or down. It runs in the background: the caller waits a limited time
and gets the known state. Nothing is decided here; the landing gate does its own lookup.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from gatewright.clock import Clock
from gatewright.contracts.run_status import MovedTarget
from gatewright.errors import GatewrightError
from gatewright.git.mirror import Mirrors
from gatewright.rules.approvals import pending
from gatewright.rules.drift import MOST_NAMED, Drift, watched_refs
from gatewright.rules.landing import landing_ref
from gatewright.run.events.people import BRANCH_GONE
from gatewright.run.state import Run

#: Seconds for which a lookup is valid, concurrent lookups, and runs whose lookups are cached.
FRESH: Final = 10.0
MOST_AT_ONCE: Final = 8
MOST_REMEMBERED: Final = 2_000


@dataclass(frozen=True, slots=True)
class _Seen:
    at: float
    head: str
    #: What a moved branch under a review got since the base of the review.
    files: tuple[bytes, ...] = ()
    commits: tuple[str, ...] = ()


@dataclass
class TargetWatch:
    """Cache of lookups. The age of a lookup is measured with the monotonic time of ``clock``."""

    mirrors: Mirrors
    clock: Clock
    #: By run and ref.
    _seen: dict[tuple[str, str], _Seen] = field(default_factory=dict)
    _looking: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)

    async def moved(self, runs: Iterable[Run], patience: float = 0.0) -> dict[str, MovedTarget]:
        """Return the moved targets by run, as far as known within ``patience`` seconds."""
        waiting = [run for run in runs if target_of(run)]
        started = [task for run in waiting if (task := self._start_lookup(run, target_of(run))) is not None]
        if started and patience > 0:
            await asyncio.wait(started, timeout=patience)
        found = ((run.run_id, self._moved_target(run)) for run in waiting)
        return {run_id: moved for run_id, moved in found if moved is not None}

    async def drifts(self, run: Run, patience: float = 0.0) -> tuple[Drift, ...]:
        """Return the refs under the run's review that moved, as far as known within ``patience`` seconds.

        Without patience, a lookup in progress is left to the next call.
        """
        watched, found = watched_refs(run), []
        started = {ref: task for ref in watched if (task := self._start_lookup(run, ref)) is not None}
        if started:
            await asyncio.wait(started.values(), timeout=patience)
        for ref, known in watched.items():
            seen = self._seen.get((run.run_id, ref))
            is_current = patience > 0 or ref not in started or started[ref].done()
            if is_current and seen is not None and (seen.head or BRANCH_GONE) != known:
                found.append(Drift(ref, seen.head, seen.files, seen.commits))
        return tuple(found)

    def _moved_target(self, run: Run) -> MovedTarget | None:
        seen = self._seen.get((run.run_id, target_of(run)))
        if seen is None or seen.head == run.accepted.baseline_commit:
            return None
        return MovedTarget(ref=target_of(run), expected=run.accepted.baseline_commit, found=seen.head)

    def _start_lookup(self, run: Run, ref: str) -> asyncio.Task[None] | None:
        """Return a lookup in progress; None while the last one is valid, or when there are too many."""
        key = (run.run_id, ref)
        if (known := self._looking.get(key)) is not None:
            return known
        seen = self._seen.get(key)
        if (seen is not None and self.clock.monotonic() - seen.at < FRESH) or len(self._looking) >= MOST_AT_ONCE:
            return None
        task = asyncio.create_task(self._see(run, ref))
        self._looking[key] = task
        task.add_done_callback(lambda _done: self._looking.pop(key, None))
        return task

    async def _see(self, run: Run, ref: str) -> None:
        key = (run.run_id, ref)
        try:
            mirror = await self.mirrors.open(run.accepted.repository_url)
            head = await mirror.current(ref) or ""
        except GatewrightError:
            self._seen.pop(key, None)  # unknown, so nothing is reported
            return
        seen = self._seen[key] = _Seen(self.clock.monotonic(), head)
        while len(self._seen) > MOST_REMEMBERED:
            self._seen.pop(next(iter(self._seen)))
        base = watched_refs(run).get(ref)
        if not head or base is None or head == base:
            return
        with contextlib.suppress(GatewrightError):  # the move is known, and what it brought is not
            await mirror.ensure(head)
            files = tuple(change.path for change in await mirror.changes(base, head))
            commits = await mirror.commits_on(b".", base, head, MOST_NAMED)
            self._seen[key] = replace(seen, files=files, commits=commits)


def target_of(run: Run) -> str:
    """Return the branch that must still point to the run's baseline while people decide; empty for all other runs."""
    repository = run.contract.repository if run.contract is not None else None
    if run.ended or repository is None or repository.landing != "target" or not pending(run):
        return ""
    return landing_ref(run.run_id, repository)
