"""Markdown made of escaped text: nothing from a bundle can become a heading, a link, markup or the end of a code block.

CommonMark: a backslash before punctuation makes it plain (section 2.4); a code fence ends only at a run of backticks as
long as its own (section 4.5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gatewright.view.safe_text import one_line, visible

#: Punctuation that can begin markup anywhere; what makes a bare address a link; what makes a list at the beginning of a line.
_SPECIAL = re.compile(r"[\\`*_\[\]<>#!|~&$@^{}]|:(?=//)|(?<=[wW]{3})\.|^[-+=]|(?<=\A\d)[.)]|(?<=\A\d\d)[.)]")  # noqa: TID251 - linear: each try ends where the next one begins
_TICKS = re.compile(r"`+")  # noqa: TID251 - linear: each try ends where the next one begins


def words(text: str) -> str:
    """Return plain text on one line."""
    return _SPECIAL.sub(r"\\\g<0>", one_line(text))


def code(text: str) -> str:
    """Return text in a code span, on one line; a lone space for empty text."""
    shown = one_line(text) or " "
    fence = "`" * (_longest(shown) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def block(text: str, language: str = "") -> list[str]:
    """Lines of a code block."""
    shown = visible(text)
    fence = "`" * max(3, _longest(shown) + 1)
    return [f"{fence}{language}", *shown.rstrip("\n").split("\n"), fence]


def bullets(items: Iterable[str], none: str) -> list[str]:
    """Return a list of finished pieces, or one piece for an empty list."""
    return [f"- {item}" for item in items] or [f"- {none}"]


def field(name: str, value: str) -> str:
    """Return ``**Name:** value`` of finished pieces, a line of its own."""
    return f"**{name}:** {value}  "


def _longest(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
