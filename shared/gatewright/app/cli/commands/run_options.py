"""The options of ``gatewright run``: what each may be, and what its help says."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.commands.options import Class, Environments

if TYPE_CHECKING:
    from gatewright.app.cli.run.request import RunOptions


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


class LanguageName(StrEnum):
    """Languages that may have an environment profile."""

    PYTHON = "python"
    NODE = "node"
    GO = "go"
    RUST = "rust"
    JAVA = "java"
    CPP = "cpp"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFlags:
    """All that can be said on the command line of ``gatewright run``, as Typer reads it."""

    request: Annotated[str, typer.Argument(metavar="REQUEST", help="What is to be done, in words.")] = ""
    repo: Annotated[str | None, typer.Option(metavar="PATH|URL", help="The repository; by default the one you stand in.")] = (
        None
    )
    ref: Annotated[str, typer.Option(help="The branch, tag or commit to start from.")] = "HEAD"
    allow: Annotated[
        list[str] | None, typer.Option(metavar="PATH", help="A file or directory that may change (repeatable).")
    ] = None
    allow_tests: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-tests",
            "--allow-protected",
            metavar="PATH",
            help="A test, fixture or lint configuration that may change too; --allow is not needed for it (repeatable).",
        ),
    ] = None
    allow_dependencies: Annotated[
        bool, typer.Option("--allow-dependencies", help="Manifests and lock files inside the paths may change.")
    ] = False
    allow_kind: Annotated[
        list[Kind] | None, typer.Option(metavar="KIND", help="Open a kind of change: " + ", ".join(Kind) + " (repeatable).")
    ] = None
    command: Annotated[
        list[str] | None,
        typer.Option("--exec", metavar="CMD", help="A command that makes the change; one for each attempt (repeatable)."),
    ] = None
    patch: Annotated[str | None, typer.Option(metavar="FILE|-", help="A diff that is the change; - is a pipe.")] = None
    reply: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE|-", help="A model's reply that holds the files; one for each attempt (repeatable)."),
    ] = None
    head: Annotated[
        str | None,
        typer.Option(metavar="BRANCH", help="Commits that exist: what BRANCH adds to --ref, squashed into one change."),
    ] = None
    agent: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A coding agent makes the change: its name in agents.json, or any."),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The model of the agent; without --agent it is asked for whole files."),
    ] = None
    fallback: Annotated[
        bool,
        typer.Option("--fallback", help="Other models of its route may answer when --model cannot."),
    ] = False
    cassette: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER|BUNDLE",
            help="Play what was recorded, by this bundle say, in the place of every model: no key, no network.",
        ),
    ] = None
    approval: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A person's signed approval: see gatewright approve.")
    ] = None
    mount: Annotated[
        list[str] | None,
        typer.Option(
            "--mount",
            metavar="PATH[=DIR]",
            help="A folder that git ignores (node_modules), shown to commands read-only in its place (repeatable).",
        ),
    ] = None
    provide: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A generated file of your checkout that git ignores and commands need, _version.py say (repeatable).",
        ),
    ] = None
    test: Annotated[
        list[str] | None, typer.Option(metavar="CMD", help="A command that must succeed on the change (repeatable).")
    ] = None
    hidden_test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CMD", help="One more, of which whatever plans, makes or reviews the change is told nothing (repeatable)."
        ),
    ] = None
    hidden_file: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH=FILE", help="FILE, shown at PATH to the hidden tests alone (repeatable)."),
    ] = None
    shards: Annotated[int, typer.Option(min=1, max=64, help="Into how many disjoint parts the work may be split.")] = 1
    candidates: Annotated[
        str | None,
        typer.Option(
            "--candidates",
            metavar="N|NAME,...",
            help="Have it made N times, or once by each of these (AGENT, AGENT=MODEL, =MODEL); the best one lands.",
        ),
    ] = None
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, help="Worker processes to start.", show_default="one per shard or candidate, at most one per core"
        ),
    ] = None
    linger: Annotated[
        bool | None,
        typer.Option(
            "--linger/--no-linger",
            help="Leave the stack that this run starts running for some minutes.",
            show_default="at a terminal",
        ),
    ] = None
    env: Environments = None
    language: Annotated[
        LanguageName | None, typer.Option(help="Of the environment profile; without it, it is told from the request.")
    ] = None
    yes: Annotated[bool, typer.Option("--yes", help="Run what is proposed where paths, tests or executor are left open.")] = (
        False
    )
    interactive: Annotated[
        bool, typer.Option("--interactive", help="Answer at this terminal what the agent asks leave for; silence refuses.")
    ] = False
    land: Annotated[Landing, typer.Option(help="Land on a new branch, on --target-ref, or not at all.")] = Landing.BRANCH
    target_ref: Annotated[
        str | None, typer.Option(metavar="REF", help="With --land target: the branch; it must be at --ref.")
    ] = None
    policy_pack: Annotated[PackName, typer.Option(help="How strict the policy is.")] = PackName.LOW
    priority: Annotated[Class, typer.Option(help="How urgent the run is among others.")] = Class.NORMAL
    need: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="What its processes have to have (gpu); pools.json says which do (repeatable)."),
    ] = None
    requirement: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="A requirement that the change is for, PAY-SEC-007 say; it is in the commit (repeatable)."
        ),
    ] = None
    max_retries: Annotated[
        int | None, typer.Option(min=0, max=10, help="Rounds of the fix loop.", show_default="one per further answer")
    ] = None
    timeout: Annotated[float, typer.Option(min=1, metavar="SECONDS", help="Time limit of each task.")] = 300.0
    max_seconds: Annotated[
        float | None,
        typer.Option(min=0.001, max=1e9, metavar="SECONDS", help="Budget: time from acceptance to the end of the run."),
    ] = None
    max_tokens: Annotated[
        int | None, typer.Option(min=0, max=2**53 - 1, metavar="N", help="Budget: tokens of all models together.")
    ] = None
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", "--budget-usd", min=0, max=1e9, metavar="USD", help="Budget: US dollars.")
    ] = None
    max_iterations: Annotated[
        int | None,
        typer.Option(min=1, max=2**53 - 1, metavar="N", help="Budget: rounds of the fix loop, or turns of an agent."),
    ] = None

    def options(self) -> RunOptions:
        """The same as ``gatewright.app.cli.run`` takes it."""
        from gatewright.app.cli.run.request import RunOptions

        return RunOptions(
            request=self.request,
            repo=self.repo,
            ref=self.ref,
            allow=tuple(self.allow or ()),
            allow_tests=tuple(self.allow_tests or ()),
            allow_dependencies=self.allow_dependencies,
            allow_kinds=tuple(kind.value for kind in self.allow_kind or ()),
            commands=tuple(self.command or ()),
            patch=self.patch,
            replies=tuple(self.reply or ()),
            head=self.head,
            agent=self.agent,
            model=self.model,
            fallback=self.fallback,
            cassette=self.cassette.absolute() if self.cassette is not None else None,
            approval=self.approval,
            provide=tuple(self.provide or ()),
            mount=tuple(self.mount or ()),
            tests=tuple(self.test or ()),
            hidden_tests=tuple(self.hidden_test or ()),
            hidden_files=tuple(self.hidden_file or ()),
            shards=self.shards,
            candidates=self.candidates,
            env=tuple(self.env or ()),
            land=self.land.value,
            target_ref=self.target_ref,
            policy_pack=self.policy_pack.value,
            priority=self.priority.value,
            needs=tuple(self.need or ()),
            language=self.language.value if self.language is not None else None,
            requirement=tuple(self.requirement or ()),
            yes=self.yes,
            interactive=self.interactive,
            max_retries=self.max_retries,
            timeout=self.timeout,
            max_seconds=self.max_seconds,
            max_tokens=self.max_tokens,
            max_cost=self.max_cost,
            max_iterations=self.max_iterations,
        )
