"""``prompts``: what models and agents are told."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, reported, say
from gatewright.view.safe_text import printable

prompts = typer.Typer(help="What models and agents are told.", no_args_is_help=True)


class RoleName(StrEnum):
    """The roles that ask models."""

    PM = "pm"
    TECHLEAD = "techlead"
    REVIEWER = "reviewer"
    WORKER = "worker"


class BriefForm(StrEnum):
    """How a worker answers."""

    FILES = "files"
    WORKSPACE = "workspace"


def register(app: typer.Typer) -> None:
    prompts.command("show")(show)
    app.add_typer(prompts, name="prompts")


@reported
def show(
    role: Annotated[RoleName, typer.Argument(metavar="ROLE", help="pm, techlead, reviewer or worker.")],
    contract: Annotated[
        str,
        typer.Option(metavar="FILE|-", help="The task's contract as JSON; for the pm a run request. - reads standard input."),
    ],
    patch: Annotated[Path | None, typer.Option(metavar="FILE", help="For the reviewer: the change that it judges.")] = None,
    form: Annotated[
        BriefForm, typer.Option(help="For the worker: a model answers with files, an agent edits the workspace.")
    ] = BriefForm.WORKSPACE,
    json_output: JsonOutput = False,
) -> None:
    """Print exactly what a role would be sent: the system prompt, and the order. Nothing is sent."""
    from gatewright.app.cli.checking.documents import read_document
    from gatewright.app.cli.checking.prompting import prompt_of
    from gatewright.service.settings import ServiceSettings

    folder = ServiceSettings.load().prompts
    prompt = prompt_of(role.value, read_document(contract), folder=folder, form=form.value, patch=patch)
    if json_output:
        emit({"system": prompt.system, "user": prompt.order, "directive": prompt.directive, "digests": dict(prompt.digests)})
        return
    for title, text in (("system", prompt.system), ("order", prompt.order)):
        say(f"--- {title} ---")
        for line in text.splitlines():
            say(printable(line))
    for name, digest in prompt.digests.items():
        say(f"--- sha256 of {name}: {digest}")
