"""``topology``: what names the bus has, who may use them, the server configuration that says so, and setting it up."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from gatewright.app.cli.option_groups import grouped
from gatewright.app.cli.options import JsonOutput, LedgerPartitions
from gatewright.app.cli.output import emit, reported, say


def register(app: typer.Typer) -> None:
    app.command()(topology)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What a server configuration is made of, beside the pools."""

    keys: Annotated[
        Path | None, typer.Option("--keys", metavar="DIR", help="Where `gatewright keys bus` put the identities.")
    ] = None
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Where the server keeps its streams, as it sees it.")
    ] = None
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where clients connect.")] = "127.0.0.1:4222"
    monitor: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where /healthz is, for anybody.")] = "127.0.0.1:8222"
    server_name: Annotated[str, typer.Option(help="Different for every server of a cluster.")] = "gatewright"
    cluster_name: Annotated[str | None, typer.Option(help="Makes the server one of a cluster.")] = None
    cluster_listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where its other servers connect.")] = "0.0.0.0:6222"
    routes: Annotated[list[str] | None, typer.Option("--route", metavar="URL", help="Another server of the cluster.")] = None
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The server's certificate, as it sees it.")] = None
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its private key.")] = None
    tls_ca: Annotated[Path | None, typer.Option(metavar="FILE", help="Clients need a certificate of this one.")] = None


@reported
@grouped
def topology(
    *,
    form: Annotated[
        Literal["table", "json", "nats-conf", "asyncapi"],
        typer.Option(
            "--format",
            help="nats-conf: the configuration of a NATS server, with the permissions of every identity; "
            "asyncapi: the bus as an AsyncAPI document, with --publisher as that publisher sees it.",
        ),
    ] = "table",
    pools: Annotated[list[str] | None, typer.Option("--pool", help="A pool of the roles; may be given again.")] = None,
    partitions: LedgerPartitions = 1,
    server: ServerOptions,
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Make the streams and queues, and bring those that differ up to date; as provisioner."),
    ] = False,
    replicas: Annotated[
        int | None,
        typer.Option(
            min=1, max=5, envvar="GATEWRIGHT_STREAM_REPLICAS", help="With --apply: servers of a cluster that keep each stream."
        ),
    ] = None,
    publishers: Annotated[
        list[str] | None,
        typer.Option(
            "--publisher",
            metavar="NAME",
            help="With --apply: a publisher that has to be known; may be given again. With --format asyncapi: whose document.",
        ),
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Print the streams, subjects, consumers and permissions of the bus, or the server configuration that enforces them."""
    from gatewright.app.cli.operations.bus_table import bus_table, bus_table_lines
    from gatewright.bus.topology import DEFAULT_POOL

    named = tuple(pools) if pools else (DEFAULT_POOL,)
    if apply:
        _apply(named, replicas, tuple(publishers or ()), json_output=json_output)
    elif form == "nats-conf":
        say(_configuration(server, named, partitions).rstrip())
    elif form == "asyncapi":
        say(_asyncapi(named, tuple(publishers or ()), partitions).rstrip())
    elif json_output or form == "json":
        emit(bus_table(named, partitions))
    else:
        for line in bus_table_lines(named, partitions):
            say(line)


def _apply(pools: tuple[str, ...], replicas: int | None, publishers: tuple[str, ...], *, json_output: bool) -> None:
    import asyncio

    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.operations.topology_setup import apply_topology
    from gatewright.bus.jetstream.connection import public_address

    url = public_address(asyncio.run(apply_topology(find_place(), pools, replicas, publishers)))
    if json_output:
        emit({"applied": True, "url": url, "pools": pools})
    else:
        say(f"the bus at {url} is set up")


def _asyncapi(pools: tuple[str, ...], publishers: tuple[str, ...], partitions: int) -> str:
    from gatewright.app.asyncapi.document import publisher_document, system_document
    from gatewright.app.asyncapi.text import as_text

    if len(publishers) > 1:
        raise typer.BadParameter("an AsyncAPI document is of one publisher, or of none", param_hint="--publisher")
    return as_text(publisher_document(publishers[0]) if publishers else system_document(pools, partitions))


def _configuration(server: ServerOptions, pools: tuple[str, ...], partitions: int) -> str:
    from gatewright.app.cli.operations.server_file import ServerFile, server_file, tls_of
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
