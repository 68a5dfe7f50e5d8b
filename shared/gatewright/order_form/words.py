"""Options as text: a command to paste, and option names in place of the fields of a contract."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from gatewright.order_form.rows import Kind
from gatewright.order_form.run_options import RunOptions, order_rows

#: The part of a contract that refusals of gates name.
_SCOPE = "scope."


#: Command of each kind of run that lands nothing.
COMMANDS: dict[str, str] = {"PLAN": "plan", "REVIEW": "review-commits", "TEST": "test"}


def command_line(options: RunOptions) -> tuple[str, ...]:
    """Format the ``gatewright run`` command with the options as given, without those that have their default.

    A request that looks like an option is placed last, after ``--``.
    """
    first, last = ([options.request], []) if options.request else ([], [])
    if options.request.startswith("-"):
        first, last = [], ["--", options.request]
    words = ["gatewright", COMMANDS.get(options.task_type, "run"), *first]
    words += ["--range", options.span] if options.span else []
    for row in order_rows():
        value = getattr(options, row.name)
        if row.flags and row.repeated and value != row.default and (row.name != "land" or options.task_type == "IMPLEMENT"):
            words += _option_words(row.flag, value)
    return (*words, *last)


def _option_words(flag: str, value: object) -> Iterator[str]:
    if value is True:
        yield flag
        return
    for each in value if isinstance(value, tuple) else (value,):
        word = str(int(each)) if isinstance(each, float) and each.is_integer() else str(each)
        # A value that begins with a dash is parsed as an option unless it is joined to its own option.
        yield from (f"{flag}={word}",) if word.startswith("-") and word != "-" else (flag, word)


def in_options(text: str) -> str:
    """Replace the fields of a contract in a gate's message with options of the command line."""
    for field, flag in _fields_of_scope():
        text = field.sub(flag, text)
    return text


@cache
def _fields_of_scope() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return pattern and replacement for each field of the scope, longer fields first."""
    rows = sorted((row for row in order_rows() if row.pointer.startswith(_SCOPE)), key=lambda row: -len(row.pointer))
    return tuple(
        # A kind of change follows its field: `scope.allow: symlink`.
        (re.compile(rf"\b{re.escape(row.pointer)}: (?=[a-z])"), f"{row.flag} ")  # noqa: TID251 - it looks ahead; linear: of a fixed length
        if row.kind is Kind.CHOICES
        else (re.compile(rf"\b{re.escape(row.pointer)}\b"), row.flag)  # noqa: TID251 - linear: of a fixed length
        for row in rows
    )


def flags_without_value() -> frozenset[str]:
    """Return the options without a value. The word after any other option is its value."""
    return frozenset(row.flag for row in order_rows() if row.kind in {Kind.FLAG, Kind.SWITCH})
