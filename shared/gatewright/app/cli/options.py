"""Options that several commands share, and groups of options that form one parameter.

A group of options is a dataclass; each field is an option of its own on the command line. The fields of a table of the order
form (``gatewright.order_form``) are its rows. The fields of any other dataclass are annotated for Typer.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from gatewright.errors import GatewrightError
from gatewright.order_form.rows import Bounds, Kind, Panel, Row
from gatewright.order_form.run_options import RunOptions, options_from, order_rows, row

if TYPE_CHECKING:
    from gatewright.contracts.vocabulary import LandingMode

Parameters = dict[str, inspect.Parameter]
#: Type that Typer parses a value as; a choice has a type of its own.
_TYPES: dict[Kind, type] = {
    Kind.FLAG: bool,
    Kind.SWITCH: bool,
    Kind.NUMBER: int,
    Kind.DECIMAL: float,
    Kind.FILE: Path,
    Kind.FILES: Path,
}
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print every event, gate and task")]
LedgerPartitions = Annotated[
    int,
    typer.Option(
        min=1, max=64, envvar="GATEWRIGHT_LEDGER_PARTITIONS", help="Number of ledger streams; fixed after the first start"
    ),
]


@dataclasses.dataclass(frozen=True, slots=True)
class RevertOptions:
    """Options of ``run`` that ``revert`` has, too: with the defaults of ``run``, and ``land`` as given."""

    order: RunOptions
    land: LandingMode | None


@dataclasses.dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of ``run`` that ``plan`` has, too."""

    order: RunOptions


class ReviewOptions(PlanOptions):
    """Options of ``run`` that ``review-commits`` has, too."""


class ResearchOptions(PlanOptions):
    """Options of ``run`` that ``research`` has, too."""


class TestOptions(PlanOptions):
    """Options of ``run`` that ``test`` has, too."""

    __test__ = False


_ORDERS = frozenset({"repo", "ref", "policy_pack", "priority", "requirement", "timeout", "linger"})
_ORDERS |= {"max_seconds", "max_tokens", "max_cost", "cassette"}
#: Rows of the options of ``revert``.
REVERTING = frozenset({"land", "tests", "allow_tests", "allow_kinds", "allow_dependencies"})
#: Rows of each part of the options.
_PARTS: dict[type, frozenset[str]] = {
    RevertOptions: REVERTING,
    PlanOptions: _ORDERS | {"request", "allow", "tests", "shards", "yes"},
    ReviewOptions: _ORDERS | {"head", "allow_tests", "allow_kinds"},
    ResearchOptions: _ORDERS | {"request", "model", "fallback"},
    TestOptions: (_ORDERS - {"cassette", "max_tokens", "max_cost"})
    | {"tests", "hidden_tests", "hidden_files", "provide", "mount", "env", "language", "needs"},
}


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Expand the dataclass parameters of ``command`` into their fields, as Typer reads them.

    Only keyword parameters may be dataclasses. A field without a default is a required option.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: _parameters(kind) for name, kind in hints.items() if dataclasses.is_dataclass(kind)}
    parameters: Parameters = {}
    for name, parameter in inspect.signature(command).parameters.items():
        parameters |= groups.get(name) or {name: parameter.replace(annotation=hints[name])}

    @functools.wraps(command)
    def read(**given: Any) -> None:
        for name, options in groups.items():
            values = {option: given.pop(option) for option in options}
            given[name] = _group(hints[name], values)
        command(**given)

    read.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]  # what inspect reads
    read.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
    return read


def _group(kind: Any, values: dict[str, Any]) -> Any:
    if kind is RunOptions:
        return options_from(values)
    if kind not in _PARTS:
        return kind(**values)
    order = options_from(dict.fromkeys(row.name for row in order_rows()) | values)
    return kind(order) if kind is not RevertOptions else kind(order, order.land if values["land"] is not None else None)


def typer_option(row: Row, *, panel: str | None = None) -> Any:
    """Return the row as an annotation for Typer. The help shows it in ``panel``, or among the options without one."""
    if not row.flags:
        return typer.Argument(metavar=row.metavar, help=row.help)
    bounds = row.bounds if row.kind in {Kind.NUMBER, Kind.DECIMAL} else Bounds()
    return typer.Option(
        *row.flags,
        metavar=row.metavar,
        help=row.help,
        min=bounds.least,
        max=bounds.most,
        show_default=row.note or True,
        rich_help_panel=panel,
    )


def _parameters(kind: Any) -> Parameters:
    if kind is RunOptions or kind in _PARTS:
        shown = (row for row in order_rows() if kind is RunOptions or row.name in _PARTS[kind])
        # The help shows panels in the order of their first options.
        rows = sorted(shown, key=lambda row: (list(Panel).index(row.panel), not row.first_screen))
        given = {row.name: None if row.kind.many or kind is not RunOptions else row.default for row in rows}
        return {row.name: _parameter(row.name, given[row.name], _annotation(row)) for row in rows}
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: _parameter(
            field.name, inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default, hints[field.name]
        )
        for field in dataclasses.fields(kind)
    }


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _annotation(row: Row) -> Any:
    one: Any = _choice(row.name, row.bounds.choices) if row.bounds.choices else _TYPES.get(row.kind, str)
    return Annotated[list[one] | None if row.kind.many else one | None, typer_option(row, panel=row.panel.value)]


def _choice(name: str, values: tuple[str, ...]) -> type[StrEnum]:
    members = {each: each for each in values}
    return StrEnum(name, members)  # type: ignore[return-value]  # made at run time from the schema


def known_runs(incomplete: str) -> list[str]:
    """Complete run ids in the shell: runs with a bundle in the home folder, newest first, without access to a system."""
    from gatewright.app.cli.context import find_place
    from gatewright.app.cli.runs.sources import RUNS_FOLDER

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


Environments = Annotated[list[Path] | None, typer_option(row("env"))]


RunArgument = Annotated[
    str | None,
    typer.Argument(metavar="[RUN]", help="Run id or its beginning (default: newest run)", autocompletion=known_runs),
]


BundleArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[BUNDLE|RUN]",
        help="Bundle directory, .zip or URL, or a run id (default: newest run)",
        autocompletion=known_runs,
    ),
]
TrustedKeys = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE|FINGERPRINT",
        help="Trusted public key: PEM file, or fingerprint of a known key",
        show_default="all trusted keys",
    ),
]
