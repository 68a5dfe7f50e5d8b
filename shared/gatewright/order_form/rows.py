"""What a row of the table of options holds. Bounds, choices and defaults of a field come from the schema of its document.

The schemas are generated from the structs (``gatewright.contracts.schema_files``). They are read here as files, so that the
help of the command line needs no struct.
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

#: The document that an order is.
REQUEST: Final = "run_request.v1.json"
#: The least amount above a bound that is itself excluded: durations are read to the millisecond.
_STEP: Final = 0.001
#: The metadata key of a field of a table.
_ROW: Final = "row"


class Kind(StrEnum):
    """What a value is, and how often the option may be given."""

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
        """Whether the option is repeatable."""
        return self in {Kind.TEXTS, Kind.CHOICES, Kind.FILES}


class Panel(StrEnum):
    """The groups of the help, in its order."""

    CHANGE = "Change"
    SCOPE = "Scope"
    TESTS = "Tests"
    AGENT = "Agent"
    LANDING = "Landing"
    LIMITS = "Limits"
    ADVANCED = "Advanced"


class Section(StrEnum):
    """The parts of the form of the live page, in its order."""

    ORDER = "order"
    REFS = "refs"
    SCOPE = "scope"
    PROOF = "proof"
    MAKER = "maker"
    RULES = "rules"


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of the form of the live page.

    ``required``: the sentence that asks for it. ``list``: id of the list of known values. ``maker``: the way to make the change
    that the field belongs to.
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

    ``most``: characters of a text, entries of a list. ``description``: where the help of the command line speaks of a terminal.
    """

    most: int
    required: bool = False
    description: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the schema of the document says about a field. ``default``: None where it has none.

    Of a list ``least`` and ``most`` are numbers of entries, ``choices`` and ``pattern`` those of an entry.
    """

    least: int | float | None = None
    most: int | float | None = None
    choices: tuple[str, ...] = ()
    pattern: str = ""
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One option of an order.

    ``flags``: the first one is written in retry lines; none for an argument. ``pointer``: the field of the document in dotted
    form; empty where the option is no field of its own. ``key``: its name in the form and the tool; by default the pointer.
    ``own_bounds``: set only where the document has no such field. ``read``: from a value of the command line to the option's.
    ``note``: what the help shows as the default. ``repeated``: whether a retry line has it. ``first_screen``: whether
    ``run --help`` shows it; ``run --help-all`` shows all rows.
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
        """The option as retry lines spell it; empty for an argument."""
        return self.flags[0].partition("/")[0] if self.flags else ""

    @property
    def bounds(self) -> Bounds:
        """The bounds of its own, or those of the field of the document."""
        return self.own_bounds or (bounds_of(self.pointer) if self.pointer else Bounds())


def option(*flags: str, kind: Kind, pointer: str = "", default: Any = None, **more: Any) -> Any:
    """The field of a table's dataclass that is this row: ``allow: tuple[str, ...] = option("--allow", kind=Kind.TEXTS, ...)``.

    ``more`` are further fields of ``Row``. Without a ``default`` the option has that of the document; where that has none, an
    empty tuple, False, or None.
    """
    if default is None and pointer and not kind.many:
        default = bounds_of(pointer).default
    if default is None:
        default = () if kind.many else False if kind is Kind.FLAG else None
    row = dict(more, kind=kind, flags=tuple(map(str, flags)), pointer=pointer, default=default)
    return dataclasses.field(default=default, metadata={_ROW: row})


def rows_of(table: type) -> tuple[Row, ...]:
    """The rows of a table, in its order; fields that are no options are left out."""
    rows = [(field.name, field.metadata[_ROW]) for field in dataclasses.fields(table) if _ROW in field.metadata]
    return tuple(Row(name=name, **{"key": row["pointer"], **row}) for name, row in rows)


@cache
def bounds_of(pointer: str) -> Bounds:
    """What the schema of a run request says about the field at ``pointer``, ``budget.tokens`` for instance.

    Raises KeyError for a field that the document has not.
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
    """The node that a reference names, and the file that it stands in."""
    while "$ref" in node:
        file, _, place = str(node["$ref"]).partition("#")
        home = file or home
        node = _walk(_schema(home), iter(place.split("/")[1:]))
    return node, home


def _walk(node: Mapping[str, Any], steps: Iterator[str]) -> Mapping[str, Any]:
    for step in steps:
        node = node[step]
    return node
