"""Index of runs with publisher and state, for lists: a projection of the ledger.

It also wakes queries that wait for events of a run. It decides nothing; authenticity is checked when a run is loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator

import msgspec

from gatewright.contracts.run_status import ListedRun, RunList, RunOutcome, RunsRequest
from gatewright.foreign_documents import UnreadableDocumentError
from gatewright.run.events import RunAccepted, RunExpired
from gatewright.services.gatekeeper.projections.entries import ACCEPTED, EXPIRED, EntryEvent, LedgerEntry, LedgerReading


class IndexedRun(msgspec.Struct, frozen=True, gc=False):
    """Entry of a run in a list."""

    publisher: str
    created_at: str
    status: RunOutcome = "RUNNING"


class RunIndex(LedgerReading):
    """Runs in order of acceptance."""

    def __init__(self) -> None:
        super().__init__()
        self._runs: dict[str, IndexedRun] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        self._waiters: Counter[str] = Counter()
        self._released = False
        self._late = False

    def saw(self, entry: LedgerEntry) -> None:
        """Apply a ledger entry."""
        run_id = entry.run_id
        for event in entry.events:
            if event.event_type == RunAccepted.event_type and run_id not in self._runs:
                with contextlib.suppress(UnreadableDocumentError):
                    publisher = ACCEPTED.decode(event.payload).owner
                    # As many entries as there are runs in the ledger, so equal names share one string.
                    self._runs[run_id] = IndexedRun(sys.intern(publisher), event.ts)
            elif event.event_type == RunExpired.event_type and run_id not in self._runs:
                self._saw_remains(run_id, event)
        if (outcome := entry.outcome) is not None and (known := self._runs.get(run_id)) is not None:
            self._runs[run_id] = IndexedRun(known.publisher, known.created_at, outcome)
        if (news := self._waiting.pop(run_id, None)) is not None:
            news.set()

    def read_to_the_end(self) -> None:
        if self._late:
            # Remains of expired runs and restored runs were added after runs that were accepted later.
            self._runs = dict(sorted(self._runs.items(), key=lambda item: item[1].created_at))
            self._late = False
        super().read_to_the_end()

    def recall(self, run_id: str, run: IndexedRun) -> None:
        """Restore a settled run. Restored runs arrive in order of settlement, before any ledger message."""
        if run_id not in self._runs:
            self._runs[run_id] = IndexedRun(sys.intern(run.publisher), run.created_at, run.status)
        self._late = True

    def known(self, run_id: str) -> IndexedRun | None:
        """Return a run's list entry; None for a run that lists omit."""
        return self._runs.get(run_id)

    def _saw_remains(self, run_id: str, event: EntryEvent) -> None:
        with contextlib.suppress(UnreadableDocumentError):
            remains = EXPIRED.decode(event.payload)
            publisher = remains.accepted.owner
            status = remains.state if remains.state != "S6" else "SUCCESS"
            self._runs[run_id] = IndexedRun(sys.intern(publisher), remains.created_at, status)
            self._late = True

    def page(self, request: RunsRequest, visible: Callable[[str], bool]) -> RunList:
        """Return a page of the newest runs.

        Args:
            request: ``before`` limits the page to runs older than that one; an unknown run gives an empty page.
            visible: returns whether the runs of a publisher are included.
        """
        before, prefix, open_only = request.before, request.prefix or "", request.open_only
        found: list[ListedRun] = []
        begun = before is None
        for run_id, entry in reversed(self._runs.items()):
            if not begun:
                begun = run_id == before and visible(entry.publisher)
            elif run_id.startswith(prefix) and visible(entry.publisher) and (entry.status == "RUNNING" or not open_only):
                if len(found) == request.limit:
                    return RunList(runs=tuple(found), more=True)
                found.append(
                    ListedRun(run_id=run_id, publisher=entry.publisher, status=entry.status, created_at=entry.created_at)
                )
        return RunList(runs=tuple(found), more=False)

    @contextlib.contextmanager
    def watching(self, run_id: str) -> Iterator[Callable[[float], Awaitable[None]]]:
        """Yield a function that waits up to the given seconds for events of the run since the start of the block."""
        event = self._waiting.setdefault(run_id, asyncio.Event())
        self._waiters[run_id] += 1

        async def news(seconds: float) -> None:
            if self._released:
                return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()

        try:
            yield news
        finally:
            self._waiters[run_id] -= 1
            if not self._waiters[run_id]:
                del self._waiters[run_id]
                self._waiting.pop(run_id, None)

    def release(self) -> None:
        """End all waits at shutdown."""
        self._released = True
        for event in self._waiting.values():
            event.set()
