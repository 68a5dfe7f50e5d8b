"""``topology``: print or apply the streams, subjects, permissions and server configuration of the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gatewright.app.cli.options import JsonOutput, LedgerPartitions, grouped
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.errors import MalformedError, UnavailableError

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.bus.identities import BusAddress
    from gatewright.bus.server_config import Cluster, Tls

#: Maximum seconds of one step, and of all attempts.
_PATIENCE_SECONDS, _SET_UP_SECONDS = 15.0, 180.0


def register(app: typer.Typer) -> None:
    app.command()(topology)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Values of a server configuration, in addition to the pools."""

    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="DIR", help="Directory of the identities (see: gatewright keys bus)")
    ] = None
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Stream directory of the server, in its own file system")
    ] = None
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address for clients")] = "127.0.0.1:4222"
    monitor: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address of /healthz, which needs no login")] = (
        "127.0.0.1:8222"
    )
    server_name: Annotated[str, typer.Option(help="Server name, unique in its cluster")] = "gatewright"
    cluster_name: Annotated[str | None, typer.Option(help="Name of the cluster to join")] = None
    cluster_listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address for other servers of the cluster")] = (
        "0.0.0.0:6222"
    )
    routes: Annotated[
        list[str] | None, typer.Option("--route", metavar="URL", help="Address of another server of the cluster")
    ] = None
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate of the server, in its own file system")] = (
        None
    )
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of the server")] = None
    tls_ca: Annotated[Path | None, typer.Option(metavar="FILE", help="Authority that must sign client certificates")] = None


@reported
@grouped
def topology(
    *,
    form: Annotated[
        Literal["table", "json", "nats-conf", "asyncapi"], typer.Option("--format", metavar="FORMAT", help="Output format")
    ] = "table",
    pools: Annotated[list[str] | None, typer.Option("--pool", help="Additional pool of the roles")] = None,
    partitions: LedgerPartitions = 1,
    server: ServerOptions,
    apply: Annotated[bool, typer.Option("--apply", help="Create or update streams and queues")] = False,
    replicas: Annotated[
        int | None,
        typer.Option(
            min=1, max=5, envvar="GATEWRIGHT_STREAM_REPLICAS", help="With --apply: number of servers that keep each stream"
        ),
    ] = None,
    publishers: Annotated[
        list[str] | None,
        typer.Option("--publisher", metavar="NAME", help="Known publisher with --apply; point of view with --format asyncapi"),
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Print or apply the streams, subjects and permissions of the bus.

    The format nats-conf is a server configuration with the permissions of every identity. The format asyncapi is an
    AsyncAPI document; with --publisher, it shows what that publisher sees. With --apply, this command creates or updates
    streams and queues, as provisioner.
    """
    from gatewright.bus.topology import DEFAULT_POOL

    named = tuple(pools) if pools else (DEFAULT_POOL,)
    if apply:
        _apply(named, replicas, tuple(publishers or ()), json_output=json_output)
    elif form == "nats-conf":
        write_line(_configuration(server, named, partitions).rstrip())
    elif form == "asyncapi":
        write_line(_asyncapi(named, tuple(publishers or ()), partitions).rstrip())
    elif json_output or form == "json":
        emit(bus_table(named, partitions))
    else:
        for line in bus_table_lines(named, partitions):
            write_line(line)


def _apply(pools: tuple[str, ...], replicas: int | None, publishers: tuple[str, ...], *, json_output: bool) -> None:
    from gatewright.app.cli.context import find_place
    from gatewright.bus.jetstream.connection import public_address

    url = public_address(asyncio.run(apply_topology(find_place(), pools, replicas, publishers)))
    if json_output:
        emit({"applied": True, "url": url, "pools": pools})
    else:
        write_line(f"the bus at {url} is set up")


def _asyncapi(pools: tuple[str, ...], publishers: tuple[str, ...], partitions: int) -> str:
    from gatewright.app.asyncapi.document import as_text, publisher_document, system_document

    if len(publishers) > 1:
        raise typer.BadParameter("an AsyncAPI document is of one publisher, or of none", param_hint="--publisher")
    return as_text(publisher_document(publishers[0]) if publishers else system_document(pools, partitions))


def _configuration(server: ServerOptions, pools: tuple[str, ...], partitions: int) -> str:
    from gatewright.bus.server_config import Cluster

    cluster = Cluster(server.cluster_name, server.cluster_listen, tuple(server.routes or ())) if server.cluster_name else None
    wanted = ServerFile(
        server.keys,
        server.store,
        pools,
        partitions,
        listen=server.listen,
        monitor=server.monitor,
        server_name=server.server_name,
        cluster=cluster,
        tls=tls_of(server.tls_cert, server.tls_key, server.tls_ca),
    )
    return server_file(wanted)


def bus_table(pools: tuple[str, ...], partitions: int = 1) -> dict[str, Any]:
    """Return the complete topology as JSON types."""
    from gatewright.bus import topology as t
    from gatewright.bus.identities import STANDING
    from gatewright.bus.permissions import access_of

    table = [access_of(identity, pools, partitions=partitions) for identity in STANDING]
    return {
        "streams": [asdict(stream) for stream in t.streams(partitions)],
        "consumers": [asdict(consumer) for consumer in t.consumers(pools)],
        "permissions": {
            a.identity: {"publish": a.sends(), "subscribe": a.receives(), "account": _account(a.guest)} for a in table
        },
        "services": list(t.SERVICE_SUBJECTS),
        "locks": t.LOCK_BUCKET,
    }


def bus_table_lines(pools: tuple[str, ...], partitions: int = 1) -> list[str]:
    """Format the complete topology as text."""
    from gatewright.bus import topology as t
    from gatewright.bus.identities import STANDING
    from gatewright.bus.permissions import access_of

    lines = ["streams"]
    lines += [f"  {s.name:<8} {', '.join(s.subjects):<14} {s.retention:<10} {s.description}" for s in t.streams(partitions)]
    lines += ["", "consumers (durable, pulled)"]
    for consumer in t.consumers(pools):
        lines.append(
            f"  {consumer.durable:<26} {consumer.stream:<8} {consumer.subject:<32} of {consumer.owner}; "
            f"ack within {consumer.ack_wait:g} s"
        )
    lines += ["", "permissions (the calls of JetStream: --json)"]
    for identity in STANDING:
        may = access_of(identity, pools, partitions=partitions)
        lines.append(f"  {identity:<11} publishes  {', '.join(may.publish) or '-'}")
        lines.append(f"  {'':<11} hears      {', '.join((*may.hear, *may.serve)) or '-'}")
        if may.queues:
            lines.append(f"  {'':<11} pulls      {', '.join(queue.durable for queue in may.queues)}")
    lines += [
        "",
        f"services {', '.join(t.SERVICE_SUBJECTS)}",
        f"key-value bucket {t.LOCK_BUCKET}",
    ]
    return lines


def _account(guest: bool) -> str:
    return "its own" if guest else "the bus's"


@dataclass(frozen=True, slots=True)
class ServerFile:
    """``keys``: by default those of the home folder. ``store`` is required: the server has a file system of its own."""

    keys: Path | None
    store: Path | None
    pools: tuple[str, ...]
    partitions: int
    listen: str
    monitor: str
    server_name: str
    cluster: Cluster | None
    tls: Tls | None


def server_file(wanted: ServerFile) -> str:
    """Return the server configuration. Raises MalformedError (``invalid_input``), ConfigurationError without the identities."""
    from gatewright.app.cli.context import find_place
    from gatewright.bus.identities import bus_keys, earlier_keys, public_keys
    from gatewright.bus.identity_limits import read
    from gatewright.bus.server_config import ServerConfig, accounts, render

    if wanted.store is None:
        raise MalformedError("name the storage folder of the server with --store", code="invalid_input")
    keys = wanted.keys or bus_keys(find_place().home)
    config = ServerConfig(
        store=wanted.store,
        accounts=accounts(public_keys(keys), wanted.pools, earlier_keys(keys), read(keys), wanted.partitions),
        pools=wanted.pools,
        partitions=wanted.partitions,
        listen=wanted.listen,
        monitor=wanted.monitor,
        server_name=wanted.server_name,
        tls=wanted.tls,
        cluster=wanted.cluster,
    )
    return render(config)


def tls_of(certificate: Path | None, key: Path | None, ca: Path | None) -> Tls | None:
    """Return the TLS settings. Raises MalformedError if one of the two files is missing."""
    from gatewright.bus.server_config import Tls

    if certificate is not None and key is not None:
        return Tls(certificate, key, ca)
    if certificate is None and key is None and ca is None:
        return None
    raise MalformedError("TLS needs both --tls-cert and --tls-key", code="invalid_input")


async def apply_topology(
    place: CommandContext, pools: tuple[str, ...], replicas: int | None, publishers: tuple[str, ...] = ()
) -> str:
    """Set up the bus, with streams for these publishers and all known ones; return its URL.

    A server that does not answer is retried for some minutes; each attempt is logged.

    Raises:
        UnavailableError: ``identities_unconfirmed``, the server does not know one of the publishers.
        ConfigurationError: something cannot be changed; names it.
    """
    from gatewright.app.cli.settings import load
    from gatewright.bus.jetstream.bus import JetStreamBus
    from gatewright.bus.jetstream.rights import known_publishers
    from gatewright.bus.jetstream.setup import ensure_topology
    from gatewright.bus.jetstream.starting import repeat_until_answered
    from gatewright.bus.topology import consumers

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
    """Return the bus and identity that were named, or else those of the home folder's stack."""
    from gatewright.app.stack.state import read as read_state
    from gatewright.bus.identities import PROVISIONER

    if place.bus is not None:
        return place.bus
    state = read_state(place.home)
    if state is None:
        raise UnavailableError(
            "no bus to set up: set GATEWRIGHT_NATS_URL, and GATEWRIGHT_NATS_SEED to the file provisioner.nk", code="no_stack"
        )
    return state.address(PROVISIONER)
