"""The rights of a connection as the server reports them, and tests of the credentials that servers accept.

The rights name the publishers of a system. A credential is tested by connecting with it.

The server's configuration is rendered from the identities; no separate list of publishers could go out of date.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence

import msgspec

from gatewright.bus.identities import DEFAULT_PUBLISHER, BusAddress, Credential, publisher_of
from gatewright.bus.jetstream.api import ApiReply, decode_reply
from gatewright.bus.jetstream.connection import ANSWER_SECONDS, REFUSED, Connection, api_subject
from gatewright.bus.permissions import OWN_RIGHTS, access_of, created_uploads
from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS
from gatewright.errors import BusError

_LOOK_AGAIN_SECONDS = 0.1


class _Publish(msgspec.Struct):
    allow: list[str] = msgspec.field(default_factory=list)


class _Permissions(msgspec.Struct):
    publish: _Publish = msgspec.field(default_factory=_Publish)


class _User(msgspec.Struct):
    permissions: _Permissions = msgspec.field(default_factory=_Permissions)


class _UserReply(ApiReply):
    data: _User = msgspec.field(default_factory=_User)


async def known_publishers(connection: Connection, patience: float) -> Sequence[str]:
    """Return the publishers whose streams this connection may create. Raises BusError.

    A server without identities has only the publisher without a name.
    """
    if connection.credential is None:
        return (DEFAULT_PUBLISHER,)
    try:
        answer = await connection.patiently(lambda: connection.request(OWN_RIGHTS, b"", timeout=ANSWER_SECONDS), patience)
    except BusError as error:
        raise BusError(
            f"the NATS server does not report what {connection.credential.identity} may do: if its configuration is of an "
            "older version, render it anew (`gatewright topology --format nats-conf`) and have the server read it "
            f"({error.message})",
            code=error.reason,
        ) from error
    return created_uploads(decode_reply(answer.data, _UserReply, OWN_RIGHTS).data.permissions.publish.allow)


async def accepts(address: BusAddress, credential: Credential) -> bool:
    """Raises BusError when the server cannot be reached."""
    try:
        connection = await Connection.open(BusAddress(address.url, ca=address.ca), name="identities", credential=credential)
    except BusError as error:
        if error.reason != REFUSED:
            raise
        return False
    await connection.close()
    return True


async def differing(
    address: BusAddress, accepted: Iterable[Credential], refused: Iterable[Credential], seconds: float
) -> tuple[str, ...]:
    """Return descriptions of how servers of an address deviate from the expected credentials, after at most ``seconds``.

    Each server of a list is tried by itself, because each has its own configuration. Raises BusError.
    """
    wanted = [(credential, True) for credential in accepted] + [(credential, False) for credential in refused]
    open_pairs = [(part.strip(), credential, should) for part in address.url.split(",") for credential, should in wanted]
    deadline = time.monotonic() + seconds
    while True:
        open_pairs = [
            (url, credential, should)
            for url, credential, should in open_pairs
            if await accepts(BusAddress(url, ca=address.ca), credential) is not should
        ]
        if not open_pairs or time.monotonic() >= deadline:
            return tuple(
                f"{url} {'refuses' if should else 'still accepts the revoked key of'} {credential.identity}"
                for url, credential, should in open_pairs
            )
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def cut_off(address: BusAddress, held: Iterable[Credential], seconds: float) -> tuple[str, ...]:
    """Return the identities that can connect but cannot use the bus, after at most ``seconds``. Raises BusError.

    The bus must be set up: a publisher is tried by a request for an upload that does not exist.
    """
    left = list(held)
    deadline = time.monotonic() + seconds
    while True:
        left = [credential for credential in left if not await _reaches(address, credential)]
        if not left or time.monotonic() >= deadline:
            return tuple(credential.identity for credential in left)
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


async def _reaches(address: BusAddress, credential: Credential) -> bool:
    call = _harmless(credential.identity)
    if call is None:
        return True
    first = BusAddress(address.url, ca=address.ca)
    connection = await Connection.open(first, name="identities", credential=credential)
    try:
        await connection.request(api_subject(call), b"", timeout=ANSWER_SECONDS)
    except BusError as error:
        if error.reason not in (NO_ANSWER, NO_RESPONDERS):
            raise
        return False
    finally:
        await connection.close()
    return True


def _harmless(identity: str) -> str | None:
    """Return a JetStream call that an identity may make and that changes nothing."""
    publisher = publisher_of(identity)
    calls = access_of(identity, publishers=(publisher,) if publisher else (DEFAULT_PUBLISHER,)).calls()
    looks = (call.replace(">", f"{'0' * 64}.0") for call in calls if ".INFO." in call or call.startswith("DIRECT.GET."))
    return next(looks, None)
