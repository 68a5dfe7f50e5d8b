"""Memory of sealed runs for later ones: a projection of the ledger, by repository and publisher. It decides nothing.

The event of the seal contains a run's entry, so only that event is read. The newest entries of each publisher on each
repository are kept. Runs that expired from the ledger are forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatewright.contracts.progress import MemoryEntry
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError
from gatewright.order_artifacts.canonical_memory import newest
from gatewright.run.events import BundleSealed, RunAccepted, RunExpired
from gatewright.run.state import Run
from gatewright.services.gatekeeper.projections.entries import ACCEPTED, EXPIRED, AcceptedRun, LedgerEntry, LedgerReading


class _Sealed(msgspec.Struct, frozen=True):
    memory: MemoryEntry | None = None


_SEALED = JsonReader(_Sealed)


class MemoryIndex(LedgerReading):
    """At most ``most`` entries of each publisher on each repository. ``_open``: runs that are not sealed yet."""

    def __init__(self, most: int = 32) -> None:
        super().__init__()
        self.most = most
        self._entries: dict[tuple[str, str], tuple[MemoryEntry, ...]] = {}
        self._open: dict[str, tuple[str, str]] = {}

    def saw(self, entry: LedgerEntry) -> None:
        """Apply a ledger entry; ignore other messages."""
        for event in entry.events:
            try:
                if event.event_type == RunAccepted.event_type:
                    accepted = ACCEPTED.decode(event.payload)
                    if accepted.memory is not None:
                        self._open.setdefault(entry.run_id, _memory_key(accepted))
                elif event.event_type == BundleSealed.event_type:
                    self._note_sealed(entry.run_id, _SEALED.decode(event.payload).memory)
                elif event.event_type == RunExpired.event_type:
                    self._forget(entry.run_id, _memory_key(EXPIRED.decode(event.payload).accepted))
            except UnreadableDocumentError:
                continue  # loading the run reports it

    def note(self, run: Run) -> None:
        """Add a run that this gatekeeper has just sealed, before its ledger message arrives."""
        if run.accepted.memory is not None and run.sealed is not None:
            self._open.setdefault(run.run_id, (run.accepted.repository_key, run.publisher))
            self._note_sealed(run.run_id, run.sealed.memory)

    async def entries(self, repository_key: str, publisher: str) -> Sequence[MemoryEntry]:
        """Return the known entries, the newest last.

        Raises:
            UnavailableError: the ledger is still being read (``ledger_being_read``).
        """
        await self.complete()
        return self._entries.get((repository_key, publisher), ())

    def _note_sealed(self, run_id: str, memory: MemoryEntry | None) -> None:
        place = self._open.pop(run_id, None)
        if place is not None and memory is not None and memory.run_id == run_id:
            self._entries[place] = newest([*self._entries.get(place, ()), memory], self.most)

    def _forget(self, run_id: str, place: tuple[str, str]) -> None:
        self._open.pop(run_id, None)
        left = tuple(entry for entry in self._entries.get(place, ()) if entry.run_id != run_id)
        if left:
            self._entries[place] = left
        else:
            self._entries.pop(place, None)


def _memory_key(accepted: AcceptedRun) -> tuple[str, str]:
    """Return the key of a run's memory."""
    return accepted.repository, accepted.owner
