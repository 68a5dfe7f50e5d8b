"""How many runs a publisher has open, and began in the last day: counted from the ledger, so that all gatekeepers count alike.

It is told what the ledger shows. Only publishers are counted for whom the policy sets a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from datetime import datetime, timedelta

import msgspec

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.clock import Clock
from gatewright.errors import UnavailableError
from gatewright.ledger.events import RunAccepted, RunFinished
from gatewright.ledger.run import Run
from gatewright.services.gatekeeper.projections.entries import LedgerEntry

DAY = timedelta(days=1)
#: Seconds that a submission waits for the count of a gatekeeper that has just started: the asker is to hear of it.
START = 8.0


class _Accepted(msgspec.Struct, frozen=True):
    publisher: str = ""


_ACCEPTED = msgspec.json.Decoder(_Accepted)


class PublisherRuns:
    """Counts by publisher. What other gatekeepers begin is seen when the ledger tells of it, some milliseconds later."""

    def __init__(self, clock: Clock, publishers: frozenset[str]) -> None:
        self._publishers = publishers
        self._clock = clock
        self._open: defaultdict[str, set[str]] = defaultdict(set)
        self._begun: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        self._owners: dict[str, str] = {}
        self._counted = asyncio.Event()

    def saw(self, entry: LedgerEntry) -> None:
        """Take note of an entry of the ledger."""
        if not self._publishers:
            return
        for event in entry.events:
            if event.event_type == RunAccepted.event_type and entry.run_id not in self._owners:
                with contextlib.suppress(msgspec.MsgspecError, RecursionError, ValueError):
                    publisher = _ACCEPTED.decode(event.payload).publisher or DEFAULT_PUBLISHER
                    if publisher in self._publishers:
                        self._begin(publisher, entry.run_id, datetime.fromisoformat(event.ts))
            elif event.event_type == RunFinished.event_type:
                self._end(entry.run_id)

    def read_to_the_end(self) -> None:
        """The ledger has been read up to now."""
        self._counted.set()

    async def counted(self) -> None:
        """Until the ledger has been read. Raises UnavailableError (``ledger_being_read``) when that takes too long."""
        try:
            async with asyncio.timeout(START):
                await self._counted.wait()
        except TimeoutError:
            words = "the gatekeeper has just started, and the runs of publishers are still being counted; ask again"
            raise UnavailableError(words, code="ledger_being_read") from None

    def note(self, run: Run) -> None:
        """A run that this gatekeeper has just begun; the ledger tells of it soon."""
        publisher, when = run.publisher, datetime.fromisoformat(run.created_at)
        known = run.run_id in self._begun[publisher] or when <= self._clock.now() - DAY
        if publisher in self._publishers and not known:
            self._begin(publisher, run.run_id, when)
            if run.ended:
                self._end(run.run_id)

    def open(self, publisher: str) -> frozenset[str]:
        return frozenset(self._open[publisher])

    def begun(self, publisher: str) -> dict[str, datetime]:
        """The runs of the last 24 hours and when each began, the oldest first."""
        begun, limit = self._begun[publisher], self._clock.now() - DAY
        for run_id in [run_id for run_id, when in begun.items() if when <= limit]:
            del begun[run_id]
        return dict(sorted(begun.items(), key=lambda item: item[1]))

    def _begin(self, publisher: str, run_id: str, when: datetime) -> None:
        self._owners[run_id] = publisher
        self._open[publisher].add(run_id)
        if when > self._clock.now() - DAY:
            self._begun[publisher][run_id] = when

    def _end(self, run_id: str) -> None:
        if (owner := self._owners.pop(run_id, None)) is not None:
            self._open[owner].discard(run_id)
