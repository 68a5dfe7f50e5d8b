"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Class(StrEnum):
    """Priority classes of tasks."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Environments = Annotated[
    list[Path] | None,
    typer.Option("--env", metavar="DIR", help="A virtual environment or prefix that commands see read-only."),
]
RunArgument = Annotated[
    str | None, typer.Argument(metavar="[RUN]", help="A run id or its beginning; the newest run if left out.")
]
