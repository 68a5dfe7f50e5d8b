"""Decoder of ledger messages for all projections: each message is decoded once.

Authenticity is checked when the run itself is loaded, before anything is done.
"""

from __future__ import annotations

import msgspec

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from gatewright.contracts.progress import MemoryBounds
from gatewright.contracts.run_status import RunOutcome
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError
from gatewright.run.events import RunFinished

_PREFIX = run_subject("")


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


#: Decoder of the payload of ``run_accepted``.
ACCEPTED = JsonReader(AcceptedRun)


class _Step(msgspec.Struct, frozen=True):
    number: int
    events: tuple[EntryEvent, ...]


class _Finished(msgspec.Struct, frozen=True):
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
_FINISHED = JsonReader(_Finished)


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
