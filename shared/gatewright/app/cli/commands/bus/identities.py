"""``identities``: who may use the bus, changed while its servers run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.option_groups import grouped
from gatewright.app.cli.options import JsonOutput, LedgerPartitions
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.operations.identities import IdentityOutcome, PublisherStanding

group = typer.Typer(help="Identities of the bus: added, revoked and replaced while its servers run.", no_args_is_help=True)

Keys = Annotated[
    Path | None, typer.Option("--keys", metavar="DIR", help="Where the identities are; the home folder's if left out.")
]
Files = Annotated[
    list[Path] | None,
    typer.Option("--config", metavar="FILE", help="A rendered configuration to keep up to date; may be given again."),
]
PidFile = Annotated[
    Path | None, typer.Option("--pid", metavar="FILE", help="The server's process file: it is told to read its configuration.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFiles:
    """Where identities lie, and what is kept up to date with them."""

    keys: Keys = None
    config: Files = None
    pid: PidFile = None


Name = Annotated[str, typer.Argument(metavar="NAME", help="publisher-payments, worker-2, reviewer, ...")]


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="identities")


@group.command(name="list")
@reported
def list_identities(keys: Keys = None, json_output: JsonOutput = False) -> None:
    """Every identity, its public key, the one before while that is accepted, and what the server lets it take."""
    from dataclasses import asdict

    from gatewright.app.cli.operations.identities import find_servers
    from gatewright.bus import identity_limits
    from gatewright.bus.identity_changes import known
    from gatewright.bus.subjects import MAX_MESSAGE_BYTES

    folder = find_servers(keys, (), None).keys
    found, said = known(folder), identity_limits.read(folder)
    bounds = {each.name: identity_limits.in_force(each.name, said) for each in found}
    if json_output:
        emit(
            [
                {
                    "identity": each.name,
                    "public_key": each.public_key,
                    "earlier": each.earlier,
                    "limits": asdict(bounds[each.name]) | {"payload": bounds[each.name].payload or MAX_MESSAGE_BYTES},
                }
                for each in found
            ]
        )
        return
    for each in found:
        own = bounds[each.name]
        payload = own.payload or MAX_MESSAGE_BYTES
        size = f"{payload / (1 << 20):g} MiB" if payload >= 1 << 20 else f"{payload} bytes"
        words = f"{own.connections} connections, {own.subscriptions} subscriptions of each, messages of {size}"
        say(f"{each.name:<24}  {each.public_key}  {words}{'  replaces ' + each.earlier if each.earlier else ''}")


@group.command()
@reported
def add(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="publisher-payments, worker-2, ...")],
    keys: Keys = None,
    config: Files = None,
    pid: PidFile = None,
    json_output: JsonOutput = False,
) -> None:
    """Make further identities, and have the servers accept them."""
    from gatewright.app.cli.operations.identities import change, find_servers, publisher_standings
    from gatewright.bus.identity_changes import add as made

    def changed(folder: Path) -> None:
        made(folder, names)

    servers = find_servers(keys, tuple(config or ()), pid)
    done = change(servers, changed)
    _tell("added", names, done, publisher_standings(servers, names) if done.confirmed else {}, json_output=json_output)


@group.command()
@reported
def revoke(name: Name, keys: Keys = None, config: Files = None, pid: PidFile = None, json_output: JsonOutput = False) -> None:
    """Have the servers refuse an identity at once; one that every system has is given a new key."""
    from gatewright.bus import identity_changes

    done = _change(partial(identity_changes.revoke, name=name), keys, config, pid)
    _tell("revoked", [name], done, json_output=json_output)


@group.command()
@reported
def rotate(
    name: Name,
    finish: Annotated[bool, typer.Option("--finish", help="All its processes have the new key: refuse the old one.")] = False,
    keys: Keys = None,
    config: Files = None,
    pid: PidFile = None,
    json_output: JsonOutput = False,
) -> None:
    """Give an identity a new key beside the old one; start its processes anew one by one, and then --finish."""
    from gatewright.bus import identity_changes

    act = identity_changes.finish if finish else identity_changes.rotate
    done = _change(partial(act, name=name), keys, config, pid)
    _tell("finished" if finish else "rotated", [name], done, json_output=json_output)


@group.command(name="limit")
@reported
@grouped
def limit_identity(
    name: Name,
    *,
    connections: Annotated[int | None, typer.Option(metavar="N", help="At once; 64 as shipped, 1024 of a role.")] = None,
    subscriptions: Annotated[int | None, typer.Option(metavar="N", help="Of each connection; 500 as shipped.")] = None,
    payload: Annotated[int | None, typer.Option(metavar="BYTES", help="Of one message; 8388608 as shipped.")] = None,
    shipped: Annotated[bool, typer.Option("--shipped", help="Take away what was said before.")] = False,
    files: ServerFiles,
    json_output: JsonOutput = False,
) -> None:
    """Bound what an identity may take of the servers; what is not named stays as it is."""
    from gatewright.bus import identity_changes
    from gatewright.bus.identity_limits import IdentityLimits
    from gatewright.errors import MalformedError

    said = None if shipped else IdentityLimits(connections, subscriptions, payload)
    if said == IdentityLimits() or (shipped and (connections, subscriptions, payload) != (None, None, None)):
        raise MalformedError("say one limit or more, or --shipped and none", code="invalid_input")
    done = _change(partial(identity_changes.limit, name=name, said=said), files.keys, files.config, files.pid)
    _tell("limited", [name], done, json_output=json_output)


@group.command()
@reported
def check(keys: Keys = None, json_output: JsonOutput = False) -> None:
    """Offer every server every key: those that are there have to be accepted, those that were revoked refused."""
    from gatewright.app.cli.operations.identities import CHECK_SECONDS, confirm, find_servers, publisher_standings
    from gatewright.bus import identities

    servers = find_servers(keys, (), None)
    offered = confirm(servers, CHECK_SECONDS)
    standings = publisher_standings(servers, identities.public_keys(servers.keys))
    if json_output:
        emit({"offered": offered, "confirmed": True, "publishers": standings})
    else:
        say(f"{offered} keys offered: every server accepts and refuses what it should")
        _tell_standings({name: standing for name, standing in standings.items() if standing == "unknown"})


@group.command()
@reported
def jwt(
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="Where accounts and credentials are put.")],
    keys: Keys = None,
    resolver: Annotated[
        Path, typer.Option("--resolver", metavar="DIR", help="Where the server keeps accounts, as it sees it.")
    ] = Path("/data/accounts"),
    pools: Annotated[list[str] | None, typer.Option("--pool", help="A pool of the roles; may be given again.")] = None,
    partitions: LedgerPartitions = 1,
    self_signed: Annotated[
        bool, typer.Option("--self-signed", help="For an operator of yours, whose tools (nsc) import accounts and sign them.")
    ] = False,
    push: Annotated[bool, typer.Option("--push", help="Give them to the servers at GATEWRIGHT_NATS_URL, and see.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """For servers in operator mode: the same accounts and permissions as signed claims, and a .creds file for each identity."""
    from gatewright.app.cli.operations.operator_accounts import CONFIG_FILE, OperatorFiles, write_accounts
    from gatewright.bus.topology import DEFAULT_POOL
    from gatewright.errors import MalformedError

    if push and self_signed:
        raise MalformedError(
            "--push is for the operator made here; accounts of another are pushed by its tools", code="invalid_input"
        )
    wanted = OperatorFiles(keys, into, resolver, tuple(pools or (DEFAULT_POOL,)), partitions, self_signed, push)
    made, told = write_accounts(wanted)
    if json_output:
        emit(
            {
                "accounts": {name: made.keys[name].public for name in made.accounts},
                "closed": sorted(made.closed),
                "confirmed": told,
            }
        )
        return
    say(f"{len(made.accounts)} accounts and {len(made.users)} users in {printable(str(into))}")
    say(f"  server     include {CONFIG_FILE} in its configuration, in the place of `accounts`")
    say("  processes  GATEWRIGHT_NATS_SEED names the file of an identity in creds/")
    if told:
        say("  confirmed  every server accepts and refuses what it should")


def _change(changed: Callable[[Path], None], keys: Path | None, files: list[Path] | None, pid: Path | None) -> IdentityOutcome:
    from gatewright.app.cli.operations.identities import change, find_servers

    return change(find_servers(keys, tuple(files or ()), pid), changed)


def _tell(
    what: str,
    names: list[str],
    done: IdentityOutcome,
    standings: Mapping[str, PublisherStanding] | None = None,
    *,
    json_output: bool,
) -> None:
    if json_output:
        written = [str(file) for file in done.written]
        known = {} if standings is None else {"publishers": standings}
        emit({what: names, "written": written, "told": done.told, "confirmed": done.confirmed, **known})
        return
    say(f"{what} {', '.join(names)}")
    for file in done.written:
        say(f"  written    {printable(str(file))}")
    if done.confirmed:
        say("  confirmed  every server accepts and refuses what it should")
    elif not done.told:
        say("  not told   have each server read its configuration anew (SIGHUP), then `gatewright identities check`")
    else:
        say("  not asked  set GATEWRIGHT_NATS_URL, then `gatewright identities check`")
    _tell_standings(standings or {})


def _tell_standings(standings: Mapping[str, PublisherStanding]) -> None:
    lines = {
        "known": "  known      the gatekeeper accepts documents of {name}",
        "unknown": "  unknown    the gatekeeper refuses {name}: list it in policies/publishers.json and restart the gatekeeper",
        "unanswered": "  not asked  no gatekeeper answers: list {name} in policies/publishers.json, then start one",
    }
    for name, standing in standings.items():
        say(lines[standing].format(name=printable(name)))
