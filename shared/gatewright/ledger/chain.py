"""Hash chain over a run's events: each contains the hash of the previous one.

``hash = sha256(canonical JSON of the event without its own hash)``; the first event's ``prev_hash`` is 64 zeros.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime

import msgspec

from gatewright.clock import timestamp
from gatewright.contracts import codec
from gatewright.contracts.records import OrchestratorEvent
from gatewright.errors import VerificationError
from gatewright.run.events import LabelledEvent, plain
from gatewright.run.state import GENESIS


def digest(record: OrchestratorEvent) -> str:
    """Return the hash that ``record`` must have."""
    return hashlib.sha256(codec.encode(msgspec.structs.replace(record, hash=""))).hexdigest()


def link(
    events: Iterable[LabelledEvent], *, run_id: str, trace_id: str, seq: int, head: str, now: datetime
) -> tuple[OrchestratorEvent, ...]:
    """Return events with their position in the chain, after event number ``seq`` with hash ``head``."""
    records = []
    for event in events:
        seq += 1
        record = OrchestratorEvent(
            ts=timestamp(now),
            level=event.level,
            event_type=event.event.event_type,
            run_id=run_id,
            task_id=event.task_id,
            attempt=event.attempt,
            payload=plain(event.event),
            trace_id=trace_id,
            seq=seq,
            prev_hash=head,
            role=event.role,
        )
        head = digest(record)
        records.append(msgspec.structs.replace(record, hash=head))
    return tuple(records)


def check(records: Iterable[OrchestratorEvent], *, seq: int = 0, head: str = GENESIS) -> tuple[int, str]:
    """Check a chain that starts after event ``seq`` with hash ``head``.

    Returns:
        The last number and hash.

    Raises:
        VerificationError: an event is missing, out of order or altered.
    """
    for record in records:
        seq += 1
        if record.seq != seq:
            raise VerificationError(f"event {seq} expected, found {record.seq}", code="chain_order")
        if record.prev_hash != head:
            raise VerificationError(f"event {seq} does not follow the one before it", code="chain_broken")
        if record.hash != digest(record):
            raise VerificationError(f"event {seq} was altered", code="chain_digest")
        head = record.hash
    return seq, head
