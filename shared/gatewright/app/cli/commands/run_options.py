"""The options of ``gatewright run``: what each may be, and what its help says."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gatewright.app.cli.commands.options import Class


class Landing(StrEnum):
    """Where a proven change goes."""

    BRANCH = "branch"
    TARGET = "target"
    NONE = "none"


class PackName(StrEnum):
    """How strict the policy is."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Kind(StrEnum):
    """Kinds of change that each need the contract's leave."""

    BINARY = "binary"
    EXECUTABLE = "executable"
    MODE_CHANGE = "mode_change"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    GITATTRIBUTES = "gitattributes"
    GITMODULES = "gitmodules"
    LARGE_FILE = "large_file"
    LARGE_DIFF = "large_diff"


RequestWords = Annotated[str, typer.Argument(metavar="REQUEST", help="What is to be done, in words.")]
RepositoryOption = Annotated[
    str | None, typer.Option(metavar="PATH|URL", help="The repository; by default the one you stand in.")
]
BaselineRef = Annotated[str, typer.Option(help="The branch, tag or commit to start from.")]
AllowedPaths = Annotated[
    list[str] | None, typer.Option(metavar="PATH", help="A file or directory that may change (repeatable).")
]
AllowedTests = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-tests",
        "--allow-protected",
        metavar="PATH",
        help="A test, fixture or lint configuration that may change too; --allow is not needed for it (repeatable).",
    ),
]
AllowDependencies = Annotated[
    bool, typer.Option("--allow-dependencies", help="Manifests and lock files inside the paths may change.")
]
AllowedKinds = Annotated[
    list[Kind] | None, typer.Option(metavar="KIND", help="Open a kind of change: " + ", ".join(Kind) + " (repeatable).")
]
Commands = Annotated[
    list[str] | None,
    typer.Option("--exec", metavar="CMD", help="A command that makes the change; one for each attempt (repeatable)."),
]
Patch = Annotated[str | None, typer.Option(metavar="FILE|-", help="A diff that is the change; - is a pipe.")]
Replies = Annotated[
    list[str] | None,
    typer.Option(metavar="FILE|-", help="A model's reply that holds the files; one for each attempt (repeatable)."),
]
HeadBranch = Annotated[
    str | None,
    typer.Option(metavar="BRANCH", help="Commits that exist: what BRANCH adds to --ref, squashed into one change."),
]
Approval = Annotated[Path | None, typer.Option(metavar="FILE", help="A person's signed approval: see gatewright approve.")]
ProvidedFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--provide",
        metavar="FILE",
        help="A generated file of your checkout that git ignores and commands need, _version.py say (repeatable).",
    ),
]
Tests = Annotated[list[str] | None, typer.Option(metavar="CMD", help="A command that must succeed on the change (repeatable).")]
Shards = Annotated[int, typer.Option(min=1, max=64, help="Into how many disjoint parts the work may be split.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, max=64, help="Worker processes to start.", show_default="one per shard, at most one per core"),
]
LandingMode = Annotated[Landing, typer.Option(help="Land on a new branch, on --target-ref, or not at all.")]
TargetRef = Annotated[str | None, typer.Option(metavar="REF", help="With --land target: the branch; it must be at --ref.")]
PackOption = Annotated[PackName, typer.Option(help="How strict the policy is.")]
RunPriority = Annotated[Class, typer.Option(help="How urgent the run is among others.")]
MaxRetries = Annotated[
    int | None, typer.Option(min=0, max=10, help="Rounds of the fix loop.", show_default="one per further answer")
]
TaskSeconds = Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time limit of each task.")]
MaxSeconds = Annotated[
    float | None,
    typer.Option(min=0.001, max=1e9, metavar="SECONDS", help="Budget: time from acceptance to the end of the run."),
]
MaxTokens = Annotated[
    int | None, typer.Option(min=0, max=2**53 - 1, metavar="N", help="Budget: tokens of all models together.")
]
MaxCost = Annotated[float | None, typer.Option(min=0, max=1e9, metavar="USD", help="Budget: US dollars.")]
MaxIterations = Annotated[
    int | None,
    typer.Option(min=1, max=2**53 - 1, metavar="N", help="Budget: rounds of the fix loop, or turns of an agent."),
]
