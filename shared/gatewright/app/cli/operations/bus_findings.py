"""What ``gatewright doctor`` reports about the bus: whether there is room for its streams, whether they take what they are
sent, whether several processes of a role are one to it, and what the processes lack.

For a bus that was named, its server is asked; for the embedded one, the volume of the home folder is looked at as the server
will when it starts. It changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gatewright.app.cli.context import CommandContext
from gatewright.app.cli.settings import load
from gatewright.app.stack import state
from gatewright.app.stack.store_watch import granted
from gatewright.bus.identities import DEFAULT_PUBLISHER, PUBLISHER, SEED_SUFFIX, BusAddress, bus_keys, publisher_of
from gatewright.bus.jetstream.offered import Offered, offered, reserved_bytes
from gatewright.bus.topology import STREAMS, publisher_streams
from gatewright.errors import BusError, ConfigurationError

if TYPE_CHECKING:
    from gatewright.bus.jetstream.processes import Process

_PATIENCE = 3.0


class UnfitError(Exception):
    """A finding of ``doctor``: something is not as a run needs it."""


def look(place: CommandContext) -> str:
    """What was found, in words. Raises UnfitError, BusError, ConfigurationError."""
    if place.bus is not None:
        found, shared = asyncio.run(_ask(place.bus))
        return _finding_words(found) + "".join(
            f"; {number} processes share the identity {identity}, and each can see and answer what the others are given: give "
            f"each a seed of its own (`gatewright keys bus --process {identity}-2`)"
            for identity, number in shared.items()
        )
    running = state.read(place.home)
    if running is not None and running.fault:
        raise UnfitError(f"the server of the stack that runs here stores nothing: {running.fault}")
    store = place.home / "nats"
    folder = next(each for each in (store, *store.parents) if each.is_dir())
    taken = _bytes_below(store / "jetstream")
    named = [publisher_of(path.stem) for path in bus_keys(place.home).glob(f"{PUBLISHER}-*{SEED_SUFFIX}")]
    publishers = (DEFAULT_PUBLISHER, *(name for name in named if name))
    return _fits(granted(folder, taken), f"{folder} gives its streams", publishers)


def look_at_processes(place: CommandContext) -> str:
    """What the processes of the system that runs report about themselves. Raises UnfitError, BusError, ConfigurationError."""
    address = place.bus
    if address is None:
        running = state.read(place.home)
        if running is None:
            return "no system runs here"
        address = running.address()
    processes = asyncio.run(_processes(address))
    if processes is None:
        return "the processes report to an operator only"
    lacking = [f"{each.role} {each.id}: {lacks}" for each in processes if (lacks := each.metadata.get("lacks"))]
    if lacking:
        raise UnfitError("; ".join(sorted(lacking)))
    return f"{len(processes)} processes report that they are ready" if processes else "no process of a role answers"


async def _processes(address: BusAddress) -> Sequence[Process] | None:
    """Those that answer; None for an identity that may not ask."""
    from gatewright.bus.jetstream.bus import JetStreamBus
    from gatewright.bus.jetstream.processes import ask_processes

    bus = await JetStreamBus.connect(address, name="doctor", patience=_PATIENCE)
    try:
        if bus.connection.guest:
            return None
        return await ask_processes(bus.connection)
    finally:
        await bus.close()


def _fits(room: int, giver: str, publishers: Sequence[str] = (DEFAULT_PUBLISHER,)) -> str:
    """Whether ``room`` bytes are enough for the streams. Raises UnfitError below the least."""
    streams = (*STREAMS, *(stream for publisher in publishers for stream in publisher_streams(publisher)))
    wanted, least = reserved_bytes([load().stream_settings.applied(stream) for stream in streams])
    if room < least:
        raise UnfitError(f"{giver} {_size(room)}; they need {_size(least)} at the least, and are meant to have {_size(wanted)}")
    smaller = (
        "" if room >= wanted else f", of the {_size(wanted)} that are meant: they are made smaller, and hold less that waits"
    )
    return f"{giver} {_size(room)}{smaller}"


def _finding_words(found: Offered | None) -> str:
    if found is None:
        return "the server answers; what its account may keep is told to an operator only"
    if found.limit is None:
        return f"the server answers, {_size(found.used)} are stored, its account has no limit"
    return _fits(found.limit, "the server's account gives its streams")


async def _ask(address: BusAddress) -> tuple[Offered | None, Mapping[str, int]]:
    # Imported late: the NATS client takes longer to import than all else here.
    from gatewright.bus.jetstream.bus import JetStreamBus
    from gatewright.bus.jetstream.processes import ask_processes, shared_identities

    bus = await JetStreamBus.connect(address, name="doctor", patience=_PATIENCE)
    try:
        return await offered(bus.connection), shared_identities(await ask_processes(bus.connection))
    except BusError as error:
        if not bus.connected:
            raise
        if error.reason.startswith("jetstream_"):
            raise ConfigurationError(error.message, code=error.reason) from error
        return None, {}
    finally:
        await bus.close()


def _bytes_below(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # a server at work removes what it has done with
                total += (Path(parent) / name).lstat().st_size
    return total


def _size(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count >> 20} MiB"
