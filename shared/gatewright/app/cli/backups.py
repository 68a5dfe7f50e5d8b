"""``backup`` and ``restore``: copy an installation into a folder while runs continue, and restore it elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.clock import SystemClock
from gatewright.errors import MalformedError
from gatewright.resources import policy_directory
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.backup.contents import BackupContents
    from gatewright.app.backup.restoring import Restored
    from gatewright.app.backup.taking import BackupOutcome, Installation
    from gatewright.app.cli.context import CommandContext
    from gatewright.bus.identities import BusAddress

Keys = Annotated[Path | None, typer.Option("--keys", metavar="DIR", help="Directory of the identities (default: home folder)")]
Progress = Callable[[str], None]
_STORE = "nats"
#: Seconds of retries against a server that does not answer.
_PATIENCE_SECONDS = 60.0


def register(app: typer.Typer) -> None:
    app.command()(backup)
    app.command()(restore)


@reported
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New directory to create")],
    keys: Keys = None,
    json_output: JsonOutput = False,
) -> None:
    """Back up a whole installation while runs continue.

    A backup contains streams, keys, identities, policies and sealed bundles. It reads the bus at GATEWRIGHT_NATS_URL as
    provisioner, or else the stack of the home folder. The files contain private keys. Only their owner can read them
    (0600), and they are not encrypted.
    """
    made = back_up(folder, keys, _skip_progress if json_output else _print_progress)
    contents = made.contents
    if json_output:
        emit(
            {
                "folder": str(folder),
                "sha256": made.sha256,
                "moment": contents.moment,
                "streams": {each.stream: each.messages for each in contents.streams},
                "files": len(contents.files),
                "bundles": len(contents.bundles),
                "bundle_store": contents.bundle_store,
                "bytes": contents.size(),
                "later": made.later,
            }
        )
        return
    write_line(f"kept {printable(str(folder))}: {contents.size()} bytes, the ledger up to message {contents.moment}")
    if contents.bundle_store:
        write_line(f"  bundles stay in {printable(contents.bundle_store)}, and are no part of it")
    if made.later:
        write_line(f"  {len(made.later)} runs ended while it was taken: to the backup they are open")
    write_line(f"  digest sha256:{made.sha256}  (keep it elsewhere: `restore --digest` holds the backup to it)")
    note("the backup holds private keys and is not encrypted: encrypt it before it leaves this host")


@reported
def restore(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a backup")],
    check: Annotated[bool, typer.Option("--check", help="Check the backup and restore nothing")] = False,
    digest: Annotated[
        str | None, typer.Option(metavar="sha256:HEX", help="Expected digest, as `gatewright backup` printed it")
    ] = None,
    only: Annotated[
        Literal["files", "streams"] | None, typer.Option(help="Restore only the home folder, or only the streams")
    ] = None,
    replicas: Annotated[
        int | None, typer.Option(min=1, max=5, help="Number of servers that keep each stream (default: as before)")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Restore a backup into an empty home folder and NATS server."""
    contents, found = check_backup(folder, digest)
    done = (
        None
        if check
        else restore_installation(folder, contents, only, replicas, _skip_progress if json_output else _print_progress)
    )
    if json_output:
        counts = {"streams": done.streams, "files": done.files, "bundles": done.bundles, "ahead": done.ahead} if done else {}
        emit({"folder": str(folder), "sha256": found, "moment": contents.moment, "restored": done is not None, **counts})
        return
    size = f"{contents.size()} bytes of {contents.created_at}, the ledger up to message {contents.moment}"
    write_line(f"{'whole' if done is None else 'restored'} {printable(str(folder))}: {size}")
    for run in done.ahead if done else ():
        write_line(f"  {printable(run)}: its bundle is newer than the ledger, and was put aside (runs-after-backup)")
    if done is not None and any(file.path.startswith("policies/") for file in contents.files):
        write_line("  policies are in the home folder: set GATEWRIGHT_POLICIES to its `policies`")


def _print_progress(words: str) -> None:
    write_line(f"  {printable(words)}")


def _skip_progress(words: str) -> None:
    """Print nothing: with --json the result on the last line is the only output."""


def back_up(folder: Path, keys: Path | None, progress: Progress) -> BackupOutcome:
    """Back up the home folder, or the bus that was named. Raises GatewrightError, OSError."""
    from gatewright.app.cli.context import find_place
    from gatewright.bus.identities import bus_keys

    place = find_place()
    return asyncio.run(_back_up_bus(folder, place, keys or bus_keys(place.home), progress))


def check_backup(folder: Path, digest: str | None) -> tuple[BackupContents, str]:
    """Check that a backup is complete and unchanged; return its contents and digest.

    Raises:
        MalformedError: the backup cannot be read.
        VerificationError: the backup was changed.
    """
    from gatewright.app.backup.contents import check_files, read_backup

    contents, found = read_backup(folder, digest)
    check_files(folder, contents)
    return contents, found


def restore_installation(
    folder: Path, contents: BackupContents, only: str | None, replicas: int | None, progress: Progress
) -> Restored:
    """Restore a backup that was checked. Raises GatewrightError, OSError."""
    from gatewright.app.backup.restoring import Restored, bring_files, staged_home
    from gatewright.app.cli.context import find_place

    place = find_place()
    if only == "streams":
        if place.bus is None:
            raise MalformedError("--only streams is for a bus that was named: set GATEWRIGHT_NATS_URL", code="invalid_input")
        ahead = asyncio.run(_streams_to(place.bus, folder, contents, replicas, progress, place.home))
        return Restored(len(contents.streams), 0, 0, ahead)
    with staged_home(place.home) as staging:
        bring_files(folder, contents, staging, progress)
        if only is None:
            asyncio.run(_restore_streams(place.bus, staging, folder, contents, replicas, progress))
    return Restored(len(contents.streams) if only is None else 0, len(contents.files), len(contents.bundles))


async def _back_up_bus(folder: Path, place: CommandContext, keys: Path, progress: Progress) -> BackupOutcome:
    from gatewright.app.backup.taking import take_backup
    from gatewright.bus.jetstream.connection import Connection
    from gatewright.bus.jetstream.starting import repeat_until_answered

    async with _provisioner(place, keys) as address:
        connection = await repeat_until_answered(lambda: Connection.open(address, name="backup"), seconds=_PATIENCE_SECONDS)
        try:
            return await take_backup(connection, _installation(place, keys), folder, SystemClock(), progress)
        finally:
            await connection.close()


@contextlib.asynccontextmanager
async def _provisioner(place: CommandContext, keys: Path) -> AsyncIterator[BusAddress]:
    """Yield the address of the bus as provisioner. Start a server if none of the home folder runs."""
    from gatewright.app.cli import settings
    from gatewright.app.stack import state
    from gatewright.app.stack.nats_server import NatsServer
    from gatewright.bus.identities import PROVISIONER
    from gatewright.bus.jetstream.setup import ensure_topology

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
    from gatewright.app import signed_records
    from gatewright.app.backup.taking import Installation
    from gatewright.app.cli import settings
    from gatewright.app.cli.runs.sources import RUNS_FOLDER
    from gatewright.app.cli.settings import DoctorSettings
    from gatewright.app.retention.holds import BOOK
    from gatewright.bus import identities
    from gatewright.evidence.signing.keys import home_key, load_public, public_path

    files = dict(_below(place.home / "keys", "keys"))
    for each in signed_records.KINDS:
        files |= dict(_below(place.home / each, each))
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
    """Yield the files of a folder, and the targets of its links. Names that begin with a dot are incomplete files."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from _below(path, f"{name}/{path.name}")
        elif path.is_file():
            yield f"{name}/{path.name}", path


async def _restore_streams(
    bus: BusAddress | None, staging: Path, folder: Path, contents: BackupContents, replicas: int | None, progress: Progress
) -> None:
    """Restore the streams: to the bus that was named, or to a server that this function starts."""
    from gatewright.app.stack.nats_server import NatsServer
    from gatewright.bus.identities import PROVISIONER, bus_keys
    from gatewright.bus.topology import is_of_ledger

    if bus is not None:
        await _streams_to(bus, folder, contents, replicas, progress, None)
        return
    partitions = max(1, sum(is_of_ledger(stream.stream) for stream in contents.streams))
    async with await NatsServer.start(staging / _STORE, keys=bus_keys(staging), partitions=partitions) as server:
        await _streams_to(server.address(PROVISIONER), folder, contents, replicas, progress, None)


async def _streams_to(
    address: BusAddress, folder: Path, contents: BackupContents, replicas: int | None, progress: Progress, home: Path | None
) -> tuple[str, ...]:
    from gatewright.app.backup.restoring import bring_streams, set_aside
    from gatewright.bus.jetstream.connection import Connection
    from gatewright.bus.jetstream.starting import repeat_until_answered

    connection = await repeat_until_answered(lambda: Connection.open(address, name="restore"), seconds=_PATIENCE_SECONDS)
    try:
        await bring_streams(connection, folder, contents, replicas, progress)
    finally:
        await connection.close()
    return set_aside(home, contents.streams) if home is not None else ()
