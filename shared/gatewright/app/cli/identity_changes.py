"""Changes of identities while servers run: files, the servers' configuration, the reload signal, and the confirmation.

A server on another host cannot be signalled from here. Its operator receives instructions, and requests the confirmation later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from gatewright.app.cli.context import find_place
from gatewright.app.cli.settings import load
from gatewright.app.stack import state
from gatewright.app.stack.nats_server import CONFIG_FILE
from gatewright.bus import identities, identity_changes, identity_limits
from gatewright.bus.identities import PROVISIONER, BusAddress, publisher_of
from gatewright.bus.server_config import with_identities
from gatewright.errors import ConfigurationError, DeniedError, LimitError, MalformedError, UnavailableError

#: Maximum seconds until servers apply a reload signal.
_CONFIRM_SECONDS = 30.0
#: The same if they were signalled earlier.
CHECK_SECONDS = 2.0
#: Seconds between two reload signals to a server that cannot be asked.
_BETWEEN_SECONDS = 1.0
_SERVER = "nats-server"
#: Whether the gatekeeper knows a publisher; ``unanswered``: no gatekeeper answers.
PublisherStanding = Literal["known", "unknown", "unanswered"]


@dataclass(frozen=True, slots=True)
class Servers:
    """Servers of a change. ``files``: configurations to update. ``pid``: process of the server that reads them, on this host.

    ``address``: where to check which keys the servers accept; None for no check.
    """

    keys: Path
    files: tuple[Path, ...]
    pid: int | None
    address: BusAddress | None


@dataclass(frozen=True, slots=True)
class IdentityOutcome:
    """The outcome. ``written``: configurations. ``signalled``: a server was signalled. ``confirmed``: every server complies."""

    written: tuple[Path, ...]
    signalled: bool
    confirmed: bool


def find_servers(keys: Path | None, files: tuple[Path, ...], pid: Path | None) -> Servers:
    """Return the servers that were named, or else the running embedded server. Raises ConfigurationError, MalformedError."""
    place = find_place()
    running = state.read(place.home) if keys is None and not files and place.bus is None else None
    if running is None:
        folder = keys or identities.bus_keys(place.home)
        return Servers(folder, files, None if pid is None else _read_pid(pid), place.bus)
    server = next((member.pid for member in running.members if member.name == _SERVER), None)
    file = place.home / "nats" / CONFIG_FILE
    return Servers(Path(running.keys), (file,), server, BusAddress(running.url, partitions=running.ledger_partitions))


def change_identities(servers: Servers, act: Callable[[Path], None]) -> IdentityOutcome:
    """Change the files and have the servers apply them. Raises ConfigurationError, MalformedError, UnavailableError.

    Nothing is changed if a configuration could not be updated.
    """
    for file in servers.files:
        _render_file(file, servers.keys)
    act(servers.keys)
    return apply_changes(servers)


def apply_changes(servers: Servers) -> IdentityOutcome:
    """Write the configurations, signal the server and confirm the result. Raises as ``change_identities``."""
    for file in servers.files:
        _replace_file(file, _render_file(file, servers.keys))
    if servers.pid is None:
        return IdentityOutcome(servers.files, signalled=False, confirmed=False)
    _signal_server(servers.pid)
    if servers.address is None:
        time.sleep(_BETWEEN_SECONDS)
    else:
        confirm_identities(servers)
    # A new account reaches nothing of the bus until the server has read the configuration a second time. Until then, its
    # imports refer to an account that the server made for its comparison and discarded.
    _signal_server(servers.pid)
    if servers.address is None:
        return IdentityOutcome(servers.files, signalled=True, confirmed=False)
    _set_up_streams(servers)
    _check_reach(servers)
    return IdentityOutcome(servers.files, signalled=True, confirmed=True)


def publisher_standings(servers: Servers, names: Iterable[str]) -> dict[str, PublisherStanding]:
    """Return whether the gatekeeper knows the publishers among the identities ``names``; empty if no server can be asked.

    A server that accepts a publisher is not enough: the gatekeeper refuses one that ``publishers.json`` does not list.
    """
    publishers = {name: publisher for name in names if (publisher := publisher_of(name))}
    address = servers.address
    if address is None:
        return {}
    return {
        publisher: asyncio.run(_ask_standing(replace(address, seed=identities.seed_file(servers.keys, name)), publisher))
        for name, publisher in publishers.items()
    }


async def _ask_standing(address: BusAddress, publisher: str) -> PublisherStanding:
    # Imported late: few of these commands need the client.
    from gatewright.bus.jetstream.bus import JetStreamBus
    from gatewright.client.client import Client

    try:
        bus = await JetStreamBus.connect(address, name="identities", patience=CHECK_SECONDS)
    except UnavailableError:
        return "unanswered"
    try:
        await Client(bus, publisher=publisher, reads_ledger=False).list_runs(limit=1)
    except DeniedError as error:
        if error.reason != "publisher_unknown":
            raise
        return "unknown"
    except LimitError:
        return "known"
    except UnavailableError:
        return "unanswered"
    else:
        return "known"
    finally:
        await bus.close()


def _signal_server(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGHUP)
    except OSError as error:
        raise UnavailableError(f"the server {pid} cannot be signalled: {error.strerror}", code="bus_unavailable") from error


def confirm_identities(servers: Servers, seconds: float = _CONFIRM_SECONDS) -> int:
    """Offer every key, current and revoked, to every server; return the number of keys.

    Raises:
        UnavailableError: ``identities_unconfirmed``, or ``no_stack`` if no server is known.
    """
    from gatewright.bus.jetstream.rights import differing

    if servers.address is None:
        raise UnavailableError("no server to ask: set GATEWRIGHT_NATS_URL, or start the system", code="no_stack")
    held = [identities.load(identities.seed_file(servers.keys, name)) for name in identities.public_keys(servers.keys)]
    gone = identity_changes.to_be_refused(servers.keys)
    with _suppress_refusal_log():
        wrong = asyncio.run(differing(servers.address, held, gone.values(), seconds))
    if wrong:
        raise UnavailableError(
            f"{wrong[0]}"
            + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
            + ": it has not read its configuration anew",
            code="identities_unconfirmed",
        )
    identity_changes.was_refused(gone)
    return len(held) + len(gone)


@contextlib.contextmanager
def _suppress_refusal_log() -> Iterator[None]:
    """Suppress the log of refused connections, since here a refusal is the expected result."""
    log = logging.getLogger("gatewright.bus")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _set_up_streams(servers: Servers) -> None:
    """Create the streams of new publishers for their submissions and uploads."""
    from gatewright.bus.jetstream.setup import ensure_topology
    from gatewright.bus.jetstream.starting import PASSING, repeat_until_answered

    if servers.address is None:
        return
    address = replace(servers.address, seed=identities.seed_file(servers.keys, PROVISIONER))
    settings = load().stream_settings
    attempt = partial(ensure_topology, address, settings=settings)
    # A server that is reading its configuration may refuse new connections, or close this one.
    asyncio.run(repeat_until_answered(attempt, seconds=_CONFIRM_SECONDS, passing=PASSING | {"credential_refused"}))


def _check_reach(servers: Servers) -> None:
    from gatewright.bus.jetstream.rights import cut_off

    if servers.address is None:
        return
    held = [identities.load(identities.seed_file(servers.keys, name)) for name in identities.public_keys(servers.keys)]
    names = asyncio.run(cut_off(servers.address, held, _CONFIRM_SECONDS))
    if names:
        raise UnavailableError(
            f"{', '.join(names)} can connect and reaches nothing of the bus: have the server read its configuration once more",
            code="identities_unconfirmed",
        )


def _render_file(file: Path, keys: Path) -> str:
    try:
        text = file.read_text("utf-8", "surrogateescape")
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}", code="server_file_strange") from error
    return with_identities(text, identities.public_keys(keys), identities.earlier_keys(keys), identity_limits.read(keys))


def _replace_file(file: Path, text: str) -> None:
    """Replace the file atomically, with its old mode."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        mode = file.stat().st_mode & 0o777
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as opened:
            opened.write(text.encode("utf-8", "surrogateescape"))
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be written: {error.strerror}", code="key_unwritable") from error


def _read_pid(file: Path) -> int:
    try:
        number = int(file.read_text("ascii"))
    except (OSError, ValueError):
        raise MalformedError(
            f"{file} holds no number of a process: start the server with --pid", code="invalid_input"
        ) from None
    if number <= 1:
        raise MalformedError(f"{file} holds no number of a server's process", code="invalid_input")
    return number
