"""Which installation ``backup`` keeps and where ``restore`` brings it: the bus that was named, or that of the home folder."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from gatewright.app.backup.contents import BackupContents, check_files, read_backup
from gatewright.app.backup.restoring import Restored, bring_files, bring_streams, set_aside, staged_home
from gatewright.app.backup.taking import BackupOutcome, Installation, take_backup
from gatewright.app.cli import settings
from gatewright.app.cli.context import CommandContext, find_place
from gatewright.app.cli.runs.sources import RUNS_FOLDER
from gatewright.app.cli.settings import DoctorSettings
from gatewright.app.retention.holds import BOOK
from gatewright.app.stack import state
from gatewright.app.stack.nats_server import NatsServer
from gatewright.bus import identities
from gatewright.bus.identities import PROVISIONER, BusAddress, bus_keys
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.jetstream.starting import repeat_until_answered
from gatewright.bus.topology import is_of_ledger
from gatewright.clock import SystemClock
from gatewright.errors import MalformedError
from gatewright.evidence.signing.keys import home_key, load_public, public_path
from gatewright.resources import policy_directory

Tell = Callable[[str], None]
_STORE = "nats"
#: Seconds that a server which does not answer is asked again.
_PATIENCE_SECONDS = 60.0


def keep(folder: Path, keys: Path | None, tell: Tell) -> BackupOutcome:
    """Back up what the home folder, or the bus that was named, is. Raises GatewrightError, OSError."""
    place = find_place()
    return asyncio.run(_keep(folder, place, keys or bus_keys(place.home), tell))


def look_at(folder: Path, digest: str | None) -> tuple[BackupContents, str]:
    """A backup that is whole and as it was written, and its digest. Raises MalformedError, VerificationError."""
    contents, found = read_backup(folder, digest)
    check_files(folder, contents)
    return contents, found


def bring_back(folder: Path, contents: BackupContents, only: str | None, replicas: int | None, tell: Tell) -> Restored:
    """Restore what was looked at. Raises GatewrightError, OSError."""
    place = find_place()
    if only == "streams":
        if place.bus is None:
            raise MalformedError("--only streams is for a bus that was named: set GATEWRIGHT_NATS_URL", code="invalid_input")
        ahead = asyncio.run(_streams_to(place.bus, folder, contents, replicas, tell, place.home))
        return Restored(len(contents.streams), 0, 0, ahead)
    with staged_home(place.home) as staging:
        bring_files(folder, contents, staging, tell)
        if only is None:
            asyncio.run(_into(place.bus, staging, folder, contents, replicas, tell))
    return Restored(len(contents.streams) if only is None else 0, len(contents.files), len(contents.bundles))


async def _keep(folder: Path, place: CommandContext, keys: Path, tell: Tell) -> BackupOutcome:
    async with _provisioner(place, keys) as address:
        connection = await repeat_until_answered(lambda: Connection.open(address, name="backup"), seconds=_PATIENCE_SECONDS)
        try:
            return await take_backup(connection, _installation(place, keys), folder, SystemClock(), tell)
        finally:
            await connection.close()


@contextlib.asynccontextmanager
async def _provisioner(place: CommandContext, keys: Path) -> AsyncIterator[BusAddress]:
    """The bus as the identity that may keep it; where no server of the home folder runs, one is started for this."""
    running = state.read(place.home) if place.bus is None else None
    if place.bus is not None:
        yield place.bus
    elif running is not None:
        yield running.address(PROVISIONER)
    elif not (place.home / _STORE).is_dir():
        raise MalformedError(f"{place.home} holds no installation: it has no streams", code="no_stack")
    else:
        with state.exclusive(place.home):
            partitions = settings.load().ledger_partitions
            async with await NatsServer.start(place.home / _STORE, keys=keys, partitions=partitions) as server:
                await ensure_topology(server.address(PROVISIONER))
                yield server.address(PROVISIONER)


def _installation(place: CommandContext, keys: Path) -> Installation:
    files = dict(_below(place.home / "keys", "keys"))
    files |= dict(_below(keys, "bus"))
    own = home_key(place.home).relative_to(place.home).as_posix()
    for source, path in ((place.key, own), (public_path(place.key), public_path(Path(own)).as_posix())):
        if source.is_file():
            files[path] = source
    if (place.home / BOOK).is_file():
        files[BOOK] = place.home / BOOK
    policies = DoctorSettings.load().policies
    if policies != policy_directory():
        files |= dict(_below(policies, "policies"))
    public = public_path(place.key)
    return Installation(
        files=files,
        runs=place.home / RUNS_FOLDER,
        signing_key=load_public(public).key_id if public.is_file() else "",
        identities=dict(identities.public_keys(keys)),
        bundle_store=settings.load().bundle_store or "",
    )


def _below(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """The files of a folder, and what links in it lead to; those that begin with a dot are on their way to be one."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _below(path, f"{name}/{path.name}")
        elif path.is_file():
            yield f"{name}/{path.name}", path


async def _into(
    bus: BusAddress | None, staging: Path, folder: Path, contents: BackupContents, replicas: int | None, tell: Tell
) -> None:
    """The streams of an installation: on the bus that was named, or on a server that is started here for it."""
    if bus is not None:
        await _streams_to(bus, folder, contents, replicas, tell, None)
        return
    partitions = max(1, sum(is_of_ledger(stream.stream) for stream in contents.streams))
    async with await NatsServer.start(staging / _STORE, keys=bus_keys(staging), partitions=partitions) as server:
        await _streams_to(server.address(PROVISIONER), folder, contents, replicas, tell, None)


async def _streams_to(
    address: BusAddress, folder: Path, contents: BackupContents, replicas: int | None, tell: Tell, home: Path | None
) -> tuple[str, ...]:
    connection = await repeat_until_answered(lambda: Connection.open(address, name="restore"), seconds=_PATIENCE_SECONDS)
    try:
        await bring_streams(connection, folder, contents, replicas, tell)
    finally:
        await connection.close()
    return set_aside(home, contents.streams) if home is not None else ()
