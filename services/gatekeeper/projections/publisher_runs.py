"""Number of open and recent runs by publisher and repository, counted from the ledger.

So all gatekeepers have the same counts, also after a start. Only publishers with a limit are counted, and repositories where
quotas exist. A repository's key is its identity, which is never a publisher's name.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from datetime import datetime, timedelta

from gatewright.clock import Clock
from gatewright.run.events import RunAccepted, RunFinished
from gatewright.run.state import Run
from gatewright.services.gatekeeper.projections.entries import ACCEPTED, LedgerEntry, LedgerReading

DAY = timedelta(days=1)


class PublisherRuns(LedgerReading):
    """Counts by publisher, and by repository where ``repositories`` is set.

    Runs that other gatekeepers accept are seen when their ledger message arrives, some milliseconds later.
    """

    def __init__(self, clock: Clock, publishers: frozenset[str], *, repositories: bool = False) -> None:
        super().__init__()
        self._publishers = publishers
        self._repositories = repositories
        self._clock = clock
        self._open: defaultdict[str, set[str]] = defaultdict(set)
        self._begun: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        self._owners: dict[str, tuple[str, ...]] = {}

    @property
    def counts(self) -> bool:
        """Whether anything must be counted."""
        return bool(self._publishers or self._repositories)

    def saw(self, entry: LedgerEntry) -> None:
        """Apply a ledger entry."""
        if not self.counts:
            return
        for event in entry.events:
            if event.event_type == RunAccepted.event_type and entry.run_id not in self._owners:
                with contextlib.suppress(ValueError):
                    accepted = ACCEPTED.decode(event.payload)
                    owners = self._counted_for(accepted.owner, accepted.repository)
                    self._begin(owners, entry.run_id, datetime.fromisoformat(event.ts))
            elif event.event_type == RunFinished.event_type:
                self._remove_run(entry.run_id)

    def note(self, run: Run) -> None:
        """Add a run that this gatekeeper has just accepted, before its ledger message arrives."""
        when = datetime.fromisoformat(run.created_at)
        owners = self._counted_for(run.publisher, run.accepted.repository_key)
        known = any(run.run_id in self._begun[owner] for owner in owners) or when <= self._clock.now() - DAY
        if not known:
            self._begin(owners, run.run_id, when)
            if run.ended:
                self._remove_run(run.run_id)

    def open(self, owner: str) -> frozenset[str]:
        """Return the open runs of a publisher or repository."""
        return frozenset(self._open[owner])

    def begun(self, owner: str) -> dict[str, datetime]:
        """Return the runs of the last 24 hours with their start times, oldest first."""
        begun, limit = self._begun[owner], self._clock.now() - DAY
        for run_id in [run_id for run_id, when in begun.items() if when <= limit]:
            del begun[run_id]
        return dict(sorted(begun.items(), key=lambda item: item[1]))

    def _counted_for(self, publisher: str, repository: str) -> tuple[str, ...]:
        owners = (publisher,) if publisher in self._publishers else ()
        return (*owners, repository) if self._repositories and repository else owners

    def _begin(self, owners: tuple[str, ...], run_id: str, when: datetime) -> None:
        if owners:
            self._owners[run_id] = owners
        for owner in owners:
            self._open[owner].add(run_id)
            if when > self._clock.now() - DAY:
                self._begun[owner][run_id] = when

    def _remove_run(self, run_id: str) -> None:
        for owner in self._owners.pop(run_id, ()):
            self._open[owner].discard(run_id)
            if not self._open[owner]:
                del self._open[owner]
