"""Validation errors of pydantic, for the author of a document. No value is repeated: it may be a key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gatewright.errors import Fault

#: Faults that ``fault_lines`` lists.
_MOST_LINES: Final = 10
_WORDS: Final = {"missing": "is missing", "extra_forbidden": "is not a field that is known here"}
#: Prefixes of pydantic's own messages and of a validator's.
_PREFIXES: Final = ("Input should ", "Value error, ", "Assertion failed, ")
#: In a union pydantic adds the name of each part to the place: of a class, a type or a validator.
_PART: Final = re.compile(r"[A-Z][A-Za-z]*Key|str|int|float|bool|[a-z]+\[.*|function-(before|after|wrap|plain)\[.*")  # noqa: TID251


def validation_faults(error: ValidationError) -> tuple[Fault, ...]:
    """Return each fault with the JSON pointer to its place and pydantic's name of its kind; one for all parts of a union."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    faults = (Fault("".join(f"/{part}" for part in _fault_path(each)), each["type"], _message(each)) for each in found)
    return tuple(dict.fromkeys(faults))


def fault_lines(error: ValidationError, *, below: str = "") -> str:
    """The faults one a line, each with its place in the manner of ``models[0].price``; the first ones of many.

    ``below`` is the field of a larger document that was read.
    """
    faults = validation_faults(error)
    above = f"/{below}" if below else ""
    lines = [f"{_dotted_path(above + fault.pointer)}{fault.message}" for fault in faults[:_MOST_LINES]]
    more = len(faults) - len(lines)
    return "\n".join([*lines, f"and {more} more"] if more else lines)


def _message(fault: ErrorDetails) -> str:
    if known := _WORDS.get(fault["type"]):
        return known
    words = fault["msg"]
    for prefix in _PREFIXES:
        words = words.removeprefix(prefix)
    if fault["msg"].startswith("Input should "):
        return f"should {words}"
    return words[:1].lower() + words[1:]


def _fault_path(fault: ErrorDetails) -> Iterator[str]:
    return (str(part) for part in fault["loc"] if isinstance(part, int) or _PART.fullmatch(part) is None)


def _dotted_path(pointer: str) -> str:
    parts: Iterable[str] = pointer.split("/")[1:]
    place = "".join(f"[{part}]" if part.isdecimal() else f".{part}" for part in parts).removeprefix(".")
    return f"{place}: " if place else ""
