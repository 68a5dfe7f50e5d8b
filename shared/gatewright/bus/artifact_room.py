"""Which artifacts the stream holds, when each was last stored, and taking away those that nothing refers to.

For the provisioner, whom alone the server lets take them away; the gatekeeper reads. It decides nothing. JetStream only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.storage import StoredMessage
from gatewright.bus.permissions import PURGE_ARTIFACTS
from gatewright.bus.topology import ARTIFACTS
from gatewright.errors import BusError

_ALL = ARTIFACTS.subjects[0]
#: Seconds that counting a large stream, or taking out of it, may take.
_SECONDS = 60.0
_NO_MESSAGE = "jetstream_10037"


class _State(msgspec.Struct):
    subjects: Mapping[str, int] | None = None


class _InfoReply(ApiReply):
    state: _State = msgspec.field(default_factory=_State)
    total: int = 0


class _MessageReply(ApiReply):
    message: StoredMessage | None = None


class _PurgeReply(ApiReply):
    success: bool = False
    purged: int = 0


@dataclass(frozen=True, slots=True)
class LastUse:
    """When, and at which place of the stream, any identity last stored an artifact or said that it had."""

    at: datetime
    sequence: int


async def stored_names(connection: Connection) -> frozenset[str]:
    """The names that artifacts have, digests as far as their writers were honest; told by the server's index. Raises BusError.

    What is stored or goes while it is read may be missing.
    """
    names: set[str] = set()
    seen = 0
    while True:
        question = {"subjects_filter": _ALL, "offset": seen}
        reply = await connection.api(f"STREAM.INFO.{ARTIFACTS.name}", question, _InfoReply, timeout=_SECONDS)
        page = reply.state.subjects or {}
        names |= {subject.split(".")[3] for subject in page}
        seen += len(page)
        if not page or seen >= reply.total:
            return frozenset(names)


async def last_use(connection: Connection, name: str) -> LastUse | None:
    """The last message under a name, of any writer; None when there is none. Raises BusError."""
    try:
        reply = await connection.api(f"STREAM.MSG.GET.{ARTIFACTS.name}", {"last_by_subj": _under(name)}, _MessageReply)
    except BusError as error:
        if error.reason == _NO_MESSAGE:
            return None
        raise
    found = reply.message
    if found is None or found.time is None:
        raise BusError(f"the server does not tell when {name} was stored")
    return LastUse(found.time, found.seq)


async def let_artifact_go(connection: Connection, name: str, through: int) -> int:
    """Take away all that lies under a name up to the place ``through``; returns how many messages there were.

    What was stored behind that place stays. Doing it again takes nothing. Raises BusError.
    """
    if through < 1:
        raise BusError(f"{through} is no place among the artifacts")  # the server would take all of them
    body = {"filter": _under(name), "seq": through + 1}
    reply = await connection.api(PURGE_ARTIFACTS, body, _PurgeReply, timeout=_SECONDS)
    if not reply.success:
        raise BusError(f"the server has not taken the artifact {name} away")
    return reply.purged


def _under(name: str) -> str:
    """All writers' pieces of an artifact. Raises BusError for a name that covers others' too."""
    if not name or any(char in name for char in ".*> \t\r\n"):
        raise BusError(f"{name!r} is no name of one artifact")
    return f"gw.artifact.*.{name}.*"
