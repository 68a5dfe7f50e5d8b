"""``hooks``: git hooks that judge a commit and a push against the active contract."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

hooks = typer.Typer(no_args_is_help=True, help="Git hooks that judge a commit and a push against the active contract.")


def register(app: typer.Typer) -> None:
    hooks.command()(install)
    hooks.command()(uninstall)
    hooks.command()(status)
    hooks.command(hidden=True)(run)
    app.add_typer(hooks, name="hooks")


@reported
def install(
    *,
    contract: Annotated[
        str | None, typer.Option(metavar="FILE", help="The contract that holds in this repository from now on.")
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="REF", help="Where its change begins.", show_default="the contract's baseline")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Keep hooks that are there already, and run them first.")] = False,
    json_output: JsonOutput = False,
) -> None:
    """Put a pre-commit and a pre-push hook into the repository that you stand in."""
    from gatewright.app.cli.checking import git_hooks

    found = git_hooks.find_hooks(Path.cwd())
    baseline = git_hooks.install(found, contract, base, force=force)
    if json_output:
        emit({"hooks": str(found.folder), "contract": str(found.contract), "baseline": baseline})
        return
    say(f"installed {' and '.join(git_hooks.NAMES)} in {printable(str(found.folder))}")
    say(f"  the contract is {printable(str(found.contract))}, its change begins at {baseline}")
    say("  they can be bypassed with --no-verify; the gatekeeper judges again in any case")


@reported
def uninstall(json_output: JsonOutput = False) -> None:
    """Take the hooks away; what was there before comes back."""
    from gatewright.app.cli.checking import git_hooks

    removed = git_hooks.uninstall(git_hooks.find_hooks(Path.cwd()))
    if json_output:
        emit({"removed": removed})
    else:
        say(f"removed {', '.join(removed)}" if removed else "there were no hooks of ours")


@reported
def status(json_output: JsonOutput = False) -> None:
    """Which hooks are there, and which contract is active."""
    from gatewright.app.cli.checking import git_hooks

    found = git_hooks.find_hooks(Path.cwd())
    states = {name: found.state(name) for name in git_hooks.NAMES}
    baseline = found.baseline.read_text().strip() if found.baseline.exists() else None
    if json_output:
        emit({"hooks": states, "contract": str(found.contract) if baseline else None, "baseline": baseline})
        return
    for name, state in states.items():
        say(f"{name:<12}{state}")
    say(f"contract    {printable(str(found.contract))} from {baseline}" if baseline else "contract    none is active")


@reported
def run(name: Annotated[str, typer.Argument(metavar="HOOK")]) -> None:
    """What the hooks call."""
    from gatewright.app.cli.checking import git_hooks
    from gatewright.app.cli.checking.explaining import verdict_lines
    from gatewright.app.cli.outcome import Exit

    found = git_hooks.find_hooks(Path.cwd())
    pushed = name == "pre-push"
    answers = git_hooks.judge_pushed(found, sys.stdin) if pushed else [("commit", git_hooks.judge_staged(found))]
    for what, answer in answers:
        if not answer.passed:
            say(printable(f"gatewright: this {what} does not keep to the active contract"), stream=sys.stderr)
            for line in verdict_lines(answer):
                say(printable(line), stream=sys.stderr)
    raise typer.Exit(Exit.GOOD if all(answer.passed for _, answer in answers) else Exit.FAILED)
