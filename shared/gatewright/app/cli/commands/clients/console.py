"""``console``: the live page for people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.option_groups import grouped
from gatewright.app.cli.output import note, reported, say


def register(app: typer.Typer) -> None:
    app.command()(console)


@dataclass(frozen=True, slots=True)
class ConsoleSeeds:
    """The identities beside the one that looks, of a bus that was named."""

    approver_seed: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a bus that was named: the seed of an approver, to bring decisions by."),
    ] = None
    publisher_seed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Of a bus that was named: the seed of a publisher, to submit runs by.")
    ] = None
    observer_seed: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of a bus that was named: the seed of an observer, to see queues and roles by."),
    ] = None


@reported
@grouped
def console(
    *,
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Where it is served.")] = "127.0.0.1:8790",
    token_file: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ROLE=]FILE",
            help="A token that people sign in with, as viewer, approver or operator; needed beyond this host.",
        ),
    ] = None,
    oidc: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The provider of OpenID Connect that people sign in at, and their roles."),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="People may look, and nothing can be sent.")] = False,
    seeds: ConsoleSeeds,
    pool: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A pool beside `default` whose queues are shown; may be given again."),
    ] = None,
    publisher: Annotated[str | None, typer.Option(metavar="NAME", help="Whose runs these are.", show_default="default")] = None,
    sign_agent: Annotated[
        str, typer.Option(metavar="URL", help="Where people's signing agents listen.")
    ] = "http://127.0.0.1:8791",
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="A proxy before it speaks TLS.")] = False,
    host_name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name that the proxy calls it by; may be given again.")
    ] = None,
) -> None:
    """Serve the live page: all runs, what needs a person, one run with its gates, change and evidence.

    A person decides there with a signature of their own (`gatewright sign-agent`). Ctrl-C ends it; runs go on.
    """
    import asyncio
    from functools import partial

    from gatewright.app.cli import settings
    from gatewright.app.cli.connecting import ledger_readers
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.live_page.submit_access import submit_access
    from gatewright.app.cli.operations.cluster import for_observer, see_cluster
    from gatewright.app.cli.operations.stack import CONSOLE_IS_ON
    from gatewright.app.cli.people.agent_server import agent_origin
    from gatewright.app.cli.people.inbox import for_approver, open_inbox
    from gatewright.app.console.access_record import open_record
    from gatewright.app.console.provider.settings import read_provider
    from gatewright.app.console.roles import read_tokens
    from gatewright.app.console.serving import ConsoleAddress, make_app, serve
    from gatewright.app.http_access import listening_socket, read_address
    from gatewright.bus.topology import DEFAULT_POOL

    place = find_place()
    connect = ledger_readers(place)

    async def served() -> None:
        async with connect():
            pass  # what cannot be reached now is told now
        with listening_socket(host, port) as listening:
            say(f"{CONSOLE_IS_ON}http://{http}/")
            await serve(app, listening)

    host, port = read_address(http)
    tokens = read_tokens(token_file or ())
    provider = read_provider(oidc) if oidc is not None else None
    names, agent = tuple(host_name or ()), agent_origin(sign_agent)
    address = ConsoleAddress(host, port, tokens, names, behind_proxy, agent, provider)
    approver = for_approver(place, seeds.approver_seed) if not read_only else None
    decide = partial(open_inbox, approver) if approver is not None else None
    submit = submit_access(place, publisher, seeds.publisher_seed) if not read_only else None
    look = partial(see_cluster, for_observer(place, seeds.observer_seed), (DEFAULT_POOL, *(pool or ())))
    wanted = settings.load().console_record
    access = open_record(wanted) if wanted is not None else None
    app = make_app(connect, place.home, place.key, address, decide=decide, submit=submit, look=look, record=access, warn=note)
    asyncio.run(served())
