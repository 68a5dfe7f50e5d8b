"""``doctor --cluster``: a whole installation, looked at over the bus as an operator or an observer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cluster.asking import ClusterLook, ask_cluster
from gatewright.app.stack import state
from gatewright.bus.identities import OBSERVER, OPERATOR, BusAddress, load
from gatewright.bus.jetstream.connection import Connection
from gatewright.errors import ConfigurationError, UnavailableError

_PATIENCE = 5.0


def look_at_cluster(pools: tuple[str, ...]) -> ClusterLook:
    """The bus that was named, else that of the home folder's stack. Raises UnavailableError, ConfigurationError."""
    return asyncio.run(see_cluster(find_place(), pools))


def for_observer(place: CommandContext, seed: Path | None) -> CommandContext:
    """The place as an observer sees it: with ``seed`` where a bus was named.

    Raises ConfigurationError (``identity_invalid``) for the seed of another identity.
    """
    if place.bus is None or seed is None:
        return place
    if (named := load(seed).identity) != OBSERVER:
        raise ConfigurationError(
            f"{seed} is the seed of {named}: queues and roles are seen by {OBSERVER}", code="identity_invalid"
        )
    return replace(place, bus=replace(place.bus, seed=seed))


async def see_cluster(place: CommandContext, pools: tuple[str, ...]) -> ClusterLook:
    """As ``look_at_cluster``, for a program that goes on."""
    address = place.bus
    if address is None:
        running = state.read(place.home)
        if running is None:
            raise UnavailableError("no stack runs here: set GATEWRIGHT_NATS_URL, or start one", code="no_stack")
        address = running.address(OPERATOR)
    return await _look(address, pools)


async def _look(address: BusAddress, pools: tuple[str, ...]) -> ClusterLook:
    connection = await Connection.open(address, name="doctor", patience=_PATIENCE)
    try:
        credential = connection.credential
        if credential is not None and credential.identity not in (OPERATOR, OBSERVER):
            raise ConfigurationError(
                f"an operator or an observer may look at it all, and this is {credential.identity}: "
                "set GATEWRIGHT_NATS_SEED to observer.nk",
                code="operator_needed",
            )
        return await ask_cluster(connection, pools)
    finally:
        await connection.close()
