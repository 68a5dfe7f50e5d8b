"""The table of the options of an order. Each field is one row; all that knows an option is derived from it.

An option is added by one row here, and by its use: a field with a ``pointer`` is placed in the request as it is, any other
one is read in ``gatewright.app.cli.run.request``. The help is at most 12 words. The command line adds "(repeatable)".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewright.order_form.rows import (
    Bounds,
    FormField,
    Kind,
    Panel,
    Row,
    Section,
    ToolArgument,
    option,
    rows_of,
)
from gatewright.reasons import RetryOffer

if TYPE_CHECKING:
    from gatewright.contracts.vocabulary import ChangeKind, LandingMode, Language, PolicyPack, Priority

#: ``--agent any``, and a candidate of this name: the first agent of agents.json that the worker has.
ANY_AGENT = "any"
#: Most worker processes of a stack.
MOST_WORKERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of ``gatewright run`` as they were given, unchecked."""

    request: str = option(
        kind=Kind.TEXT,
        metavar="REQUEST",
        help="The change that is wanted, in words.",
        panel=Panel.PLACE,
        pointer="request",
        default="",
        form=FormField(
            section=Section.ORDER, label="Request", hint="what is wanted, in words", rows=3, required="say what is wanted"
        ),
        tool=ToolArgument(most=20_000, required=True),
    )
    repo: str | None = option(
        "--repo",
        kind=Kind.TEXT,
        metavar="PATH|URL",
        help="The repository; by default the one you stand in.",
        panel=Panel.PLACE,
        pointer="repository.url",
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
        help="The branch, tag or commit to start from.",
        panel=Panel.PLACE,
        pointer="baseline_ref",
        form=FormField(section=Section.REFS, label="Starts from", hint="a ref; HEAD if left out", list="branches"),
    )
    allow: tuple[str, ...] = option(
        RetryOffer.PATH,
        kind=Kind.TEXTS,
        metavar="PATH",
        help="A file or directory that may change.",
        panel=Panel.SCOPE,
        pointer="allowed_paths",
        key="paths",
        form=FormField(
            section=Section.SCOPE,
            label="Paths that may change",
            hint="one a line",
            rows=2,
            required="name the paths that may change, one a line",
        ),
        tool=ToolArgument(most=200, required=True, description="Which paths may change, from the top of the repository."),
    )
    allow_tests: tuple[str, ...] = option(
        RetryOffer.PROTECTED_PATH,
        "--allow-protected",
        kind=Kind.TEXTS,
        metavar="PATH",
        help="A test, fixture or lint configuration that may change; implies --allow.",
        panel=Panel.SCOPE,
        pointer="scope.allow_protected_paths",
    )
    #: Those of ``allow`` that the pm proposed: what a person did not name opens no test.
    proposed: tuple[str, ...] = ()
    allow_dependencies: bool = option(
        RetryOffer.DEPENDENCIES,
        kind=Kind.FLAG,
        help="Manifests and lock files inside the paths may change.",
        panel=Panel.SCOPE,
        pointer="scope.allow_dependency_change",
        key="allow_dependencies",
        form=FormField(section=Section.SCOPE, label="Manifests and lock files inside the paths may change"),
    )
    allow_kinds: tuple[ChangeKind, ...] = option(
        RetryOffer.KIND,
        kind=Kind.CHOICES,
        metavar="KIND",
        help="Open a kind of change.",
        panel=Panel.SCOPE,
        pointer="scope.allow",
    )
    commands: tuple[str, ...] = option(
        "--exec",
        kind=Kind.TEXTS,
        metavar="CMD",
        help="A command that makes the change; one for each attempt.",
        panel=Panel.MAKER,
        key="command",
        form=FormField(
            section=Section.MAKER,
            label="Commands that make it",
            hint="one an attempt, each on a line",
            rows=2,
            required="name the commands that make the change",
            maker="command",
        ),
    )
    patch: str | None = option(
        "--patch",
        kind=Kind.TEXT,
        metavar="FILE|-",
        help="A diff that is the change; - is standard input.",
        panel=Panel.MAKER,
        key="patch",
        form=FormField(
            section=Section.MAKER, label="Patch", hint="as git diff writes it", rows=8, required="give the patch", maker="patch"
        ),
        tool=ToolArgument(most=4_000_000, description="The change as a git patch; without one an agent or model makes it."),
    )
    replies: tuple[str, ...] = option(
        "--reply",
        kind=Kind.TEXTS,
        metavar="FILE|-",
        help="A model's reply that holds the files; one for each attempt.",
        panel=Panel.MAKER,
    )
    head: str | None = option(
        "--head",
        kind=Kind.TEXT,
        metavar="BRANCH",
        help="Existing commits that BRANCH adds to --ref, squashed into one change.",
        panel=Panel.MAKER,
    )
    agent: str | None = option(
        "--agent",
        kind=Kind.TEXT,
        metavar="NAME",
        help="A coding agent of agents.json makes the change, or any.",
        panel=Panel.MAKER,
        pointer="executor.agent",
        key="agent",
        form=FormField(
            section=Section.MAKER,
            label="Agent",
            hint="of the operator's policies; their first if left out",
            maker="agent",
        ),
        tool=ToolArgument(most=100, description="A coding agent of the operator's policies, or any."),
    )
    model: str | None = option(
        "--model",
        kind=Kind.TEXT,
        metavar="NAME",
        help="Model of the agent; without --agent it writes whole files.",
        panel=Panel.MAKER,
        pointer="executor.model",
    )
    fallback: bool = option(
        "--fallback",
        kind=Kind.FLAG,
        help="Other models of its route may answer when --model cannot.",
        panel=Panel.MAKER,
        pointer="executor.fallback",
    )
    cassette: Path | None = option(
        "--cassette",
        kind=Kind.FILE,
        metavar="FOLDER|BUNDLE",
        help="Recorded calls to play instead of every model, without a network.",
        panel=Panel.MAKER,
        read=Path.absolute,
    )
    provide: tuple[str, ...] = option(
        RetryOffer.PROVIDE,
        kind=Kind.TEXTS,
        metavar="FILE",
        help="A generated file that git ignores and commands need (_version.py).",
        panel=Panel.SURROUNDINGS,
    )
    #: Path and content of files that are provided and lie in no checkout.
    written: tuple[tuple[str, bytes], ...] = ()
    mount: tuple[str, ...] = option(
        "--mount",
        kind=Kind.TEXTS,
        metavar="PATH[=DIR]",
        help="A folder that git ignores (node_modules), shown to commands read-only.",
        panel=Panel.SURROUNDINGS,
    )
    tests: tuple[str, ...] = option(
        RetryOffer.TEST,
        kind=Kind.TEXTS,
        metavar="CMD",
        help="A command that must succeed on the change.",
        panel=Panel.PROOF,
        pointer="acceptance_tests",
        key="tests",
        form=FormField(
            section=Section.PROOF,
            label="Commands that have to succeed",
            hint="one a line",
            rows=2,
            required="name the commands that have to succeed, one a line",
        ),
        tool=ToolArgument(most=20, required=True, description="Acceptance commands: each must succeed, in the sandbox."),
    )
    hidden_tests: tuple[str, ...] = option(
        "--hidden-test",
        kind=Kind.TEXTS,
        metavar="CMD",
        help="An acceptance command that planner, workers and reviewers never see.",
        panel=Panel.PROOF,
    )
    hidden_files: tuple[str, ...] = option(
        "--hidden-file",
        kind=Kind.TEXTS,
        metavar="PATH=FILE",
        help="FILE, shown at PATH to the hidden tests alone.",
        panel=Panel.PROOF,
    )
    shards: int = option(
        "--shards",
        kind=Kind.NUMBER,
        help="Maximum number of disjoint parts of the work.",
        panel=Panel.MAKER,
        pointer="sharding.count",
    )
    candidates: str | None = option(
        "--candidates",
        kind=Kind.TEXT,
        metavar="N|NAME,...",
        help="Make it N times, or by each AGENT, AGENT=MODEL, =MODEL; best lands.",
        panel=Panel.MAKER,
    )
    workers: int | None = option(
        "--workers",
        kind=Kind.NUMBER,
        help="Worker processes to start.",
        panel=Panel.STACK,
        note="one per shard or candidate, at most one per core",
        own_bounds=Bounds(least=1, most=MOST_WORKERS),
    )
    linger: bool | None = option(
        "--linger/--no-linger",
        kind=Kind.SWITCH,
        help="Keep the stack that this run starts for some minutes.",
        panel=Panel.STACK,
        note="at a terminal",
        repeated=False,
    )
    env: tuple[Path, ...] = option(
        "--env",
        kind=Kind.FILES,
        metavar="DIR|auto",
        help="Prefix that commands see read-only; auto: what the repository declares.",
        panel=Panel.SURROUNDINGS,
        key="environment",
        form=FormField(
            section=Section.PROOF,
            label="Environment",
            hint="a folder of programs that the system offers, for these commands; the system's own if left out",
        ),
    )
    language: Language | None = option(
        "--language",
        kind=Kind.CHOICE,
        help="Language of the environment profile; by default derived from the request.",
        panel=Panel.SURROUNDINGS,
        pointer="language",
    )
    land: LandingMode = option(
        RetryOffer.LAND_BRANCH,
        kind=Kind.CHOICE,
        help="Land on a new branch, on --target-ref, or not at all.",
        panel=Panel.PLACE,
        pointer="repository.landing",
    )
    target_ref: str | None = option(
        "--target-ref",
        kind=Kind.TEXT,
        metavar="REF",
        help="With --land target: the branch; it must be at --ref.",
        panel=Panel.PLACE,
        pointer="repository.target_ref",
        key="target_ref",
        form=FormField(
            section=Section.REFS,
            label="Lands on",
            hint="a branch (refs/heads/NAME); a branch of its own if left out",
            list="branches",
        ),
    )
    policy_pack: PolicyPack = option(
        "--policy-pack",
        kind=Kind.CHOICE,
        help="How strict the policy is.",
        panel=Panel.RULES,
        pointer="policy_pack",
        form=FormField(section=Section.RULES, label="Policy pack"),
    )
    priority: Priority = option(
        "--priority",
        kind=Kind.CHOICE,
        help="How urgent the run is among others.",
        panel=Panel.RULES,
        pointer="priority",
        form=FormField(section=Section.RULES, label="Priority"),
    )
    needs: tuple[str, ...] = option(
        "--need",
        kind=Kind.TEXTS,
        metavar="WORD",
        help="Capability that its processes must have (gpu), as pools.json lists them.",
        panel=Panel.SURROUNDINGS,
        pointer="needs",
    )
    requirement: tuple[str, ...] = option(
        "--requirement",
        kind=Kind.TEXTS,
        metavar="ID",
        help="A requirement that the change serves, such as PAY-SEC-007.",
        panel=Panel.RULES,
        pointer="requirement_ids",
    )
    yes: bool = option(
        "--yes",
        kind=Kind.FLAG,
        help="Run what is proposed for open paths, tests or executor.",
        panel=Panel.RULES,
    )
    interactive: bool = option(
        "--interactive",
        kind=Kind.FLAG,
        help="Answer an agent's permission requests at this terminal; silence refuses.",
        panel=Panel.MAKER,
        pointer="interactive",
    )
    max_retries: int | None = option(
        "--max-retries",
        kind=Kind.NUMBER,
        help="Rounds of the fix loop.",
        panel=Panel.LIMITS,
        pointer="timeout_retry.max_retries",
        note="one per further answer",
    )
    timeout: float = option(
        "--timeout",
        kind=Kind.DECIMAL,
        metavar="SECONDS",
        help="Time limit of each task.",
        panel=Panel.LIMITS,
        pointer="timeout_retry.timeout_sec",
        default=300.0,
    )
    max_seconds: float | None = option(
        "--max-seconds",
        kind=Kind.DECIMAL,
        metavar="SECONDS",
        help="Budget: time from acceptance to the end of the run.",
        panel=Panel.LIMITS,
        pointer="budget.wall_sec",
    )
    max_tokens: int | None = option(
        "--max-tokens",
        kind=Kind.NUMBER,
        metavar="N",
        help="Budget: tokens of all models together.",
        panel=Panel.LIMITS,
        pointer="budget.tokens",
    )
    max_cost: float | None = option(
        "--max-cost",
        "--budget-usd",
        kind=Kind.DECIMAL,
        metavar="USD",
        help="Budget: US dollars.",
        panel=Panel.LIMITS,
        pointer="budget.cost_usd",
    )
    max_iterations: int | None = option(
        "--max-iterations",
        kind=Kind.NUMBER,
        metavar="N",
        help="Budget: rounds of the fix loop, or turns of an agent.",
        panel=Panel.LIMITS,
        pointer="budget.iterations",
    )


@cache
def order_rows() -> tuple[Row, ...]:
    """The rows of the table, in its order."""
    return rows_of(RunOptions)


@cache
def row(name: str) -> Row:
    """The row of the field ``name``. Raises KeyError."""
    return {each.name: each for each in order_rows()}[name]


def values_below(options: RunOptions, parent: str) -> dict[str, Any]:
    """What the options say about the fields directly below ``parent`` of the document: ``budget`` gives wall_sec, tokens, ...

    ``parent`` is empty for the document itself. For the constructor of the struct that has these fields.
    """
    below = {each.pointer.rpartition("."): getattr(options, each.name) for each in order_rows() if each.pointer}
    return {place[2]: value for place, value in below.items() if place[0] == parent}


def options_from(given: dict[str, Any]) -> RunOptions:
    """The options from the values that a command line parser has for each row."""
    return RunOptions(**{each.name: _option_value(each, given[each.name]) for each in order_rows()})


def _option_value(each: Row, given: Any) -> Any:
    if each.kind.many:
        return tuple(map(str, given or ())) if each.kind is Kind.CHOICES else tuple(given or ())
    if given is None:
        return each.default
    if each.kind is Kind.CHOICE:
        return str(given)
    return each.read(given) if each.read is not None else given
