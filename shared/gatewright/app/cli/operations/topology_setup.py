"""Sets up the bus as the identity that alone may change it: what is missing is made, what differs brought up to date."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.settings import load
from gatewright.app.stack.state import read
from gatewright.bus.identities import PROVISIONER, BusAddress
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.rights import known_publishers
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.jetstream.starting import repeat_until_answered
from gatewright.bus.topology import consumers
from gatewright.errors import UnavailableError

#: Seconds that one step may take, and for which the whole is tried.
_PATIENCE_SECONDS, _SET_UP_SECONDS = 15.0, 180.0


async def apply_topology(
    place: CommandContext, pools: tuple[str, ...], replicas: int | None, publishers: tuple[str, ...] = ()
) -> str:
    """Returns the URL of the bus that was set up, with streams for these publishers and all others that it knows.

    A server that does not answer is asked again for some minutes; each attempt is logged. Raises UnavailableError
    (``identities_unconfirmed``: it does not know one of them), ConfigurationError naming what cannot be changed.
    """
    address, settings = _provisioner(place), load().stream_settings

    async def set_up() -> Sequence[str]:
        bus = await JetStreamBus.connect(address, name="setup", patience=_PATIENCE_SECONDS)
        try:
            await ensure_topology(bus, queues=consumers(pools), replicas=replicas, settings=settings)
            return await known_publishers(bus.connection, _PATIENCE_SECONDS)
        finally:
            await bus.close()

    known = await repeat_until_answered(set_up, seconds=_SET_UP_SECONDS)
    missing = sorted(set(publishers) - set(known))
    if missing:
        raise UnavailableError(
            f"the server does not know the publisher {missing[0]}: it has not read its configuration anew",
            code="identities_unconfirmed",
        )
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
