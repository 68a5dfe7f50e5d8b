"""Sets up the bus as the identity that alone may change it: what is missing is made, what differs brought up to date."""

from __future__ import annotations

from gatewright.app.cli.context import CommandContext
from gatewright.app.stack.state import read
from gatewright.bus.identities import PROVISIONER, BusAddress
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.topology import consumers
from gatewright.errors import UnavailableError


async def apply_topology(place: CommandContext, pools: tuple[str, ...], replicas: int | None) -> str:
    """Returns the URL of the bus that was set up. Raises UnavailableError, ConfigurationError naming what cannot be changed."""
    address = _provisioner(place)
    await ensure_topology(address, queues=consumers(pools), replicas=replicas)
    return address.url


def _provisioner(place: CommandContext) -> BusAddress:
    """The bus that was named, with the identity that was; else that of the stack of the home folder."""
    if place.bus is not None:
        return place.bus
    state = read(place.home)
    if state is None:
        raise UnavailableError(
            "no bus to set up: set GATEWRIGHT_NATS_URL, and GATEWRIGHT_NATS_SEED to the file provisioner.nk", code="no_stack"
        )
    return state.address(PROVISIONER)
