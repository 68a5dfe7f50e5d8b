"""The code blocks of a page, as its reader would paste them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^    .*\n)+", re.MULTILINE)


def fenced(page: str) -> list[tuple[str, str]]:
    """(language, text) of every fenced block of a page, in order."""
    return [(match[1], match[2]) for match in _FENCED.finditer((ROOT / page).read_text("utf-8"))]


def indented(page: str) -> list[str]:
    """The text of every indented block of a page that is not fenced, in order."""
    text = _FENCED.sub("", (ROOT / page).read_text("utf-8"))
    return ["".join(line[4:] for line in match[0].splitlines(keepends=True)) for match in _INDENTED.finditer(text)]
