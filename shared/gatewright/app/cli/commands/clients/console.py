"""``console``: the live page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.output import note, reported, say


def register(app: typer.Typer) -> None:
    app.command()(console)


@reported
def console(
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where it is served.")] = "127.0.0.1:8790",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The token that people sign in with; needed beyond this host.")
    ] = None,
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A proxy before it speaks TLS.")] = False,
    host_name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name that the proxy calls it by; may be given again.")
    ] = None,
) -> None:
    """Serve the live page: all runs, what needs a person, one run with its gates, change and evidence. It only looks.

    Ctrl-C ends it; runs go on.
    """
    import asyncio

    from gatewright.app.cli.connecting import ledger_readers
    from gatewright.app.cli.context import find_place
    from gatewright.app.console.serving import ConsoleAddress, make_app, serve
    from gatewright.app.http_access import read_address, read_token

    place = find_place()
    connect = ledger_readers(place)

    async def served() -> None:
        async with connect():
            pass  # what cannot be reached now is told now
        await serve(app, address)

    host, port = read_address(http)
    token = read_token(token_file) if token_file is not None else None
    address = ConsoleAddress(host, port, token, tuple(host_name or ()), behind_proxy)
    app = make_app(connect, place.home, place.key, address, warn=note)
    say(f"the console is on http://{http}/")
    asyncio.run(served())
