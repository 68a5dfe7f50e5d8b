"""The options of ``gatewright run`` as the words of a command that can be pasted: to say how to try again. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from gatewright.app.cli.run.request import RunOptions

#: Options that are spelled otherwise than their fields.
_SPELLED = {
    "allow_kinds": "--allow-kind",
    "commands": "--exec",
    "replies": "--reply",
    "tests": "--test",
}


def command_line(options: RunOptions, workers: int | None = None) -> tuple[str, ...]:
    """``gatewright run`` with exactly what was given; what has its default is left out.

    A request that looks like an option comes last, behind ``--``.
    """
    first, last = ([options.request], []) if options.request else ([], [])
    if options.request.startswith("-"):
        first, last = [], ["--", options.request]
    words = ["gatewright", "run", *first]
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name != "request" and value != field.default:
            words += _words(_SPELLED.get(field.name, "--" + field.name.replace("_", "-")), value)
    return (*words, *(["--workers", str(workers)] if workers else []), *last)


def _words(option: str, value: object) -> Iterator[str]:
    if value is True:
        yield option
        return
    for each in value if isinstance(value, tuple) else (value,):
        word = str(int(each)) if isinstance(each, float) and each.is_integer() else str(each)
        # A value that begins with a dash is taken for an option unless it is joined to its own.
        yield from (f"{option}={word}",) if word.startswith("-") and word != "-" else (option, word)
