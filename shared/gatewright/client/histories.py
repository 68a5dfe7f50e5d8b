"""The source of a run's events for a client: the ledger itself, or the gatekeeper, which serves publishers their own runs.

Both return the same events. In both cases the client checks their hash chain.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

from gatewright.bus.port import Bus
from gatewright.bus.topology import run_subject
from gatewright.client.refusals import UNANSWERED, decode_answer
from gatewright.contracts import EventsRequest, OrchestratorEvent, RunEvents, codec
from gatewright.contracts.run_status import LONGEST_EVENTS_WAIT
from gatewright.errors import LimitError, MalformedError, UnavailableError
from gatewright.ledger import chain
from gatewright.ledger.entry_validation import End, next_link
from gatewright.run.events import RunExpired
from gatewright.run.state import GENESIS

#: Seconds that an answer of the gatekeeper may take beyond its own waiting.
_ANSWER = 10.0
#: Seconds between two questions where the answer to the first did not wait.
_PAUSE = 0.5


class EventHistory(Protocol):
    """Events of runs."""

    def events(self, run_id: str, *, follow: bool) -> AsyncGenerator[OrchestratorEvent, None]:
        """Yield the events so far; with ``follow`` also new ones, without end, and await a missing run.

        Raises VerificationError for a broken chain, MalformedError for missing or damaged entries, BusError.
        """


class LedgerHistory:
    """For identities that may read the ledger: operators, watchers, the gatekeeper."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def events(self, run_id: str, *, follow: bool) -> AsyncGenerator[OrchestratorEvent, None]:
        end = End()
        async with contextlib.aclosing(self._bus.replay(run_subject(run_id), follow=follow)) as messages:
            async for message in messages:
                if (transition := next_link(message, run_id, end)) is not None:
                    end = end.after(transition)
                    for event in transition.events:
                        yield event


class ServedHistory:
    """For publishers: polls ``gw.events`` when it follows."""

    def __init__(self, bus: Bus, subjects: Mapping[str, str]) -> None:
        self._bus = bus
        self._subject = subjects["events"]

    async def events(self, run_id: str, *, follow: bool) -> AsyncGenerator[OrchestratorEvent, None]:
        seq, head, more = 0, GENESIS, True
        while more:
            answer = await self._patiently(run_id, seq) if follow else await self._so_far(run_id, seq)
            if answer.events and answer.events[0].event_type == RunExpired.event_type and answer.events[0].seq > seq + 1:
                # The ledger has no earlier events left.
                seq, head = answer.events[0].seq - 1, answer.events[0].prev_hash
            seq, head = chain.check(answer.events, seq=seq, head=head)
            for event in answer.events:
                yield event
            more = answer.more and (follow or bool(answer.events))

    async def _so_far(self, run_id: str, after: int) -> RunEvents:
        try:
            return await self._request_events(run_id, after, wait=0)
        except MalformedError as error:
            if error.reason != "run_unknown":
                raise
            return RunEvents(run_id=run_id, events=(), more=False)

    async def _request_events(self, run_id: str, after: int, *, wait: int) -> RunEvents:
        request = codec.encode(EventsRequest(run_id=run_id, after=after, wait_seconds=wait))
        answer = await self._bus.request(self._subject, request, schema="events_request.v1", timeout=wait + _ANSWER)
        return decode_answer(answer, RunEvents)

    async def _patiently(self, run_id: str, after: int) -> RunEvents:
        """Return the next events, waiting for a missing run, a missing gatekeeper, or a rate limit."""
        while True:
            pause = _PAUSE
            try:
                answer = await self._request_events(run_id, after, wait=LONGEST_EVENTS_WAIT)
                if answer.events or not answer.more:
                    return answer
            except LimitError as error:
                pause = error.retry_after or _PAUSE
            except MalformedError as error:
                if error.reason != "run_unknown":
                    raise
            except UnavailableError as error:
                if error.reason not in UNANSWERED:
                    raise
            await asyncio.sleep(pause)
