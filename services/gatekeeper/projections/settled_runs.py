"""Compact entries of sealed runs: the projections keep one short entry instead of all messages of a run.

It has the format of a ledger entry, with payloads reduced to the fields that projections decode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from gatewright.foreign_documents import JsonReader, UnreadableDocumentError
from gatewright.run.events import ApprovalRequested, BundleSealed, RunAccepted, RunExpired, RunFinished
from gatewright.services.gatekeeper.projections.entries import (
    ACCEPTED,
    AcceptedRun,
    EntryEvent,
    ExpiredRun,
    FinishedRun,
    LedgerEntry,
    judged_tests,
)


class _Sealed(msgspec.Struct, frozen=True, omit_defaults=True):
    memory: msgspec.Raw = msgspec.Raw(b"null")


def _cut_to(shape: type[msgspec.Struct]) -> Callable[[msgspec.Raw], msgspec.Raw]:
    decoder = JsonReader(shape)

    def cut(payload: msgspec.Raw) -> msgspec.Raw:
        return msgspec.Raw(msgspec.json.encode(decoder.decode(payload)))

    return cut


_NOTHING = msgspec.Raw(b"null")
#: Kept payload of each kept event. Of an approval request, only its existence is kept.
_KEPT: dict[str, Callable[[msgspec.Raw], msgspec.Raw]] = {
    RunAccepted.event_type: _cut_to(AcceptedRun),
    RunFinished.event_type: _cut_to(FinishedRun),
    BundleSealed.event_type: _cut_to(_Sealed),
    RunExpired.event_type: _cut_to(ExpiredRun),
    ApprovalRequested.event_type: lambda _payload: _NOTHING,
}


@dataclass(slots=True)
class _Begun:
    number: int = 0
    stored_at: float = 0.0
    events: list[EntryEvent] = field(default_factory=list)
    over: bool = False


class SettlingRuns:
    """Unsettled runs, with the data to keep of each. One per process."""

    def __init__(self) -> None:
        self._runs: dict[str, _Begun] = {}

    @property
    def open(self) -> tuple[str, ...]:
        """Runs whose messages must be read again after a start."""
        return tuple(self._runs)

    def saw(self, entry: LedgerEntry, *, settled: bool) -> LedgerEntry | None:
        """Apply a ledger entry.

        Returns:
            The compact entry when the run is ``settled``, with the time and number of the entry that ended the run.
        """
        begun = self._runs.setdefault(entry.run_id, _Begun())
        if not begun.over:
            begun.number, begun.stored_at = entry.number, entry.stored_at
            begun.over = entry.has(RunFinished.event_type)
        begun.events += filter(None, map(_kept_event, entry.events))
        if not settled:
            return None
        del self._runs[entry.run_id]
        return LedgerEntry(entry.run_id, begun.number, tuple(begun.events), begun.stored_at)


def lasts(entry: LedgerEntry) -> bool:
    """Return whether projections other than lists need a settled run: it requested approval, has memory, or has expired."""
    return (
        entry.has(ApprovalRequested.event_type)
        or entry.has(RunExpired.event_type)
        or any(_is_remembered(event) for event in entry.events if event.event_type == RunAccepted.event_type)
    )


def _is_remembered(accepted: EntryEvent) -> bool:
    try:
        return ACCEPTED.decode(accepted.payload).memory is not None
    except UnreadableDocumentError:
        return True  # unknown, so keep it


def _kept_event(event: EntryEvent) -> EntryEvent | None:
    if (judged := judged_tests(event)) is not None:
        return EntryEvent(event.event_type, event.ts, msgspec.Raw(msgspec.json.encode({"report": judged})))
    if event.event_type not in _KEPT:
        return None
    try:
        payload = _KEPT[event.event_type](event.payload)
    except UnreadableDocumentError:
        payload = _NOTHING  # a payload that no projection can read now stays unreadable
    return EntryEvent(event.event_type, event.ts, payload)
