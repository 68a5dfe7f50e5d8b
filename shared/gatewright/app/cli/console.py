"""``console`` and ``mcp``: the live page for people, and the server of the Model Context Protocol for coding hosts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.doctor import for_observer, see_cluster
from gatewright.app.cli.options import grouped
from gatewright.app.cli.output import note, reported, write_line
from gatewright.errors import ConfigurationError

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.app.console.submitting import SubmitAccess
    from gatewright.contracts import GateReport, RoleContractSummary, RunRequest
    from gatewright.git.mirror import Mirrors

#: Environments that the form offers.
_MOST_ENVIRONMENTS = 200


def register(app: typer.Typer) -> None:
    app.command()(console)
    app.command()(mcp)


@dataclass(frozen=True, slots=True)
class ConsoleSeeds:
    """Additional identities for a bus that was named, beside that of the observer."""

    approver_seed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seed of an approver on an external bus, to send decisions")
    ] = None
    publisher_seed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seed of a publisher on an external bus, to submit runs")
    ] = None
    observer_seed: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Seed of an observer on an external bus, to read queues")
    ] = None


@reported
@grouped
def console(
    *,
    http: Annotated[str, typer.Option(metavar="HOST:PORT", help="Address to serve the page on")] = "127.0.0.1:8790",
    token_file: Annotated[
        list[str] | None,
        typer.Option(metavar="[ROLE=]FILE", help="Sign-in token for viewers, approvers or operators; required beyond loopback"),
    ] = None,
    oidc: Annotated[
        Path | None, typer.Option(metavar="FILE", help="OpenID Connect configuration: provider and roles of people")
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Disable all actions of the page")] = False,
    seeds: ConsoleSeeds,
    pool: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Additional pool whose queues the page shows")] = None,
    publisher: Annotated[
        str | None, typer.Option(metavar="NAME", help="Publisher that owns the runs", show_default="default")
    ] = None,
    sign_agent: Annotated[
        str, typer.Option(metavar="URL", help="Address of each person's signing agent")
    ] = "http://127.0.0.1:8791",
    behind_proxy: Annotated[bool, typer.Option("--behind-proxy", help="Expect a proxy that ends TLS")] = False,
    host_name: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Host name that the proxy uses")] = None,
) -> None:
    """Serve the live web page of runs and requests.

    People decide there with their own signature (see: gatewright sign-agent). Ctrl-C stops the server, and runs continue.
    """
    from gatewright.app.cli import settings
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.people.agent_server import agent_origin
    from gatewright.app.cli.people.inbox import for_approver, open_inbox
    from gatewright.app.cli.session import ledger_readers
    from gatewright.app.cli.stack_process import CONSOLE_IS_ON
    from gatewright.app.console.access_record import open_record
    from gatewright.app.console.provider.settings import read_provider
    from gatewright.app.console.roles import read_tokens
    from gatewright.app.console.serving import ConsoleAddress, make_app, serve
    from gatewright.app.http_access import listening_socket, read_address
    from gatewright.bus.topology import DEFAULT_POOL

    place = find_place()
    connect = ledger_readers(place)

    async def serve_page() -> None:
        async with connect():
            pass  # report immediately what cannot be reached
        with listening_socket(host, port) as listening:
            write_line(f"{CONSOLE_IS_ON}http://{http}/")
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
    asyncio.run(serve_page())


def submit_access(place: CommandContext, publisher: str | None, seed: Path | None) -> SubmitAccess | None:
    """Return the access to submit as this publisher: to the local stack, or with ``seed`` to a bus that was named.

    The result is None if a bus was named and ``seed`` is None.

    Raises:
        ConfigurationError: ``identity_invalid``, the seed's identity is not a publisher.
    """
    from gatewright.app.cli.hosts.access import HostAccess
    from gatewright.app.console.submitting import SubmitAccess
    from gatewright.bus.identities import DEFAULT_PUBLISHER, is_publisher, load

    if place.bus is not None:
        if seed is None:
            return None
        if not is_publisher(named := load(seed).identity):
            raise ConfigurationError(
                f"{seed} is the seed of {named}: runs are submitted by a publisher", code="identity_invalid"
            )
        place = replace(place, bus=replace(place.bus, seed=seed))
    name = publisher or DEFAULT_PUBLISHER
    access = HostAccess(place, publisher=name, requested_by="live page")
    here = None if place.bus is not None else place.home
    explain = partial(_explain_request, publisher=name, home=here)
    return SubmitAccess(access.client, explain, partial(_offered_environments, here), _branches)


@dataclass(frozen=True, slots=True)
class ExplainedRequest:
    """The preview of a request in the form, before it is sent."""

    reports: tuple[GateReport, ...]
    unjudged: tuple[str, ...]
    role: RoleContractSummary


def _explain_request(request: RunRequest, publisher: str, home: Path | None) -> ExplainedRequest:
    from gatewright.app.cli.dry_run import ChangeLocation, ask_gates, judge_environment, read_contract, stack_environments
    from gatewright.contracts import TaskContract, codec
    from gatewright.ledger.role_bindings import role_contract_summary

    contract = read_contract(request)
    answer = ask_gates(contract, ChangeLocation(), judge_policy=True, publisher=publisher, kind="request")
    role = role_contract_summary(codec.decode(contract, TaskContract))
    judged = judge_environment(answer, request.environment, stack_environments(home))
    return ExplainedRequest(judged.reports, judged.unjudged, role)


def _offered_environments(home: Path | None) -> tuple[str, ...] | None:
    """Return the environments to choose from; ``FOLDER/*`` is expanded to the folders in it."""
    from gatewright.app.cli.dry_run import stack_environments
    from gatewright.tasks.inputs import EVERY

    listed = stack_environments(home)
    if listed is None:
        return None
    found: list[str] = []
    for each in map(Path, listed):
        found += sorted(str(path) for path in each.parent.glob(EVERY) if path.is_dir()) if each.name == EVERY else [str(each)]
    return tuple(found[:_MOST_ENVIRONMENTS])


def _branches(repository: str) -> tuple[str, ...]:
    """Return the full names of the branches of a repository. Raises GatewrightError."""
    import tempfile

    from gatewright.app.cli.settings import AgentSettings
    from gatewright.git.access.credentials import RepositoryAccess
    from gatewright.git.mirror import Mirrors

    with tempfile.TemporaryDirectory(prefix="gatewright-branches-") as scratch:
        access = RepositoryAccess.load(AgentSettings.load().policies, "operator")
        return asyncio.run(_read_branches(Mirrors(Path(scratch), access=access), repository))


async def _read_branches(mirrors: Mirrors, repository: str) -> tuple[str, ...]:
    return await (await mirrors.open(repository)).branches()


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
