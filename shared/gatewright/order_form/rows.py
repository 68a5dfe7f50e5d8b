"""The rows of the table of options. Bounds, choices and defaults of a field come from the schema of its document.

The schemas are generated from the structs (``gatewright.contracts.schema_files``). This module reads the schema files, so that
the help of the command line imports no struct.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from gatewright.resources import schema_directory

#: Schema of an order.
REQUEST: Final = "run_request.v1.json"
#: Distance between an exclusive bound and the least valid value: durations have millisecond precision.
_STEP: Final = 0.001
#: Metadata key of a field of a table.
_ROW: Final = "row"


class Kind(StrEnum):
    """The kind of a value, and whether the option is repeatable."""

    TEXT = "text"
    TEXTS = "texts"
    FLAG = "flag"
    #: A flag with an opposite: ``--linger/--no-linger``.
    SWITCH = "switch"
    CHOICE = "choice"
    CHOICES = "choices"
    NUMBER = "number"
    DECIMAL = "decimal"
    FILE = "file"
    FILES = "files"

    @property
    def many(self) -> bool:
        """Return whether the option is repeatable."""
        return self in {Kind.TEXTS, Kind.CHOICES, Kind.FILES}


class Panel(StrEnum):
    """The groups of the help, in order."""

    CHANGE = "Change"
    SCOPE = "Scope"
    TESTS = "Tests"
    AGENT = "Agent"
    LANDING = "Landing"
    LIMITS = "Limits"
    ADVANCED = "Advanced"


class Section(StrEnum):
    """The sections of the form of the live page, in order."""

    ORDER = "order"
    REFS = "refs"
    SCOPE = "scope"
    PROOF = "proof"
    MAKER = "maker"
    RULES = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of the form of the live page.

    ``required``: message for a missing value. ``list``: id of the list of known values. ``maker``: way to make the change that
    the field belongs to.
    """

    section: Section
    label: str
    hint: str = ""
    rows: int = 1
    required: str = ""
    list: str = ""
    maker: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolArgument:
    """An argument of the tool ``submit_run`` of hosts.

    ``most``: maximum characters of a text, or entries of a list. ``description``: set where the help of the command line is
    about a terminal.
    """

    most: int
    required: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Constraints of a field in the schema of the document. ``default`` is None where the schema has none.

    For a list, ``least`` and ``most`` limit the number of entries; ``choices`` and ``pattern`` apply to each entry.
    """

    least: int | float | None = None
    most: int | float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One option of an order.

    ``flags``: spellings; retry lines use the first one. An argument has none. ``pointer``: field of the document in dotted
    form; empty where the option is not itself a field. ``key``: name in the form and the tool; by default the pointer.
    ``own_bounds``: set only where the document has no such field. ``read``: converts a command line value to the option's
    value. ``note``: default as shown in the help. ``repeated``: whether retry lines include the option. ``first_screen``:
    whether ``run --help`` shows it; ``run --help-all`` shows all rows.
    """

    name: str
    kind: Kind
    flags: tuple[str, ...]
    help: str
    panel: Panel
    pointer: str = ""
    key: str = ""
    metavar: str | None = None
    default: Any = None
    note: str = ""
    own_bounds: Bounds | None = None
    read: Callable[[Any], Any] | None = None
    form: FormField | None = None
    tool: ToolArgument | None = None
    repeated: bool = True
    first_screen: bool = False

    @property
    def flag(self) -> str:
        """Return the option as retry lines spell it; empty for an argument."""
        return self.flags[0].partition("/")[0] if self.flags else ""

    @property
    def bounds(self) -> Bounds:
        """Return the row's own bounds, or those of the document's field."""
        return self.own_bounds or (bounds_of(self.pointer) if self.pointer else Bounds())


def option(*flags: str, kind: Kind, pointer: str = "", default: Any = None, **more: Any) -> Any:
    """Define a row as a dataclass field: ``allow: tuple[str, ...] = option("--allow", kind=Kind.TEXTS, ...)``.

    Args:
        flags: spellings on the command line; none for an argument.
        kind: kind of the value.
        pointer: field of the document in dotted form.
        default: by default that of the document, or else an empty tuple, False or None.
        more: further fields of ``Row``.
    """
    if default is None and pointer and not kind.many:
        default = bounds_of(pointer).default
    if default is None:
        default = () if kind.many else False if kind is Kind.FLAG else None
    row = dict(more, kind=kind, flags=tuple(map(str, flags)), pointer=pointer, default=default)
    return dataclasses.field(default=default, metadata={_ROW: row})


def rows_of(table: type) -> tuple[Row, ...]:
    """Return the rows of a table, in order. Fields that are not options are skipped."""
    rows = [(field.name, field.metadata[_ROW]) for field in dataclasses.fields(table) if _ROW in field.metadata]
    return tuple(Row(name=name, **{"key": row["pointer"], **row}) for name, row in rows)


@cache
def bounds_of(pointer: str) -> Bounds:
    """Return the constraints that the schema of a run request has for a field.

    Args:
        pointer: field in dotted form, such as ``budget.tokens``.

    Raises:
        KeyError: the document has no such field.
    """
    node = _resolved(_schema(REQUEST), REQUEST)
    for name in pointer.split("."):
        node = _resolved(node[0]["properties"][name], node[1])
    field = node[0]
    items = _resolved(field["items"], node[1])[0] if "items" in field else field
    choices = tuple(each for each in items.get("enum", ()) if each is not None)
    above = field["exclusiveMinimum"] + _STEP if "exclusiveMinimum" in field else field.get("minItems")
    most = field.get("maximum", field.get("maxItems"))
    return Bounds(
        least=field.get("minimum", above),
        most=None if most == sys.float_info.max else most,
        choices=choices,
        pattern=items.get("pattern", ""),
        default=field.get("default"),
    )


@cache
def _schema(file: str) -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = json.loads((schema_directory() / file).read_bytes())
    return loaded


def _resolved(node: Mapping[str, Any], home: str) -> tuple[Mapping[str, Any], str]:
    """Follow a reference; return the node and the file that contains it."""
    while "$ref" in node:
        file, _, place = str(node["$ref"]).partition("#")
        home = file or home
        node = _walk(_schema(home), iter(place.split("/")[1:]))
    return node, home


def _walk(node: Mapping[str, Any], steps: Iterator[str]) -> Mapping[str, Any]:
    for step in steps:
        node = node[step]
    return node
