"""What the server says that a connection may do: who sets up the bus learns from it which publishers there are.

The server's configuration is rendered from the identities; no other list of publishers could say more, or go out of date less.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.jetstream.api import ApiReply, decoded
from gatewright.bus.jetstream.connection import ANSWER_SECONDS, Connection
from gatewright.bus.permissions import OWN_RIGHTS, created_uploads
from gatewright.errors import BusError


class _Publish(msgspec.Struct):
    allow: list[str] = msgspec.field(default_factory=list)


class _Permissions(msgspec.Struct):
    publish: _Publish = msgspec.field(default_factory=_Publish)


class _User(msgspec.Struct):
    permissions: _Permissions = msgspec.field(default_factory=_Permissions)


class _UserReply(ApiReply):
    data: _User = msgspec.field(default_factory=_User)


async def known_publishers(connection: Connection, patience: float) -> Sequence[str]:
    """The publishers whose streams this connection may make. Raises BusError.

    On a server without identities it is the one that needs no name.
    """
    if connection.credential is None:
        return (DEFAULT_PUBLISHER,)
    try:
        answer = await connection.patiently(lambda: connection.request(OWN_RIGHTS, b"", timeout=ANSWER_SECONDS), patience)
    except BusError as error:
        raise BusError(
            f"the NATS server does not say what {connection.credential.identity} may do: where its configuration is of an "
            "older version, render it anew (`gatewright topology --format nats-conf`) and have the server read it "
            f"({error.message})",
            code=error.reason,
        ) from error
    return created_uploads(decoded(answer.data, _UserReply, OWN_RIGHTS).data.permissions.publish.allow)
