"""Decoder of ledger messages for all projections: each message is decoded once.

Authenticity is checked when the run itself is loaded, before anything is done.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

import msgspec

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from gatewright.contracts.progress import MemoryBounds
from gatewright.contracts.reports import PlayedTests
from gatewright.contracts.run_status import RunOutcome
from gatewright.errors import UnavailableError
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError
from gatewright.run.events import GateJudged, RunFinished

_PREFIX = run_subject("")
#: Seconds that a question waits for a newly started gatekeeper to read the ledger: it gets an answer in time.
READING = 8.0


class LedgerReading:
    """A projection that answers only when the ledger has been read."""

    def __init__(self) -> None:
        self._whole = asyncio.Event()

    def read_to_the_end(self) -> None:
        """Record that the ledger has been read up to now."""
        self._whole.set()

    async def complete(self) -> None:
        """Wait until the ledger has been read. Raises UnavailableError (``ledger_being_read``) after ``READING`` seconds."""
        try:
            async with asyncio.timeout(READING):
                await self._whole.wait()
        except TimeoutError:
            words = "the gatekeeper has just started and is still reading the ledger; ask again"
            raise UnavailableError(words, code="ledger_being_read") from None


class EntryEvent(msgspec.Struct, frozen=True, gc=False):
    """``payload`` is undecoded JSON."""

    event_type: str
    ts: str
    payload: msgspec.Raw


class AcceptedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """Publisher and repository of a run: the fields of ``run_accepted`` that projections read, and of its later remains.

    ``memory``: bounds of the run's memory of earlier runs; None without memory.
    """

    publisher: str = ""
    repository_url: str = ""
    repository_identity: str = ""
    memory: MemoryBounds | None = None

    @property
    def owner(self) -> str:
        """Name of the publisher."""
        return self.publisher or DEFAULT_PUBLISHER

    @property
    def repository(self) -> str:
        """Identity of the repository; its URL where the ledger has no identity."""
        return self.repository_identity or self.repository_url


class ExpiredRun(msgspec.Struct, frozen=True):
    """The fields of ``run_expired`` that projections read."""

    accepted: AcceptedRun
    state: Literal["S6", "FAILED", "ABORTED"]
    created_at: str


#: Decoders of the payloads of ``run_accepted`` and ``run_expired``.
ACCEPTED, EXPIRED = JsonReader(AcceptedRun), JsonReader(ExpiredRun)


class JudgedTests(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a verdict that projections read."""

    evaluated_at: str
    task_id: str | None = None
    played: tuple[PlayedTests, ...] = ()


_JUDGED = JsonReader(dict[str, JudgedTests])


def judged_tests(event: EntryEvent) -> JudgedTests | None:
    """Return the results by test of a verdict; None for any other event, and for a verdict without such results."""
    if event.event_type == GateJudged.event_type and b'"played"' in bytes(event.payload):
        with contextlib.suppress(UnreadableDocumentError):
            judged = _JUDGED.decode(event.payload).get("report")
            return judged if judged is not None and judged.played else None
    return None


class _Step(msgspec.Struct, frozen=True):
    number: int
    events: tuple[EntryEvent, ...]


class FinishedRun(msgspec.Struct, frozen=True):
    """The fields of ``run_finished`` that projections read."""

    status: RunOutcome


class LedgerEntry(msgspec.Struct, frozen=True, gc=False):
    """One transition of a run. ``stored_at``: when the bus stored it, in seconds since 1970."""

    run_id: str
    number: int
    events: tuple[EntryEvent, ...]
    stored_at: float = 0.0

    def has(self, event_type: str) -> bool:
        # Called several times per ledger entry: a generator would cost more than the loop.
        for event in self.events:  # noqa: SIM110
            if event.event_type == event_type:
                return True
        return False

    @property
    def outcome(self) -> RunOutcome | None:
        """The outcome of the run, if this entry ends it."""
        for event in self.events:
            if event.event_type == RunFinished.event_type:
                try:
                    return _FINISHED.decode(event.payload).status
                except UnreadableDocumentError:
                    return None
        return None


_STEP = JsonReader(_Step)
_FINISHED = JsonReader(FinishedRun)


def run_id_of(message: Message) -> str:
    """Return the run whose subject the message was sent to."""
    return message.subject.removeprefix(_PREFIX)


def read_entry(message: Message) -> LedgerEntry | None:
    """Decode the transition of a message; None when it is not a ledger entry."""
    try:
        step = _STEP.decode(message.data)
    except UnreadableDocumentError:
        return None
    return LedgerEntry(run_id_of(message), step.number, step.events, message.stored_at)
