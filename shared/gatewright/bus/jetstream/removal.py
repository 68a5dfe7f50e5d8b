"""What expiry lists and removes of the bus: entries of the ledger, artifacts, dead letters. JetStream only.

For the provisioner, the only identity that the server lets remove them; the gatekeeper reads. ``gatewright.app.retention``
decides what may go.
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
    """Run id -> messages under its subject, told by the server's index: no message is read. Raises BusError."""
    found: dict[str, int] = {}
    for runs in LedgerLayout(connection.address.partitions).stored(run_subject("*")):
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
    """Take away the messages of a run whose place in the ledger is before ``before``; returns how many there were.

    Doing it again takes nothing. Raises BusError.
    """
    layout = LedgerLayout(connection.address.partitions)
    (runs,) = layout.stored(run_subject(run_id))
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
    """When, and at which place of the stream, any identity last stored an artifact or said that it had."""

    at: datetime
    sequence: int


async def stored_artifacts(connection: Connection) -> frozenset[str]:
    """The names that artifacts have, digests as far as their writers were honest; told by the server's index. Raises BusError.

    What is stored or goes while it is read may be missing.
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
        raise BusError(f"the server does not tell when {name} was stored")
    return LastUse(found.time, found.seq)


async def remove_artifact(connection: Connection, name: str, through: int) -> int:
    """Take away all that lies under a name up to the place ``through``; returns how many messages there were.

    What was stored behind that place stays. Doing it again takes nothing. Raises BusError.
    """
    if through < 1:
        raise BusError(f"{through} is no place among the artifacts")  # the server would take all of them
    body = {"filter": _artifact_subject(name), "seq": through + 1}
    reply = await connection.api(PURGE_ARTIFACTS, body, StreamRemovalReply, timeout=_SECONDS)
    if not reply.success:
        raise BusError(f"the server has not taken the artifact {name} away")
    return reply.purged


def _artifact_subject(name: str) -> str:
    """All writers' pieces of an artifact. Raises BusError for a name that covers others' too."""
    if not name or any(char in name for char in ".*> \t\r\n"):
        raise BusError(f"{name!r} is no name of one artifact")
    return f"gw.artifact.*.{name}.*"


async def dead_letters(connection: Connection) -> AsyncGenerator[StoredMessage, None]:
    """Every letter and every decision about one, in the order of the stream. Raises BusError."""
    sequence = 0
    while (found := await _next_letter(connection, sequence + 1)) is not None:
        sequence = found.seq
        yield found


async def remove_letter(connection: Connection, sequence: int) -> None:
    """Take a letter or a decision away; it is no error when it is gone. Raises BusError."""
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
