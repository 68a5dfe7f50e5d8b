"""Gives servers in operator mode their accounts while they run: what was revoked is refused at once, what is new accepted."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from gatewright.bus.identities import BusAddress, Credential
from gatewright.bus.jetstream.connection import ANSWER_SECONDS, Connection
from gatewright.bus.jetstream.starting import repeat_until_answered
from gatewright.bus.operator_mode.files import JwtIdentities
from gatewright.errors import BusError
from gatewright.foreign_documents import UnreadableDocumentError, read_json

_UPDATE = "$SYS.REQ.CLAIMS.UPDATE"


class _Outcome(msgspec.Struct):
    """What one server of a cluster says; the others are told by it."""

    data: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


async def give_accounts(address: BusAddress, system: Credential, made: JwtIdentities) -> int:
    """Give the servers every account that was made; returns how many. ``system``: who may. Raises BusError.

    Those that are closed come first: nothing that was revoked waits for what is added.
    """
    server = BusAddress(address.url, ca=address.ca)
    connection = await repeat_until_answered(lambda: Connection.open(server, name="accounts", credential=system))
    names = sorted(made.accounts, key=lambda name: (name not in made.closed, name))
    try:
        for name in names:
            claims = made.accounts[name].encode("ascii")
            ask = partial(connection.request, _UPDATE, claims, timeout=ANSWER_SECONDS)
            answer = await repeat_until_answered(ask)
            outcome = read_json(answer.data, _Outcome)
            if outcome.error is not None:
                words = outcome.error.get("description", "")
                raise BusError(f"the NATS server refuses the account {name}: {words}", code="account_refused")
    except UnreadableDocumentError as error:
        raise BusError(f"the NATS server does not say what became of an account: {error}", code="account_refused") from error
    finally:
        await connection.close()
    return len(names)
