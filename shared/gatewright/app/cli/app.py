"""The table of commands: each group is a module that registers its commands.

Each start loads all of these modules. They import at their top only what ``--help`` needs, and all else where it is used.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import typer

from gatewright.app.cli import (
    agents,
    backups,
    check,
    console,
    doctor,
    evidence,
    forge,
    hooks,
    identities,
    keys,
    merge,
    prompts,
    queues,
    results,
    retention,
    run_context,
    schemas,
    show,
    stack,
    top,
    topology,
)
from gatewright.app.cli.help_screen import HelpGroup, use_plain_help
from gatewright.app.cli.people import deciding, sign_agent
from gatewright.app.cli.run import commands as run
from gatewright.version import __version__


class ProgramHelp(HelpGroup):
    """The help of the program: each command in one panel, the most used ones first."""

    panels: ClassVar = {
        "Start": ("run", "plan", "review-commits", "test", "research", "init", "doctor", "up", "down", "status"),
        "Changes": ("watch", "show", "runs", "submit", "abort", "revert", "check", "refs", "hooks", "policy", "context"),
        "People": ("approvals", "review", "top", "console", "sign-agent", "summon"),
        "Evidence": (
            "verify",
            "verify-commit",
            "report",
            "fetch",
            "publish",
            "deploy",
            "replay",
            "tests",
            "attach",
            "gc",
            "hold",
        ),
        "System": (
            *("agents", "queue", "merge", "forge", "budgets", "dead", "keys", "identities", "topology", "backup", "restore"),
            *("schema", "prompts", "image", "mcp", "completion"),
        ),
    }


app = typer.Typer(
    name="gatewright",
    cls=ProgramHelp,
    help="Let coding agents change your code without trusting them.",
    epilog="Exit codes: 0 success, 1 run or check failed, 2 bad input, 3 infrastructure missing.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"gatewright {__version__}")
        raise typer.Exit


@app.callback()
def gatewright(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version")] = False,
) -> None:
    pass


for module in (
    run,
    agents,
    deciding,
    run_context,
    show,
    stack,
    evidence,
    results,
    retention,
    schemas,
    prompts,
    topology,
    identities,
    queues,
    merge,
    keys,
    check,
    hooks,
    backups,
    console,
    forge,
    sign_agent,
    top,
    doctor,
):
    module.register(app)
use_plain_help(app)
