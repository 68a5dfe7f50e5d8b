"""Pushing of accounts to running servers in operator mode: revocations and new identities take effect immediately."""

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
    """The reply of one server of a cluster, which forwards the account to the others."""

    data: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


async def give_accounts(address: BusAddress, system: Credential, made: JwtIdentities) -> int:
    """Push every account to the servers; return how many. ``system``: the credential for it. Raises BusError.

    Closed accounts come first, so that no revocation waits for an addition.
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
        raise BusError(f"the NATS server did not confirm an account: {error}", code="account_refused") from error
    finally:
        await connection.close()
    return len(names)
