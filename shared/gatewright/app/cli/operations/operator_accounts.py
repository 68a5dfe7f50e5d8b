"""Identities for servers in operator mode as the command line is asked for them: files, and servers that are given them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

from gatewright.app.cli.context import find_place
from gatewright.bus import identities, identity_changes
from gatewright.bus.identities import BusAddress
from gatewright.bus.operator_mode.files import (
    JwtIdentities,
    make_jwt,
    system_credential,
    token_of,
    trust_lines,
    write_jwt,
)
from gatewright.clock import SystemClock
from gatewright.errors import UnavailableError

CONFIG_FILE = "operator-mode.conf"
_CONFIRM_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class OperatorFiles:
    """``keys``: by default those of the home folder; ``resolver``: where the server keeps accounts, as it sees it."""

    keys: Path | None
    into: Path
    resolver: Path
    pools: tuple[str, ...]
    partitions: int
    self_signed: bool
    push: bool


def write_accounts(wanted: OperatorFiles) -> tuple[JwtIdentities, bool]:
    """What was made, and whether servers have it. Raises ConfigurationError, UnavailableError, BusError."""
    place = find_place()
    keys = wanted.keys or identities.bus_keys(place.home)
    now = int(SystemClock().now().timestamp())
    made = make_jwt(keys, wanted.pools, now, self_signed=wanted.self_signed, partitions=wanted.partitions)
    write_jwt(made, wanted.into)
    identities.write_private(wanted.into / CONFIG_FILE, "\n".join(trust_lines(made.trust, wanted.resolver)))
    if wanted.push:
        if place.bus is None:
            raise UnavailableError("no server to tell: set GATEWRIGHT_NATS_URL", code="no_stack")
        asyncio.run(_push(place.bus, keys, made, now))
    return made, wanted.push


async def _push(address: BusAddress, keys: Path, made: JwtIdentities, now: int) -> None:
    from gatewright.bus.jetstream.rights import differing
    from gatewright.bus.operator_mode.resolver import give_accounts

    await give_accounts(address, system_credential(keys, now), made)
    gone = identity_changes.to_be_refused(keys)
    # As if it had been signed before: a token of today would be refused for its date alone by a server that was not told.
    refused = [replace(each, token=token_of(keys, each, now - 1)) for each in gone.values()]
    wrong = await differing(address, made.users.values(), refused, _CONFIRM_SECONDS)
    if wrong:
        raise UnavailableError("; ".join(wrong), code="identities_unconfirmed")
    identity_changes.was_refused(gone)
