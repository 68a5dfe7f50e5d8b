"""How many entries the ledger holds of each run, and taking away those that an expired run needs no longer.

For the provisioner, whom alone the server lets do so. It decides nothing about runs. JetStream only.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.ledger_layout import LedgerLayout, StoredRuns
from gatewright.bus.permissions import purge_ledger
from gatewright.bus.topology import run_subject
from gatewright.errors import BusError

#: Seconds that counting a large ledger, or taking out of it, may take.
_SECONDS = 60.0


class _State(msgspec.Struct):
    subjects: Mapping[str, int] | None = None


class _InfoReply(ApiReply):
    state: _State = msgspec.field(default_factory=_State)
    total: int = 0


class _PurgeReply(ApiReply):
    success: bool = False
    purged: int = 0


async def entries_by_run(connection: Connection) -> dict[str, int]:
    """Run id -> messages under its subject, told by the server's index: no message is read. Raises BusError."""
    found: dict[str, int] = {}
    for runs in LedgerLayout(connection.address.partitions).stored(run_subject("*")):
        found |= await _entries(connection, runs)
    return found


async def _entries(connection: Connection, runs: StoredRuns) -> dict[str, int]:
    found: dict[str, int] = {}
    while True:
        question = {"subjects_filter": runs.subject, "offset": len(found)}
        reply = await connection.api(f"STREAM.INFO.{runs.stream}", question, _InfoReply, timeout=_SECONDS)
        page = reply.state.subjects or {}
        found |= {subject.rpartition(".")[2]: count for subject, count in page.items()}
        if not page or len(found) >= reply.total:
            return found


async def let_go(connection: Connection, run_id: str, before: int) -> int:
    """Take away the messages of a run whose place in the ledger is before ``before``; returns how many there were.

    Doing it again takes nothing. Raises BusError.
    """
    layout = LedgerLayout(connection.address.partitions)
    (runs,) = layout.stored(run_subject(run_id))
    sequence = layout.sequence(before)
    if sequence < 1 or layout.stream_at(before) != runs.stream:
        raise BusError(f"{before} is no place of {run_id} in the ledger")  # the server would take all of them
    body = {"filter": runs.subject, "seq": sequence}
    reply = await connection.api(purge_ledger(runs.stream), body, _PurgeReply, timeout=_SECONDS)
    if not reply.success:
        raise BusError(f"the server has not taken the entries of {run_id} out of the ledger")
    return reply.purged
