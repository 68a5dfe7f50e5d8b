"""``mcp``: the server of the Model Context Protocol for coding hosts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.output import note, reported
from gatewright.errors import ConfigurationError


def register(app: typer.Typer) -> None:
    app.command()(mcp)


@reported
def mcp(
    repo: Annotated[
        Path, typer.Option(metavar="PATH", help="Repository that the host may read and change through runs")
    ] = Path(),
    no_repo: Annotated[bool, typer.Option("--no-repo", help="Give the host no repository")] = False,
    publisher: Annotated[
        str | None, typer.Option(metavar="NAME", help="Publisher that owns the runs", show_default="default")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable starting and aborting runs")] = False,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Serve Streamable HTTP instead of standard input and output")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File with the token that HTTP clients must send")
    ] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="Expect a proxy that ends TLS")] = False,
    host_name: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Host name that the proxy uses")] = None,
) -> None:
    """Serve runs and evidence to coding hosts (MCP).

    Hosts submit and follow runs, and read verdicts and evidence. They decide nothing. The host and its model see every
    answer.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.hosts.access import HostAccess
    from gatewright.app.cli.hosts.server import make_server, serve_http
    from gatewright.app.cli.user_git import user_checkout, who_orders
    from gatewright.app.http_access import check_address, read_address, read_token
    from gatewright.bus.identities import DEFAULT_PUBLISHER

    top = None if no_repo else user_checkout(repo.absolute()).folders.top
    # A host that starts this program belongs to its user. For HTTP, the holder of the token is unknown.
    ordered_by = who_orders(top or Path()) if http is None else ()
    access = HostAccess(find_place(), top, publisher or DEFAULT_PUBLISHER, read_only, ordered_by=ordered_by)
    server = make_server(access)
    if http is None:
        asyncio.run(server.run_stdio_async())
        return
    host, port = read_address(http)
    if token_file is None:
        raise ConfigurationError("HTTP wants a token: --token-file FILE", code="configuration_invalid")
    check_address(host, behind_proxy=behind_proxy)
    token = read_token(token_file)
    note(f"serving on http://{http}/mcp")
    asyncio.run(serve_http(server, host, port, token, tuple(host_name or ())))
