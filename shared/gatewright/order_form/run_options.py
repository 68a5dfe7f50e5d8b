"""The table of the options of an order. Each field is one row; every other description of an option derives from it.

To add an option, add a row here and use it. A field with a ``pointer`` is copied into the request.
``gatewright.app.cli.run.request`` reads every other field. A help text has at most 12 words and no period. The command line
adds "(repeatable)".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewright.order_form.rows import Bounds, FormField, Kind, Panel, Row, Section, ToolArgument, option, rows_of
from gatewright.reasons import RetryOffer

if TYPE_CHECKING:
    from gatewright.contracts.task_contract import TaskType
    from gatewright.contracts.vocabulary import (
        ChangeKind,
        LandingMode,
        Language,
        PackagePull,
        PolicyPack,
        Priority,
        TestPurpose,
    )

#: ``--agent any``, or a candidate of this name: the first agent of agents.json that the worker has.
ANY_AGENT = "any"
#: Maximum worker processes of a stack.
MOST_WORKERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of ``gatewright run`` as given, not yet validated."""

    request: str = option(
        kind=Kind.TEXT,
        metavar="REQUEST",
        help="Change to make, in plain words",
        panel=Panel.CHANGE,
        first_screen=True,
        pointer="request",
        default="",
        form=FormField(
            section=Section.ORDER, label="Request", hint="the change, in plain words", rows=3, required="describe the change"
        ),
        tool=ToolArgument(most=20_000, required=True),
    )
    repo: str | None = option(
        "--repo",
        kind=Kind.TEXT,
        metavar="PATH|URL",
        help="Repository to change",
        panel=Panel.LANDING,
        pointer="repository.url",
        note="current directory",
        key="repository",
        form=FormField(
            section=Section.ORDER,
            label="Repository",
            hint="a path on the gatekeeper's host, or an address",
            required="name a repository: an absolute path on the host of the gatekeeper, or an address",
            list="known",
        ),
        tool=ToolArgument(most=2000, description="An absolute path or a URL."),
    )
    ref: str = option(
        "--ref",
        kind=Kind.TEXT,
        metavar="REF",
        help="Branch, tag or commit to start from",
        panel=Panel.LANDING,
        pointer="baseline_ref",
        form=FormField(section=Section.REFS, label="Starts from", hint="a ref; HEAD by default", list="branches"),
    )
    allow: tuple[str, ...] = option(
        RetryOffer.PATH,
        kind=Kind.TEXTS,
        metavar="PATH",
        help="File or directory that may change",
        panel=Panel.SCOPE,
        first_screen=True,
        pointer="allowed_paths",
        key="paths",
        form=FormField(
            section=Section.SCOPE,
            label="Paths that may change",
            hint="one per line",
            rows=2,
            required="name the paths that may change, one per line",
        ),
        tool=ToolArgument(most=200, required=True, description="Which paths may change, from the top of the repository."),
    )
    allow_tests: tuple[str, ...] = option(
        RetryOffer.PROTECTED_PATH,
        "--allow-protected",
        kind=Kind.TEXTS,
        metavar="PATH",
        help="Test, fixture or lint configuration that may change; implies --allow",
        panel=Panel.SCOPE,
        first_screen=True,
        pointer="scope.allow_protected_paths",
    )
    #: Paths of ``allow`` that the pm proposed. A proposed path never allows changes of tests.
    proposed: tuple[str, ...] = ()
    allow_dependencies: bool = option(
        RetryOffer.DEPENDENCIES,
        kind=Kind.FLAG,
        help="Allow changes to manifests and lock files inside the paths",
        panel=Panel.SCOPE,
        pointer="scope.allow_dependency_change",
        key="allow_dependencies",
        form=FormField(section=Section.SCOPE, label="Manifests and lock files inside the paths may change"),
    )
    allow_kinds: tuple[ChangeKind, ...] = option(
        RetryOffer.KIND,
        kind=Kind.CHOICES,
        metavar="KIND",
        help="Allow a special kind of change",
        panel=Panel.SCOPE,
        pointer="scope.allow",
    )
    commands: tuple[str, ...] = option(
        "--exec",
        kind=Kind.TEXTS,
        metavar="CMD",
        help="Command that makes the change, one per attempt",
        panel=Panel.CHANGE,
        first_screen=True,
        key="command",
        form=FormField(
            section=Section.MAKER,
            label="Commands that make the change",
            hint="one per line, one per attempt",
            rows=2,
            required="name the commands that make the change",
            maker="command",
        ),
    )
    patch: str | None = option(
        "--patch",
        kind=Kind.TEXT,
        metavar="FILE|-",
        help="Existing diff to judge (- reads standard input)",
        panel=Panel.CHANGE,
        first_screen=True,
        key="patch",
        form=FormField(
            section=Section.MAKER, label="Patch", hint="output of git diff", rows=8, required="give the patch", maker="patch"
        ),
        tool=ToolArgument(most=4_000_000, description="The change as a git patch; without one an agent or model makes it."),
    )
    replies: tuple[str, ...] = option(
        "--reply",
        kind=Kind.TEXTS,
        metavar="FILE|-",
        help="Recorded model reply that contains the files, one per attempt",
        panel=Panel.CHANGE,
    )
    head: str | None = option(
        "--head",
        kind=Kind.TEXT,
        metavar="BRANCH",
        help="Existing commits from --ref to BRANCH, squashed into one change",
        panel=Panel.CHANGE,
    )
    agent: str | None = option(
        "--agent",
        kind=Kind.TEXT,
        metavar="NAME",
        help="Coding agent that makes the change (see: gatewright agents list)",
        panel=Panel.CHANGE,
        first_screen=True,
        pointer="executor.agent",
        key="agent",
        form=FormField(
            section=Section.MAKER,
            label="Agent",
            hint="an agent of the operator's policies; the first by default",
            maker="agent",
        ),
        tool=ToolArgument(most=100, description="A coding agent of the operator's policies, or any."),
    )
    model: str | None = option(
        "--model",
        kind=Kind.TEXT,
        metavar="NAME",
        help="Model for --agent; without --agent, the model writes whole files",
        panel=Panel.AGENT,
        first_screen=True,
        pointer="executor.model",
    )
    fallback: bool = option(
        "--fallback",
        kind=Kind.FLAG,
        help="Try other models of the route when --model fails",
        panel=Panel.AGENT,
        pointer="executor.fallback",
    )
    mcp_tools: tuple[str, ...] = option(
        "--mcp-tool",
        kind=Kind.TEXTS,
        metavar="SERVER.TOOL",
        help="Tool of a server in agents.json for the agent",
        panel=Panel.AGENT,
        pointer="mcp_tools",
    )
    cassette: Path | None = option(
        "--cassette",
        kind=Kind.FILE,
        metavar="PATH",
        help="Recorded calls to replay instead of calling models",
        panel=Panel.AGENT,
        read=Path.absolute,
    )
    provide: tuple[str, ...] = option(
        RetryOffer.PROVIDE,
        kind=Kind.TEXTS,
        metavar="FILE",
        help="Generated file that git ignores and commands need, such as _version.py",
        panel=Panel.TESTS,
    )
    #: Path and content of provided files that exist in no checkout.
    written: tuple[tuple[str, bytes], ...] = ()
    mount: tuple[str, ...] = option(
        "--mount",
        kind=Kind.TEXTS,
        metavar="PATH[=DIR]",
        help="Directory that git ignores, mounted read-only, such as node_modules",
        panel=Panel.TESTS,
    )
    tests: tuple[str, ...] = option(
        RetryOffer.TEST,
        kind=Kind.TEXTS,
        metavar="CMD",
        help="Command that must succeed on the change",
        panel=Panel.TESTS,
        first_screen=True,
        pointer="acceptance_tests",
        key="tests",
        form=FormField(
            section=Section.PROOF,
            label="Commands that must succeed",
            hint="one per line",
            rows=2,
            required="name the commands that must succeed, one per line",
        ),
        tool=ToolArgument(most=20, required=True, description="Acceptance commands: each must succeed, in the sandbox."),
    )
    hidden_tests: tuple[str, ...] = option(
        "--hidden-test",
        kind=Kind.TEXTS,
        metavar="CMD",
        help="Acceptance command that planner, workers and reviewers never see",
        panel=Panel.TESTS,
    )
    hidden_files: tuple[str, ...] = option(
        "--hidden-file",
        kind=Kind.TEXTS,
        metavar="PATH=FILE",
        help="FILE, visible at PATH to hidden tests only",
        panel=Panel.TESTS,
    )
    coverage: str | None = option(
        "--coverage",
        kind=Kind.TEXT,
        metavar="FILE=PERCENT",
        help="Coverage report of the last --test, and required percentage of changed lines",
        panel=Panel.TESTS,
    )
    audit: str | None = option(
        "--audit",
        kind=Kind.TEXT,
        metavar="FILE=LIMIT",
        help="Findings (most new ones) or score (lowest) of the last --test",
        panel=Panel.TESTS,
    )
    shards: int = option(
        "--shards",
        kind=Kind.NUMBER,
        help="Maximum number of disjoint parts of the work",
        panel=Panel.AGENT,
        pointer="sharding.count",
    )
    candidates: str | None = option(
        "--candidates",
        kind=Kind.TEXT,
        metavar="N|NAME,...",
        help="Number of candidates, or agents to compare; the best one lands",
        panel=Panel.AGENT,
    )
    workers: int | None = option(
        "--workers",
        kind=Kind.NUMBER,
        help="Worker processes to start",
        panel=Panel.ADVANCED,
        note="one per shard or candidate, at most one per core",
        own_bounds=Bounds(least=1, most=MOST_WORKERS),
    )
    linger: bool | None = option(
        "--linger/--no-linger",
        kind=Kind.SWITCH,
        help="Keep the stack of this run for some minutes",
        panel=Panel.ADVANCED,
        note="at a terminal",
        repeated=False,
    )
    env: tuple[Path, ...] = option(
        "--env",
        kind=Kind.FILES,
        metavar="DIR|auto",
        help="Read-only environment for commands; auto: as the repository declares",
        panel=Panel.TESTS,
        first_screen=True,
        key="environment",
        form=FormField(
            section=Section.PROOF,
            label="Environment",
            hint="a folder of programs for these commands; the system's programs by default",
        ),
    )
    network: PackagePull = option(
        "--network",
        kind=Kind.CHOICE,
        help="Pull packages of a changed lock: deny, or on-request (people agree)",
        panel=Panel.TESTS,
        pointer="network",
        form=FormField(
            section=Section.PROOF,
            label="Packages of a changed lock",
            hint="on-request: pulled for the tests after people agreed",
        ),
    )
    language: Language | None = option(
        "--language",
        kind=Kind.CHOICE,
        help="Language of the environment profile",
        panel=Panel.TESTS,
        pointer="language",
        note="derived from the request",
    )
    land: LandingMode = option(
        RetryOffer.LAND_BRANCH,
        kind=Kind.CHOICE,
        help="Land on a new branch, on --target-ref, nowhere, or by merge queue",
        panel=Panel.LANDING,
        first_screen=True,
        pointer="repository.landing",
    )
    target_ref: str | None = option(
        "--target-ref",
        kind=Kind.TEXT,
        metavar="REF",
        help="Branch for --land target, which must be at --ref, or queue",
        panel=Panel.LANDING,
        pointer="repository.target_ref",
        key="target_ref",
        form=FormField(
            section=Section.REFS,
            label="Lands on",
            hint="a branch (refs/heads/NAME); a new branch by default",
            list="branches",
        ),
    )
    policy_pack: PolicyPack = option(
        "--policy-pack",
        kind=Kind.CHOICE,
        help="Strictness of the policy",
        panel=Panel.ADVANCED,
        pointer="policy_pack",
        form=FormField(section=Section.RULES, label="Policy pack"),
    )
    priority: Priority = option(
        "--priority",
        kind=Kind.CHOICE,
        help="Priority among other runs",
        panel=Panel.ADVANCED,
        pointer="priority",
        form=FormField(section=Section.RULES, label="Priority"),
    )
    needs: tuple[str, ...] = option(
        "--need",
        kind=Kind.TEXTS,
        metavar="NAME",
        help="Capability that worker processes must have, as listed in pools.json",
        panel=Panel.ADVANCED,
        pointer="needs",
    )
    requirement: tuple[str, ...] = option(
        "--requirement",
        kind=Kind.TEXTS,
        metavar="ID",
        help="Requirement that the change serves, such as PAY-SEC-007",
        panel=Panel.ADVANCED,
        pointer="requirement_ids",
    )
    test_purpose: TestPurpose = option(
        "--tests",
        kind=Kind.CHOICE,
        help="Purpose of new tests; only characterisation may pass without the change",
        panel=Panel.TESTS,
        pointer="tests",
    )
    again: str | None = option(
        "--again",
        kind=Kind.TEXT,
        metavar="RUN",
        help="Repeat an ended or queued run on the current target",
        panel=Panel.CHANGE,
    )
    inputs: tuple[str, ...] = option(
        "--input",
        kind=Kind.TEXTS,
        metavar="RUN",
        help="Plan, review, test or search run whose result the agent reads",
        panel=Panel.CHANGE,
    )
    #: Kind of the run. A review also has the range of commits, if one is given; a search its documents and given findings.
    task_type: TaskType = "IMPLEMENT"
    span: str | None = None
    documents: tuple[Path, ...] = ()
    findings: Path | None = None
    yes: bool = option(
        "--yes",
        kind=Kind.FLAG,
        help="Accept proposals for missing paths, tests or executor",
        panel=Panel.ADVANCED,
    )
    interactive: bool = option(
        "--interactive",
        kind=Kind.FLAG,
        help="Answer the agent's permission requests here; silence denies them",
        panel=Panel.AGENT,
        pointer="interactive",
    )
    max_retries: int | None = option(
        "--max-retries",
        kind=Kind.NUMBER,
        help="Maximum number of further attempts",
        panel=Panel.LIMITS,
        pointer="timeout_retry.max_retries",
        note="one per further answer",
    )
    timeout: float = option(
        "--timeout",
        kind=Kind.DECIMAL,
        metavar="SECONDS",
        help="Time limit of each task",
        panel=Panel.LIMITS,
        pointer="timeout_retry.timeout_sec",
        default=300.0,
    )
    max_seconds: float | None = option(
        "--max-seconds",
        kind=Kind.DECIMAL,
        metavar="SECONDS",
        help="Time budget of the whole run",
        panel=Panel.LIMITS,
        pointer="budget.wall_sec",
    )
    max_tokens: int | None = option(
        "--max-tokens",
        kind=Kind.NUMBER,
        metavar="N",
        help="Token budget of all models together",
        panel=Panel.LIMITS,
        pointer="budget.tokens",
    )
    max_cost: float | None = option(
        "--max-cost",
        "--budget-usd",
        kind=Kind.DECIMAL,
        metavar="USD",
        help="Cost budget in US dollars",
        panel=Panel.LIMITS,
        pointer="budget.cost_usd",
    )
    max_iterations: int | None = option(
        "--max-iterations",
        kind=Kind.NUMBER,
        metavar="N",
        help="Maximum number of fix rounds or agent turns",
        panel=Panel.LIMITS,
        pointer="budget.iterations",
    )
    max_cpu_seconds: float | None = option(
        "--max-cpu-seconds",
        kind=Kind.DECIMAL,
        metavar="SECONDS",
        help="Processor time of each process of a command",
        panel=Panel.LIMITS,
        pointer="limits.cpu_sec",
    )
    max_memory: int | None = option(
        "--max-memory",
        kind=Kind.NUMBER,
        metavar="BYTES",
        help="Memory of each command",
        panel=Panel.LIMITS,
        pointer="limits.memory_bytes",
    )
    max_processes: int | None = option(
        "--max-processes",
        kind=Kind.NUMBER,
        metavar="N",
        help="Processes and threads of each command",
        panel=Panel.LIMITS,
        pointer="limits.processes",
    )


@cache
def order_rows() -> tuple[Row, ...]:
    """Return the rows of the table, in order."""
    return rows_of(RunOptions)


@cache
def row(name: str) -> Row:
    """Return the row of the field ``name``. Raises KeyError."""
    return {each.name: each for each in order_rows()}[name]


def values_below(options: RunOptions, parent: str) -> dict[str, Any]:
    """Return the options for the fields directly below ``parent``, for the constructor of its struct.

    Args:
        options: the options as given.
        parent: field in dotted form, empty for the document itself. ``budget`` gives wall_sec, tokens, ...
    """
    below = {each.pointer.rpartition("."): getattr(options, each.name) for each in order_rows() if each.pointer}
    return {place[2]: value for place, value in below.items() if place[0] == parent}


def options_from(given: dict[str, Any]) -> RunOptions:
    """Build the options from the values that a command line parser has for each row."""
    return RunOptions(**{each.name: _option_value(each, given[each.name]) for each in order_rows()})


def _option_value(each: Row, given: Any) -> Any:
    if each.kind.many:
        return tuple(map(str, given or ())) if each.kind is Kind.CHOICES else tuple(given or ())
    if given is None:
        return each.default
    if each.kind is Kind.CHOICE:
        return str(given)
    return each.read(given) if each.read is not None else given
