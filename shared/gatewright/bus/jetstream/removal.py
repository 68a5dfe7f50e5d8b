"""Listing and removal of expired data on the bus: ledger entries, artifacts, dead letters. JetStream only.

Only the provisioner has the right to remove them; the gatekeeper reads. ``gatewright.app.retention`` decides what expires.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime

from gatewright.bus.jetstream.api import StreamInfoReply, StreamRemovalReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.storage import MessageReply, StoredMessage
from gatewright.bus.ledger_layout import LedgerLayout, StoredRuns
from gatewright.bus.permissions import DELETE_DEAD, GET_DEAD, PURGE_ARTIFACTS, purge_ledger
from gatewright.bus.topology import ARTIFACTS, dead_subject, run_subject
from gatewright.errors import BusError

_ALL_ARTIFACTS = ARTIFACTS.subjects[0]
#: Seconds that counting a large stream, or removing messages from it, may take.
_SECONDS = 60.0
_NO_MESSAGE = "jetstream_10037"


async def entries_by_run(connection: Connection) -> dict[str, int]:
    """Return the number of messages per run id, from the server's index, without reading messages. Raises BusError."""
    found: dict[str, int] = {}
    for runs in LedgerLayout(connection.address.partitions).stored_runs(run_subject("*")):
        found |= await _entries_of_partition(connection, runs)
    return found


async def _entries_of_partition(connection: Connection, runs: StoredRuns) -> dict[str, int]:
    found: dict[str, int] = {}
    while True:
        question = {"subjects_filter": runs.subject, "offset": len(found)}
        reply = await connection.api(f"STREAM.INFO.{runs.stream}", question, StreamInfoReply, timeout=_SECONDS)
        page = reply.state.subjects or {}
        found |= {subject.rpartition(".")[2]: count for subject, count in page.items()}
        if not page or len(found) >= reply.total:
            return found


async def remove_entries(connection: Connection, run_id: str, before: int) -> int:
    """Remove the messages of a run whose ledger position is before ``before``; return how many there were.

    Idempotent. Raises BusError.
    """
    layout = LedgerLayout(connection.address.partitions)
    (runs,) = layout.stored_runs(run_subject(run_id))
    sequence = layout.sequence(before)
    if sequence < 1 or layout.stream_at(before) != runs.stream:
        raise BusError(f"{before} is no place of {run_id} in the ledger")  # the server would take all of them
    body = {"filter": runs.subject, "seq": sequence}
    reply = await connection.api(purge_ledger(runs.stream), body, StreamRemovalReply, timeout=_SECONDS)
    if not reply.success:
        raise BusError(f"the server has not taken the entries of {run_id} out of the ledger")
    return reply.purged


@dataclass(frozen=True, slots=True)
class LastUse:
    """The time and stream sequence at which any identity last stored an artifact or recorded its use."""

    at: datetime
    sequence: int


async def stored_artifacts(connection: Connection) -> frozenset[str]:
    """Return the names of stored artifacts from the server's index. A dishonest writer's name may be no digest. Raises
    BusError.

    Artifacts that are added or removed during the call may be missing.
    """
    names: set[str] = set()
    seen = 0
    while True:
        question = {"subjects_filter": _ALL_ARTIFACTS, "offset": seen}
        reply = await connection.api(f"STREAM.INFO.{ARTIFACTS.name}", question, StreamInfoReply, timeout=_SECONDS)
        page = reply.state.subjects or {}
        names |= {subject.split(".")[3] for subject in page}
        seen += len(page)
        if not page or seen >= reply.total:
            return frozenset(names)


async def last_artifact_use(connection: Connection, name: str) -> LastUse | None:
    """The last message under a name, of any writer; None when there is none. Raises BusError."""
    try:
        reply = await connection.api(
            f"STREAM.MSG.GET.{ARTIFACTS.name}", {"last_by_subj": _artifact_subject(name)}, MessageReply
        )
    except BusError as error:
        if error.reason == _NO_MESSAGE:
            return None
        raise
    found = reply.message
    if found is None or found.time is None:
        raise BusError(f"the server does not report when {name} was stored")
    return LastUse(found.time, found.seq)


async def remove_artifact(connection: Connection, name: str, through: int) -> int:
    """Remove everything stored under a name up to the sequence ``through``; return how many messages there were.

    Later messages stay. Idempotent. Raises BusError.
    """
    if through < 1:
        raise BusError(f"{through} is no place among the artifacts")  # the server would take all of them
    body = {"filter": _artifact_subject(name), "seq": through + 1}
    reply = await connection.api(PURGE_ARTIFACTS, body, StreamRemovalReply, timeout=_SECONDS)
    if not reply.success:
        raise BusError(f"the server has not taken the artifact {name} away")
    return reply.purged


def _artifact_subject(name: str) -> str:
    """Return the pattern of all writers' pieces of an artifact. Raises BusError for a name that would match other artifacts."""
    if not name or any(char in name for char in ".*> \t\r\n"):
        raise BusError(f"{name!r} is no name of one artifact")
    return f"gw.artifact.*.{name}.*"


async def dead_letters(connection: Connection) -> AsyncGenerator[StoredMessage, None]:
    """Yield every dead letter and every decision about one, in stream order. Raises BusError."""
    sequence = 0
    while (found := await _next_letter(connection, sequence + 1)) is not None:
        sequence = found.seq
        yield found


async def remove_letter(connection: Connection, sequence: int) -> None:
    """Remove a dead letter or a decision; a missing one is no error. Raises BusError."""
    try:
        await connection.api(DELETE_DEAD, {"seq": sequence, "no_erase": True}, StreamRemovalReply)
    except BusError:
        after = await _next_letter(connection, sequence)
        if after is not None and after.seq == sequence:
            raise


async def _next_letter(connection: Connection, sequence: int) -> StoredMessage | None:
    question = {"seq": sequence, "next_by_subj": dead_subject(">")}
    try:
        return (await connection.api(GET_DEAD, question, MessageReply)).message
    except BusError as error:
        if error.reason == _NO_MESSAGE:
            return None
        raise
