"""Entries of the ledger, as those who follow all runs are told them."""

from __future__ import annotations

from gatewright.bus.port import Message
from gatewright.bus.topology import run_subject
from gatewright.contracts import Transition, codec
from gatewright.services.gatekeeper.projections.entries import LedgerEntry, read_entry


def make_entry(transition: Transition | bytes, run_id: str = "") -> LedgerEntry:
    """The entry of a transition, which went through the bus."""
    data = transition if isinstance(transition, bytes) else codec.encode(transition)
    named = run_id or (transition.run_id if isinstance(transition, Transition) else "")
    entry = read_entry(Message(run_subject(named), data))
    assert entry is not None
    return entry
