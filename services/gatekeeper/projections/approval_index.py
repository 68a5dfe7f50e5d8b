"""Which runs have asked people: a projection of the ledger, so that the inbox is there after every start. It decides nothing.

It keeps run ids; what was asked and answered is read from the runs themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gatewright.run.events import ApprovalRequested, RunFinished
from gatewright.services.gatekeeper.projections.entries import LedgerEntry


@dataclass
class ApprovalIndex:
    """In the order in which the runs first asked. ``_open`` are those that have not ended."""

    _asked: dict[str, None] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    def saw(self, entry: LedgerEntry) -> None:
        """Take note of an entry of the ledger."""
        if entry.has(ApprovalRequested.event_type):
            self._asked.setdefault(entry.run_id)
            self._open.add(entry.run_id)
        if entry.has(RunFinished.event_type):
            self._open.discard(entry.run_id)

    def runs(self, *, open_only: bool) -> Iterable[str]:
        """The runs that have asked."""
        return tuple(run_id for run_id in self._asked if run_id in self._open or not open_only)
