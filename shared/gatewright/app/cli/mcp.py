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
        Path, typer.Option(metavar="PATH", help="The repository that the host may read and runs are for.")
    ] = Path(),
    no_repo: Annotated[bool, typer.Option("--no-repo", help="Show the host no repository.")] = False,
    publisher: Annotated[str | None, typer.Option(metavar="NAME", help="Whose runs these are.", show_default="default")] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="The host may look, and neither begin nor end a run.")] = False,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Streamable HTTP instead of standard input and output.")
    ] = None,
    token_file: Annotated[Path | None, typer.Option(metavar="FILE", help="The token that HTTP wants.")] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A proxy before it speaks TLS.")] = False,
    host_name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name that the proxy calls it by; may be given again.")
    ] = None,
) -> None:
    """Serve coding hosts (Model Context Protocol): submit and follow runs, read verdicts and evidence. A host decides nothing.

    Everything that a tool answers is disclosed to the host, and to the model behind it.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.hosts.access import HostAccess
    from gatewright.app.cli.hosts.server import make_server, serve_http
    from gatewright.app.cli.user_git import user_checkout, who_orders
    from gatewright.app.http_access import check_address, read_address, read_token
    from gatewright.bus.identities import DEFAULT_PUBLISHER

    top = None if no_repo else user_checkout(repo.absolute()).folders.top
    # A host that this program is started by belongs to its user; who holds the token of HTTP is not known.
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
