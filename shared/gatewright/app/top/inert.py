"""Text of publishers, repositories, models and logs, made safe for a terminal. Pure.

The result contains no markup, cursor control or direction mark, and its lines have a limited length.
"""

from __future__ import annotations

from typing import Final

from gatewright.view.safe_text import one_line, visible

#: Characters of one cell of a list, and of one line of a text.
MOST_CELL: Final = 200
MOST_LINE: Final = 1_000
_TAB: Final = 4


def cell(text: str) -> str:
    """``text`` on one line, visible and cut."""
    return _cut(one_line(text[: 4 * MOST_CELL]), MOST_CELL)


def line(text: str) -> str:
    """Return one line of a longer text: its spaces kept, the rest as in a cell."""
    plain = " ".join(text[: 4 * MOST_LINE].expandtabs(_TAB).splitlines())
    return _cut(visible(plain), MOST_LINE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
