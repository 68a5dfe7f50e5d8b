"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.option_groups import typer_option
from gatewright.order_form.run_options import row


def known_runs(incomplete: str) -> list[str]:
    """For the shell's completion: the runs whose bundles lie in the home folder, newest first, without asking any system."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.sources import RUNS_FOLDER
    from gatewright.errors import GatewrightError

    try:
        folders = list((find_place().home / RUNS_FOLDER).glob("run-*"))
    except GatewrightError:
        return []
    newest_first = sorted(folders, key=lambda folder: folder.stat().st_mtime, reverse=True)
    return [folder.name for folder in newest_first if folder.name.startswith(incomplete)]


class Class(StrEnum):
    """Priority classes of tasks."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
LedgerPartitions = Annotated[
    int,
    typer.Option(
        min=1,
        max=64,
        envvar="GATEWRIGHT_LEDGER_PARTITIONS",
        help="In how many streams the ledger lies; it stays as it was begun.",
    ),
]
Environments = Annotated[list[Path] | None, typer_option(row("env"))]
RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="A run id or its beginning; the newest run if left out.", autocompletion=known_runs),
]
BundleArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[BUNDLE|RUN]",
        help="A bundle's folder or .zip, its address in a store (s3://, https://), or a run of this home (default: newest).",
        autocompletion=known_runs,
    ),
]
