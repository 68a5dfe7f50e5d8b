"""``init``, ``doctor``, ``image`` and ``completion``: prepare a host and a shell, and find what is missing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer._completion_shared import get_completion_script

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.outcome import Exit
from gatewright.app.cli.output import emit, reported, write_line
from gatewright.errors import ConfigurationError, UnavailableError
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.app.cli.context import CommandContext
    from gatewright.app.cluster.asking import ClusterLook
    from gatewright.bus.identities import BusAddress

_PATIENCE = 5.0


class Shell(StrEnum):
    """Shells with completion of commands, options and run ids."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(doctor)
    app.command()(image)
    app.command()(completion)


@reported
def init(json_output: JsonOutput = False) -> None:
    """Create the home folder and signing key of this host.

    Existing files stay as they are. `run` and `up` do the same when needed.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.home import make_home
    from gatewright.evidence.signing import keyring, keys

    place = find_place()
    home, new = place.home, make_home(place.home)
    key = keyring.make(home, place.key).public
    public = keys.public_path(place.key)
    if json_output:
        emit({"home": str(home), "created": new, "key_id": key.key_id, "public_key": str(public)})
        return
    write_line(f"{'made' if new else 'found'} {printable(str(home))}")
    write_line(f"  signing key {key.key_id}")
    write_line(f"  public key  {printable(str(public))}  (give it to those who verify your bundles)")
    write_line("  next: gatewright doctor")


@reported
def doctor(
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Check a whole installation over the bus instead, as operator")
    ] = False,
    pools: Annotated[list[str] | None, typer.Option("--pool", help="With --cluster: additional pool to check")] = None,
    json_output: JsonOutput = False,
) -> None:
    """Check that this host has everything that runs need.

    Each finding names the next step. Exit code 3 means that something is missing.
    """
    if cluster:
        _doctor_cluster(("default", *(pools or ())), json_output=json_output)
        return
    from gatewright.app.cli.diagnosis import diagnose

    findings = diagnose()
    good = all(finding.ok or not finding.needed for finding in findings)
    if json_output:
        emit({"ok": good, "checks": findings})
    else:
        for finding in findings:
            mark = "✔" if finding.ok else "✘" if finding.needed else "·"
            write_line(f"{mark} {finding.name:<12} {printable(finding.detail)}")
            if not finding.ok:
                write_line(f"  {'':<12} {finding.hint}")
        write_line("all good" if good else "not ready")
    raise typer.Exit(Exit.GOOD if good else Exit.INFRASTRUCTURE)


def _doctor_cluster(pools: tuple[str, ...], *, json_output: bool) -> None:
    """Print the findings. An error ends with exit code 3; warnings and notes end with 0."""
    from gatewright.app.cluster.judging import judge

    look = look_at_cluster(pools)
    findings = judge(look)
    good = all(finding.severity != "error" for finding in findings)
    processes = sorted((each.role, each.version, each.id, each.metadata.get("identity", "")) for each in look.processes)
    if json_output:
        rows = [dict(zip(("role", "version", "id", "identity"), each, strict=True)) for each in processes]
        facts = {"server": look.server, "round_trip_ms": round(look.round_trip * 1000, 1), "processes": rows}
        emit({"ok": good, "findings": findings, **facts})
    else:
        write_line(f"nats-server {look.server}, an answer takes {look.round_trip * 1000:.0f} ms; {len(processes)} processes")
        for role, version, name, identity in processes:
            write_line(f"  {printable(role):<12} {printable(version):<10} {printable(name)}  {printable(identity)}")
        for finding in findings:
            write_line(f"{finding.severity:<8} {printable(finding.about)}: {printable(finding.detail)} [{finding.code}]")
            write_line(f"  {finding.hint}")
        write_line("all good" if not findings else "works" if good else "does not work as it should")
    raise typer.Exit(Exit.GOOD if good else Exit.INFRASTRUCTURE)


@reported
def image(
    name: Annotated[str, typer.Argument(help="Image by digest, as NAME@sha256:HEX")],
    engine: Annotated[str, typer.Option(metavar="CMD", help="Command of the container engine")] = "docker",
    json_output: JsonOutput = False,
) -> None:
    """Unpack a container image for environment profiles.

    Profiles in policies/environments.json name the image by its digest. This command runs nothing from the image.
    """
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.home import make_home
    from gatewright.app.cli.settings import engine_environment
    from gatewright.app.environments.image_unpacking import unpack_image

    place = find_place()
    make_home(place.home)
    folder, made = asyncio.run(unpack_image(place.home.resolve(), name, engine, engine_environment()))
    if json_output:
        emit({"image": name, "folder": str(folder), "unpacked": made})
    else:
        write_line(f"{'unpacked' if made else 'found'} {printable(str(folder))}")


@reported
def completion(
    shell: Annotated[Shell, typer.Argument(help="Shell to write the script for")],
    json_output: JsonOutput = False,
) -> None:
    """Print the completion script of a shell.

    `gatewright --install-completion` installs it for the current shell. The script completes commands, options and run
    ids.

        source <(gatewright completion bash)
    """
    script = get_completion_script(prog_name="gatewright", complete_var="_GATEWRIGHT_COMPLETE", shell=shell.value)
    if json_output:
        emit({"shell": shell.value, "script": script})
    else:
        write_line(script)


def look_at_cluster(pools: tuple[str, ...]) -> ClusterLook:
    """Examine the bus that was named, or else that of the home folder's stack. Raises UnavailableError, ConfigurationError."""
    from gatewright.app.cli.context import find_place

    return asyncio.run(see_cluster(find_place(), pools))


def for_observer(place: CommandContext, seed: Path | None) -> CommandContext:
    """Return the context with the identity of an observer; for a bus that was named, that of ``seed``.

    Raises ConfigurationError (``identity_invalid``) for the seed of another identity.
    """
    from gatewright.bus.identities import OBSERVER
    from gatewright.bus.identities import load as load_seed

    if place.bus is None or seed is None:
        return place
    if (named := load_seed(seed).identity) != OBSERVER:
        raise ConfigurationError(
            f"{seed} is the seed of {named}: queues and roles are seen by {OBSERVER}", code="identity_invalid"
        )
    return replace(place, bus=replace(place.bus, seed=seed))


async def see_cluster(place: CommandContext, pools: tuple[str, ...]) -> ClusterLook:
    """Examine the bus as ``look_at_cluster`` does, from inside a running event loop."""
    from gatewright.app.stack import state
    from gatewright.bus.identities import OPERATOR

    address = place.bus
    if address is None:
        running = state.read(place.home)
        if running is None:
            raise UnavailableError("no stack runs here: set GATEWRIGHT_NATS_URL, or start one", code="no_stack")
        address = running.address(OPERATOR)
    return await _look_as_observer(address, pools)


async def _look_as_observer(address: BusAddress, pools: tuple[str, ...]) -> ClusterLook:
    from gatewright.app.cluster.asking import ask_cluster
    from gatewright.bus.identities import OBSERVER, OPERATOR
    from gatewright.bus.jetstream.connection import Connection

    connection = await Connection.open(address, name="doctor", patience=_PATIENCE)
    try:
        credential = connection.credential
        if credential is not None and credential.identity not in (OPERATOR, OBSERVER):
            raise ConfigurationError(
                f"an operator or an observer may look at it all, and this is {credential.identity}: "
                "set GATEWRIGHT_NATS_SEED to observer.nk",
                code="operator_needed",
            )
        return await ask_cluster(connection, pools)
    finally:
        await connection.close()
