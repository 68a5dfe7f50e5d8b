"""Which runs there are, whose they are, and how they stand: a projection of the ledger for lists. Told what the ledger shows.

It also wakes those who wait for news of a run. It decides nothing, and whether an entry is genuine is for the part that
reads the run itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal

import msgspec

from gatewright.contracts.run_status import ListedRun, RunList, RunOutcome, RunsRequest
from gatewright.errors import UnavailableError
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError
from gatewright.run.events import RunAccepted, RunExpired
from gatewright.services.gatekeeper.projections.entries import ACCEPTED, AcceptedRun, EntryEvent, LedgerEntry


class _Expired(msgspec.Struct, frozen=True):
    accepted: AcceptedRun
    state: Literal["S6", "FAILED", "ABORTED"]
    created_at: str


_EXPIRED = JsonReader(_Expired)


class IndexedRun(msgspec.Struct, frozen=True, gc=False):
    """What a list says of a run."""

    publisher: str
    created_at: str
    status: RunOutcome = "RUNNING"


class RunIndex:
    """In the order in which the runs were accepted."""

    def __init__(self) -> None:
        self._runs: dict[str, IndexedRun] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        self._waiters: Counter[str] = Counter()
        self._released = False
        self._late = False
        self._whole = asyncio.Event()

    def saw(self, entry: LedgerEntry) -> None:
        """Take note of an entry of the ledger."""
        run_id = entry.run_id
        for event in entry.events:
            if event.event_type == RunAccepted.event_type and run_id not in self._runs:
                with contextlib.suppress(UnreadableDocumentError):
                    publisher = ACCEPTED.decode(event.payload).owner
                    # As many entries as there are runs in the ledger: no two of them hold the same name twice.
                    self._runs[run_id] = IndexedRun(sys.intern(publisher), event.ts)
            elif event.event_type == RunExpired.event_type and run_id not in self._runs:
                self._saw_remains(run_id, event)
        if (outcome := entry.outcome) is not None and (known := self._runs.get(run_id)) is not None:
            self._runs[run_id] = IndexedRun(known.publisher, known.created_at, outcome)
        if (news := self._waiting.pop(run_id, None)) is not None:
            news.set()

    def read_to_the_end(self) -> None:
        """The ledger has been read up to now."""
        if self._late:
            # What is left of a run that expired, and what is recalled, came after runs that were accepted later.
            self._runs = dict(sorted(self._runs.items(), key=lambda item: item[1].created_at))
            self._late = False
        self._whole.set()

    def recall(self, run_id: str, run: IndexedRun) -> None:
        """Take in a run that was settled before; they come in the order of that, before anything that the ledger shows."""
        if run_id not in self._runs:
            self._runs[run_id] = IndexedRun(sys.intern(run.publisher), run.created_at, run.status)
        self._late = True

    def known(self, run_id: str) -> IndexedRun | None:
        """What lists say of a run; None for one that they do not have."""
        return self._runs.get(run_id)

    def _saw_remains(self, run_id: str, event: EntryEvent) -> None:
        with contextlib.suppress(UnreadableDocumentError):
            told = _EXPIRED.decode(event.payload)
            publisher = told.accepted.owner
            status = told.state if told.state != "S6" else "SUCCESS"
            self._runs[run_id] = IndexedRun(sys.intern(publisher), told.created_at, status)
            self._late = True

    async def complete(self, seconds: float) -> None:
        """Until the ledger has been read. Raises UnavailableError (``ledger_being_read``) after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._whole.wait()
        except TimeoutError:
            words = "the gatekeeper has just started and is still reading the ledger; ask again"
            raise UnavailableError(words, code="ledger_being_read") from None

    def page(self, request: RunsRequest, visible: Callable[[str], bool]) -> RunList:
        """The newest runs of ``visible`` publishers; ``before``: those older than this one, none for an unknown one."""
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
        """Gives a call that waits so many seconds for news of the run, such as came since the block was entered."""
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
        """The process is told to leave: no question waits any longer."""
        self._released = True
        for event in self._waiting.values():
            event.set()
