"""``keys``: keys that sign bundles, keys trusted for verification, and identities of the bus."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.clock import SystemClock
from gatewright.errors import MalformedError
from gatewright.view.safe_text import printable

group = typer.Typer(help="Manage the keys of this host and of the bus.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="keys")


@group.command()
@reported
def init(json_output: JsonOutput = False) -> None:
    """Create the signing key of this home folder."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.home import make_home
    from gatewright.evidence.signing import keyring, keys

    place = find_place()
    make_home(place.home)
    new = not place.key.exists()
    key = keyring.make(place.home, place.key).public
    public = keys.public_path(place.key)
    if json_output:
        emit({"key_id": key.key_id, "created": new, "public_key": str(public)})
        return
    write_line(f"{'made' if new else 'found'} {key.key_id}")
    write_line(f"  public key {printable(str(public))}  (give it to those who verify your bundles)")


@group.command()
@reported
def rotate(
    discard: Annotated[
        bool, typer.Option("--discard-old", help="Delete the old private key; its lost bundles cannot be rebuilt")
    ] = False,
    json_output: JsonOutput = False,
) -> None:
    """Sign with a new key from now on.

    Verification still accepts the old public key.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.evidence.signing import keyring

    place = find_place()
    old, new = keyring.rotate(place.home, place.key, SystemClock().now(), discard=discard)
    if json_output:
        emit({"key_id": new.key_id, "retired": old.key_id, "discarded": discard})
    else:
        write_line(f"signing key {new.key_id}")
        write_line(f"  retired   {old.key_id}  (still accepted for verifying)")
    note(
        "gatekeepers of this home folder sign with it from their next bundle on; one whose key lies elsewhere (GATEWRIGHT_KEY) "
        "has to be given it"
    )


@group.command(name="list")
@reported
def list_keys(json_output: JsonOutput = False) -> None:
    """List the signing key and all trusted keys."""
    from gatewright.app.cli.context import find_place
    from gatewright.evidence.signing import keyring

    place = find_place()
    found = keyring.known_keys(place.home, place.key)
    if json_output:
        emit([{"key_id": k.key_id, "state": k.state, "created": k.created, "retired": k.retired} for k in found])
        return
    for key in found:
        times = f"{key.created or 'unknown':<24}  {key.retired}"
        write_line(f"{key.state:<8}  {key.key_id}  {times.rstrip()}")
    if not found:
        write_line("no key yet: gatewright keys init")


@group.command()
@reported
def export(
    key_id: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Key id or its beginning (default: signing key)")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="File to write")] = None,
    json_output: JsonOutput = False,
) -> None:
    """Print a public key as PEM."""
    from gatewright.app.cli.context import find_place
    from gatewright.evidence.signing import keyring, keys

    place = find_place()
    ring = keyring.known_keys(place.home, place.key)
    wanted = [key for key in ring if (key.key_id.startswith(key_id) if key_id else key.state == "signing")]
    if len(wanted) != 1:
        words = "no key yet: gatewright keys init" if key_id is None else f"{len(wanted)} keys begin with {key_id!r}"
        raise MalformedError(words, code="key_unknown")
    pem = keys.load_public(wanted[0].file).pem()
    if output is not None:
        output.write_bytes(pem)
    if json_output:
        emit({"key_id": wanted[0].key_id, "public_key": pem.decode()})
    elif output is None:
        write_line(pem.decode().rstrip())


@group.command()
@reported
def bus(
    into: Annotated[
        Path | None, typer.Option("--into", metavar="DIR", help="Directory to write to (default: home folder)")
    ] = None,
    publishers: Annotated[
        list[str] | None, typer.Option("--publisher", metavar="NAME", help="Name of an additional publisher")
    ] = None,
    processes: Annotated[
        list[str] | None, typer.Option("--process", metavar="NAME", help="Additional process of a role, such as worker-2")
    ] = None,
    json_output: JsonOutput = False,
) -> None:
    """Create missing NATS identities.

    These are one identity per role, and those of publishers, observers, operators and the provisioner.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.home import make_home
    from gatewright.bus import identities

    named = [*map(identities.publisher_identity, publishers or ()), *map(identities.checked_process, processes or ())]
    if into is None:
        place = find_place()
        make_home(place.home)
        into = identities.bus_keys(place.home)
    made = identities.make(into, (*identities.STANDING, *named))
    found = identities.public_keys(into)
    if json_output:
        emit({"directory": str(into), "made": made, "public_keys": found})
        return
    for identity, key in found.items():
        write_line(f"{'made ' if identity in made else 'found'}  {identity:<20}  {key}")
    write_line(f"  give each process its own file of {printable(str(into))} (GATEWRIGHT_NATS_SEED), and the server")
    write_line("  what `gatewright topology --format nats-conf` prints; it holds the public keys only")
