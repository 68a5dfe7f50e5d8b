"""``init``, ``doctor``, ``image`` and ``completion``: getting a host and a shell ready, and finding out why a host is not."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable


class Shell(StrEnum):
    """Shells that can complete commands, options and run ids."""

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
    """Make the home folder and the signing key of this host. Harmless when they exist; `run` and `up` do it too."""
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
    say(f"{'made' if new else 'found'} {printable(str(home))}")
    say(f"  signing key {key.key_id}")
    say(f"  public key  {printable(str(public))}  (give it to those who verify your bundles)")
    say("  next: gatewright doctor")


@reported
def doctor(
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Look at a whole installation over the bus, as operator, instead of at this host.")
    ] = False,
    pools: Annotated[list[str] | None, typer.Option("--pool", help="With --cluster: a pool beside `default`.")] = None,
    json_output: JsonOutput = False,
) -> None:
    """Check everything that a run needs on this host. Exit code 3 when something is missing; each finding says what to do."""
    if cluster:
        _doctor_cluster(("default", *(pools or ())), json_output=json_output)
        return
    from gatewright.app.cli.operations.diagnose import diagnose
    from gatewright.app.cli.outcome import Exit

    findings = diagnose()
    good = all(finding.ok or not finding.needed for finding in findings)
    if json_output:
        emit({"ok": good, "checks": findings})
    else:
        for finding in findings:
            say(f"{'✔' if finding.ok else '✘' if finding.needed else '·'} {finding.name:<12} {printable(finding.detail)}")
            if not finding.ok:
                say(f"  {'':<12} {finding.hint}")
        say("all good" if good else "not ready")
    raise typer.Exit(Exit.GOOD if good else Exit.INFRASTRUCTURE)


def _doctor_cluster(pools: tuple[str, ...], *, json_output: bool) -> None:
    """Exit code 3 when a finding is an error; warnings and what is good to know leave it 0."""
    from gatewright.app.cli.operations.cluster import look_at_cluster
    from gatewright.app.cli.outcome import Exit
    from gatewright.app.cluster.judging import judge

    look = look_at_cluster(pools)
    findings = judge(look)
    good = all(finding.severity != "error" for finding in findings)
    processes = sorted((each.role, each.version, each.id, each.metadata.get("identity", "")) for each in look.processes)
    if json_output:
        told = [dict(zip(("role", "version", "id", "identity"), each, strict=True)) for each in processes]
        facts = {"server": look.server, "round_trip_ms": round(look.round_trip * 1000, 1), "processes": told}
        emit({"ok": good, "findings": findings, **facts})
    else:
        say(f"nats-server {look.server}, an answer takes {look.round_trip * 1000:.0f} ms; {len(processes)} processes")
        for role, version, name, identity in processes:
            say(f"  {printable(role):<12} {printable(version):<10} {printable(name)}  {printable(identity)}")
        for finding in findings:
            say(f"{finding.severity:<8} {printable(finding.about)}: {printable(finding.detail)} [{finding.code}]")
            say(f"  {finding.hint}")
        say("all good" if not findings else "works" if good else "does not work as it should")
    raise typer.Exit(Exit.GOOD if good else Exit.INFRASTRUCTURE)


@reported
def image(
    name: Annotated[str, typer.Argument(help="NAME@sha256:..., as the engine has it.")],
    engine: Annotated[str, typer.Option(help="The engine's command.")] = "docker",
    json_output: JsonOutput = False,
) -> None:
    """Unpack a container image by its digest, for profiles in policies/environments.json that name it. Nothing of it is run."""
    import asyncio

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
        say(f"{'unpacked' if made else 'found'} {printable(str(folder))}")


@reported
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell to write it for.")],
    json_output: JsonOutput = False,
) -> None:
    """Print the script that completes commands, options and run ids; `gatewright --install-completion` installs it.

    Example: source <(gatewright completion bash)
    """
    from typer._completion_shared import get_completion_script

    script = get_completion_script(prog_name="gatewright", complete_var="_GATEWRIGHT_COMPLETE", shell=shell.value)
    if json_output:
        emit({"shell": shell.value, "script": script})
    else:
        say(script)
