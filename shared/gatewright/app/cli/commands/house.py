"""``init``, ``doctor`` and ``completion``: getting a host and a shell ready, and finding out why a host is not."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gatewright.app.cli.commands.options import JsonOutput
from gatewright.app.cli.output import emit, printable, reported, say


class Shell(StrEnum):
    """Shells that can complete commands, options and run ids."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    app.command()(init)
    app.command()(doctor)
    app.command()(completion)


@reported
def init(json_output: JsonOutput = False) -> None:
    """Make the home folder and the signing key of this host. Harmless when they exist; `run` and `up` do it too."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.home import make_home
    from gatewright.evidence.signing import keyring, keys

    place = find_place()
    home, new = place.home, make_home(place.home, place.here)
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
def doctor(json_output: JsonOutput = False) -> None:
    """Check everything that a run needs on this host. Exit code 3 when something is missing; each finding says what to do."""
    from gatewright.app.cli.operations.diagnose import diagnose
    from gatewright.app.cli.outcome import Exit

    findings = diagnose()
    good = all(finding.ok for finding in findings)
    if json_output:
        emit({"ok": good, "checks": findings})
    else:
        for finding in findings:
            say(f"{'✔' if finding.ok else '✘'} {finding.name:<12} {printable(finding.detail)}")
            if not finding.ok:
                say(f"  {'':<12} {finding.hint}")
        say("all good" if good else "not ready")
    raise typer.Exit(Exit.GOOD if good else Exit.INFRASTRUCTURE)


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
