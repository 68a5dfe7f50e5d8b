"""Reading the stream of dead letters as the provisioner, oldest first, and taking single letters out of it.

Alone the server lets it do so. Which letters may go is settled by ``gatewright.app.retention``. JetStream only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.storage import StoredMessage
from gatewright.bus.permissions import DELETE_DEAD, GET_DEAD
from gatewright.bus.topology import dead_subject
from gatewright.errors import BusError

_NO_MESSAGE = "jetstream_10037"


class _MessageReply(ApiReply):
    message: StoredMessage | None = None


class _DeleteReply(ApiReply):
    success: bool = False


async def letters(connection: Connection) -> AsyncGenerator[StoredMessage, None]:
    """Every letter and every decision about one, in the order of the stream. Raises BusError."""
    sequence = 0
    while (found := await _following(connection, sequence + 1)) is not None:
        sequence = found.seq
        yield found


async def let_letter_go(connection: Connection, sequence: int) -> None:
    """Take a letter or a decision away; it is no error when it is gone. Raises BusError."""
    try:
        await connection.api(DELETE_DEAD, {"seq": sequence, "no_erase": True}, _DeleteReply)
    except BusError:
        after = await _following(connection, sequence)
        if after is not None and after.seq == sequence:
            raise


async def _following(connection: Connection, sequence: int) -> StoredMessage | None:
    question = {"seq": sequence, "next_by_subj": dead_subject(">")}
    try:
        return (await connection.api(GET_DEAD, question, _MessageReply)).message
    except BusError as error:
        if error.reason == _NO_MESSAGE:
            return None
        raise
