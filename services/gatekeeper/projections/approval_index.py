"""Index of runs that have requested approval: a projection of the ledger, complete after every start. It decides nothing.

It stores run ids; requests and answers are read from the runs themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gatewright.run.events import ApprovalRequested, RunFinished
from gatewright.services.gatekeeper.projections.entries import LedgerEntry


@dataclass
class ApprovalIndex:
    """Runs in order of their first request. ``_open`` are those that have not ended."""

    _asked: dict[str, None] = field(default_factory=dict)
    _open: set[str] = field(default_factory=set)

    def saw(self, entry: LedgerEntry) -> None:
        """Apply a ledger entry."""
        if entry.has(ApprovalRequested.event_type):
            self._asked.setdefault(entry.run_id)
            self._open.add(entry.run_id)
        if entry.has(RunFinished.event_type):
            self._open.discard(entry.run_id)

    def runs(self, *, open_only: bool) -> Iterable[str]:
        """Return the runs that have requested approval."""
        return tuple(run_id for run_id in self._asked if run_id in self._open or not open_only)
