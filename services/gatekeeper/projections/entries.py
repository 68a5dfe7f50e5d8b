"""What is read of a message of the ledger by those who follow all runs: read once, and told to each of them.

Whether an entry is genuine is looked at by whatever reads the run itself, before anything is done.
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
    """``payload`` is JSON that nothing has read yet."""

    event_type: str
    ts: str
    payload: msgspec.Raw


class AcceptedRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose a run is, and on which repository: what projections read of ``run_accepted``, and of what is left of it later.

    ``memory``: how much of earlier runs it is told; none where it is told nothing.
    """

    publisher: str = ""
    repository_url: str = ""
    repository_identity: str = ""
    memory: MemoryBounds | None = None

    @property
    def owner(self) -> str:
        """The publisher, by name."""
        return self.publisher or DEFAULT_PUBLISHER

    @property
    def repository(self) -> str:
        """The identity of the repository; its address where the ledger has none."""
        return self.repository_identity or self.repository_url


#: Reads the payload of ``run_accepted``.
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
        # Asked several times of every entry of the ledger: a generator would take longer than what it looks at.
        for event in self.events:  # noqa: SIM110
            if event.event_type == event_type:
                return True
        return False

    @property
    def outcome(self) -> RunOutcome | None:
        """How the run ended, if this is where it did."""
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
    """The run to whose subject a message was sent."""
    return message.subject.removeprefix(_PREFIX)


def read_entry(message: Message) -> LedgerEntry | None:
    """The transition that a message holds; None for what is no entry of the ledger."""
    try:
        step = _STEP.decode(message.data)
    except UnreadableDocumentError:
        return None
    return LedgerEntry(run_id_of(message), step.number, step.events, message.stored_at)
