"""How many runs a publisher has open, and began in the last day: counted from the ledger, so that all gatekeepers count alike.

It follows the ledger and reads two kinds of events of it. Only publishers are counted for whom the policy sets such a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from datetime import datetime, timedelta

import msgspec

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import run_subject
from gatewright.clock import Clock
from gatewright.errors import UnavailableError
from gatewright.ledger.events import RunAccepted, RunFinished
from gatewright.ledger.run import Run
from gatewright.telemetry.logs import Logger

DAY = timedelta(days=1)
#: Seconds that a submission waits for the count of a gatekeeper that has just started.
START = 10.0
_AGAIN = 1.0


class _Event(msgspec.Struct, frozen=True):
    event_type: str
    ts: str
    payload: msgspec.Raw


class _Step(msgspec.Struct, frozen=True):
    events: tuple[_Event, ...]


class _Accepted(msgspec.Struct, frozen=True):
    publisher: str = ""


_STEP = msgspec.json.Decoder(_Step)
_ACCEPTED = msgspec.json.Decoder(_Accepted)


class PublisherRuns:
    """Counts by publisher. What other gatekeepers begin is seen when the ledger tells of it, some milliseconds later."""

    def __init__(self, bus: Bus, clock: Clock, log: Logger, publishers: frozenset[str]) -> None:
        self._bus = bus
        self._publishers = publishers
        self._clock = clock
        self._log = log
        self._open: defaultdict[str, set[str]] = defaultdict(set)
        self._begun: defaultdict[str, dict[str, datetime]] = defaultdict(dict)
        self._owners: dict[str, str] = {}
        self._last = 0
        self._counted = asyncio.Event()

    async def follow(self) -> None:
        """Count, for ever, where there is anything to count. Cancel it to stop."""
        while self._publishers:
            try:
                for live in (False, True):
                    messages = self._bus.replay(run_subject("*"), follow=live, after=self._last)
                    async with contextlib.aclosing(messages):
                        async for message in messages:
                            self._see(message)
                    self._counted.set()
            except UnavailableError as error:
                self._log.warning("runs_not_counted", code=error.reason, cause=error.message)
                await asyncio.sleep(_AGAIN)

    async def counted(self) -> None:
        """Until the ledger has been read to its end. Raises UnavailableError when that takes too long."""
        try:
            await asyncio.wait_for(self._counted.wait(), START)
        except TimeoutError:
            raise UnavailableError("the runs of publishers are still being counted", code="unavailable") from None

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

    def _see(self, message: Message) -> None:
        self._last = max(self._last, message.sequence)
        run_id = message.subject.removeprefix(run_subject(""))
        try:
            for event in _STEP.decode(message.data).events:
                if event.event_type == RunAccepted.event_type and run_id not in self._owners:
                    publisher = _ACCEPTED.decode(event.payload).publisher or DEFAULT_PUBLISHER
                    if publisher in self._publishers:
                        self._begin(publisher, run_id, datetime.fromisoformat(event.ts))
                elif event.event_type == RunFinished.event_type:
                    self._end(run_id)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, TypeError):
            return  # not an entry of the ledger; who loads the run says so
