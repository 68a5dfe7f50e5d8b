"""``identities``: manage access to the bus while its servers run; also as signed accounts for servers in operator mode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput, LedgerPartitions, grouped
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.clock import SystemClock
from gatewright.errors import MalformedError, UnavailableError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.identity_changes import IdentityOutcome, PublisherStanding
    from gatewright.bus.identities import BusAddress
    from gatewright.bus.operator_mode.files import JwtIdentities

group = typer.Typer(help="Add, revoke and rotate identities of a running bus.", no_args_is_help=True)
Keys = Annotated[Path | None, typer.Option("--keys", metavar="DIR", help="Directory of the identities (default: home folder)")]
Files = Annotated[list[Path] | None, typer.Option("--config", metavar="FILE", help="Rendered server configuration to update")]
PidFile = Annotated[Path | None, typer.Option("--pid", metavar="FILE", help="Process file of the server to reload")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name, such as publisher-payments, worker-2 or reviewer")]
OPERATOR_CONFIG = "operator-mode.conf"
_PUSH_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFiles:
    """The location of identities, and the files to keep in step with them."""

    keys: Keys = None
    config: Files = None
    pid: PidFile = None


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="identities")


@group.command(name="list")
@reported
def list_identities(keys: Keys = None, json_output: JsonOutput = False) -> None:
    """List identities, their public keys and their limits."""
    from gatewright.app.cli.identity_changes import find_servers
    from gatewright.bus import identity_limits
    from gatewright.bus.identity_changes import known
    from gatewright.bus.subjects import MAX_MESSAGE_BYTES

    folder = find_servers(keys, (), None).keys
    found, limits = known(folder), identity_limits.read(folder)
    bounds = {each.name: identity_limits.in_force(each.name, limits) for each in found}
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
        write_line(f"{each.name:<24}  {each.public_key}  {words}{'  replaces ' + each.earlier if each.earlier else ''}")


@group.command()
@reported
def add(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names, such as publisher-payments or worker-2")],
    keys: Keys = None,
    config: Files = None,
    pid: PidFile = None,
    json_output: JsonOutput = False,
) -> None:
    """Create further identities and have the servers accept them."""
    from gatewright.app.cli.identity_changes import change_identities, find_servers, publisher_standings
    from gatewright.bus.identity_changes import add as made

    def add_identities(folder: Path) -> None:
        made(folder, names)

    servers = find_servers(keys, tuple(config or ()), pid)
    done = change_identities(servers, add_identities)
    _print_outcome("added", names, done, publisher_standings(servers, names) if done.confirmed else {}, json_output=json_output)


@group.command()
@reported
def revoke(name: Name, keys: Keys = None, config: Files = None, pid: PidFile = None, json_output: JsonOutput = False) -> None:
    """Revoke an identity immediately.

    An identity that every system needs receives a new key.
    """
    from gatewright.bus import identity_changes

    done = _change_servers(partial(identity_changes.revoke, name=name), keys, config, pid)
    _print_outcome("revoked", [name], done, json_output=json_output)


@group.command()
@reported
def rotate(
    name: Name,
    finish: Annotated[bool, typer.Option("--finish", help="Refuse the old key; all processes use the new one")] = False,
    keys: Keys = None,
    config: Files = None,
    pid: PidFile = None,
    json_output: JsonOutput = False,
) -> None:
    """Give an identity a new key beside the old one.

    Restart its processes one by one, then repeat this command with --finish.
    """
    from gatewright.bus import identity_changes

    act = identity_changes.finish if finish else identity_changes.rotate
    done = _change_servers(partial(act, name=name), keys, config, pid)
    _print_outcome("finished" if finish else "rotated", [name], done, json_output=json_output)


@group.command(name="limit")
@reported
@grouped
def limit_identity(
    name: Name,
    *,
    connections: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum concurrent connections (default: 64; 1024 for roles)")
    ] = None,
    subscriptions: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum subscriptions per connection (default: 500)")
    ] = None,
    payload: Annotated[int | None, typer.Option(metavar="BYTES", help="Maximum message size (default: 8388608)")] = None,
    shipped: Annotated[bool, typer.Option("--shipped", help="Reset to the default limits")] = False,
    files: ServerFiles,
    json_output: JsonOutput = False,
) -> None:
    """Limit the server resources of an identity.

    Limits that you do not name stay as they are.
    """
    from gatewright.bus import identity_changes
    from gatewright.bus.identity_limits import IdentityLimits

    limits = None if shipped else IdentityLimits(connections, subscriptions, payload)
    if limits == IdentityLimits() or (shipped and (connections, subscriptions, payload) != (None, None, None)):
        raise MalformedError("give one limit or more, or --shipped alone", code="invalid_input")
    done = _change_servers(partial(identity_changes.limit, name=name, bounds=limits), files.keys, files.config, files.pid)
    _print_outcome("limited", [name], done, json_output=json_output)


@group.command()
@reported
def check(keys: Keys = None, json_output: JsonOutput = False) -> None:
    """Test that servers accept current keys and refuse revoked ones."""
    from gatewright.app.cli.identity_changes import CHECK_SECONDS, confirm_identities, find_servers, publisher_standings
    from gatewright.bus import identities

    servers = find_servers(keys, (), None)
    offered = confirm_identities(servers, CHECK_SECONDS)
    standings = publisher_standings(servers, identities.public_keys(servers.keys))
    if json_output:
        emit({"offered": offered, "confirmed": True, "publishers": standings})
    else:
        write_line(f"{offered} keys offered: every server accepts and refuses what it should")
        _print_standings({name: standing for name, standing in standings.items() if standing == "unknown"})


@group.command()
@reported
def jwt(
    into: Annotated[Path, typer.Option("--into", metavar="DIR", help="Directory to write to")],
    keys: Keys = None,
    resolver: Annotated[
        Path, typer.Option("--resolver", metavar="DIR", help="Account directory of the server, in its own file system")
    ] = Path("/data/accounts"),
    pools: Annotated[list[str] | None, typer.Option("--pool", help="Additional pool of the roles")] = None,
    partitions: LedgerPartitions = 1,
    self_signed: Annotated[
        bool, typer.Option("--self-signed", help="Let an external operator (nsc) import and sign the accounts")
    ] = False,
    push: Annotated[
        bool, typer.Option("--push", help="Send the accounts to the servers at GATEWRIGHT_NATS_URL, and check")
    ] = False,
    json_output: JsonOutput = False,
) -> None:
    """Export accounts and credentials for NATS operator mode.

    The accounts hold the same permissions, as signed claims. Each identity receives a .creds file.
    """
    from gatewright.bus.topology import DEFAULT_POOL

    if push and self_signed:
        raise MalformedError(
            "--push is for the operator made here; accounts of another are pushed by its tools", code="invalid_input"
        )
    wanted = OperatorFiles(keys, into, resolver, tuple(pools or (DEFAULT_POOL,)), partitions, self_signed, push)
    made, confirmed = write_accounts(wanted)
    if json_output:
        emit(
            {
                "accounts": {name: made.keys[name].public for name in made.accounts},
                "closed": sorted(made.closed),
                "confirmed": confirmed,
            }
        )
        return
    write_line(f"{len(made.accounts)} accounts and {len(made.users)} users in {printable(str(into))}")
    write_line(f"  server     include {OPERATOR_CONFIG} in its configuration, in the place of `accounts`")
    write_line("  processes  GATEWRIGHT_NATS_SEED names the file of an identity in creds/")
    if confirmed:
        write_line("  confirmed  every server accepts and refuses what it should")


def _change_servers(
    act: Callable[[Path], None], keys: Path | None, files: list[Path] | None, pid: Path | None
) -> IdentityOutcome:
    from gatewright.app.cli.identity_changes import change_identities, find_servers

    return change_identities(find_servers(keys, tuple(files or ()), pid), act)


def _print_outcome(
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
        emit({what: names, "written": written, "signalled": done.signalled, "confirmed": done.confirmed, **known})
        return
    write_line(f"{what} {', '.join(names)}")
    for file in done.written:
        write_line(f"  written    {printable(str(file))}")
    if done.confirmed:
        write_line("  confirmed  every server accepts and refuses what it should")
    elif not done.signalled:
        write_line("  not sent   have each server read its configuration anew (SIGHUP), then `gatewright identities check`")
    else:
        write_line("  not asked  set GATEWRIGHT_NATS_URL, then `gatewright identities check`")
    _print_standings(standings or {})


def _print_standings(standings: Mapping[str, PublisherStanding]) -> None:
    lines = {
        "known": "  known      the gatekeeper accepts documents of {name}",
        "unknown": "  unknown    the gatekeeper refuses {name}: list it in policies/publishers.json and restart the gatekeeper",
        "unanswered": "  not asked  no gatekeeper answers: list {name} in policies/publishers.json, then start one",
    }
    for name, standing in standings.items():
        write_line(lines[standing].format(name=printable(name)))


@dataclass(frozen=True, slots=True)
class OperatorFiles:
    """``keys``: by default those of the home folder. ``resolver``: account folder of the server, in its own file system."""

    keys: Path | None
    into: Path
    resolver: Path
    pools: tuple[str, ...]
    partitions: int
    self_signed: bool
    push: bool


def write_accounts(wanted: OperatorFiles) -> tuple[JwtIdentities, bool]:
    """Write the accounts; return them, and whether servers accepted them.

    Raises ConfigurationError, UnavailableError, BusError.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.bus import identities
    from gatewright.bus.operator_mode.files import make_jwt, trust_lines, write_jwt

    place = find_place()
    keys = wanted.keys or identities.bus_keys(place.home)
    now = int(SystemClock().now().timestamp())
    made = make_jwt(keys, wanted.pools, now, self_signed=wanted.self_signed, partitions=wanted.partitions)
    write_jwt(made, wanted.into)
    identities.write_private(wanted.into / OPERATOR_CONFIG, "\n".join(trust_lines(made.trust, wanted.resolver)))
    if wanted.push:
        if place.bus is None:
            raise UnavailableError("no server is known: set GATEWRIGHT_NATS_URL", code="no_stack")
        asyncio.run(_push_accounts(place.bus, keys, made, now))
    return made, wanted.push


async def _push_accounts(address: BusAddress, keys: Path, made: JwtIdentities, now: int) -> None:
    from gatewright.bus import identity_changes
    from gatewright.bus.jetstream.rights import differing
    from gatewright.bus.operator_mode.files import system_credential, token_of
    from gatewright.bus.operator_mode.resolver import give_accounts

    await give_accounts(address, system_credential(keys, now), made)
    gone = identity_changes.to_be_refused(keys)
    # Dated back: a server without the new accounts refuses a token of today for its date alone, which proves nothing.
    refused = [replace(each, token=token_of(keys, each, now - 1)) for each in gone.values()]
    wrong = await differing(address, made.users.values(), refused, _PUSH_SECONDS)
    if wrong:
        raise UnavailableError("; ".join(wrong), code="identities_unconfirmed")
    identity_changes.was_refused(gone)
