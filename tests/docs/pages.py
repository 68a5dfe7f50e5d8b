"""The pages of the documentation as a reader meets them: headings with their anchors, links, and what stands in code marks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from tests.docs.snippets import ROOT

#: Pages that tell how things are. A changelog tells how they were.
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(ROOT / "tests" / name / "README.md" for name in ("faults", "fuzz")),
    *sorted((ROOT / "docs").rglob("*.md")),
)
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def name_of(page: Path) -> str:
    """A page's path from the top of the repository."""
    return page.relative_to(ROOT).as_posix()


@cache
def tokens(page: Path) -> tuple[Token, ...]:
    return tuple(MarkdownIt().enable("table").parse(page.read_text("utf-8")))


def headings(page: Path) -> list[str]:
    """The text of each heading, without marks."""
    read = tokens(page)
    return [_plain(read[place + 1]) for place, token in enumerate(read) if token.type == "heading_open"]


def anchors(page: Path) -> set[str]:
    """What a link may name behind ``#``, as GitHub makes it of headings."""
    seen: Counter[str] = Counter()
    made = set()
    for heading in headings(page):
        anchor = _NOT_IN_ANCHORS.sub("", heading.lower()).replace(" ", "-")
        made.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return made


def links(page: Path) -> list[str]:
    """Where the links of a page lead, in order."""
    found = (str(part.attrs["href"]) for part in _parts(page) if part.type == "link_open")
    return list(found)


def code(page: Path) -> Iterator[str]:
    """What stands in code marks in the text of a page; whole blocks of code are left out."""
    return (part.content for part in _parts(page) if part.type == "code_inline")


def _parts(page: Path) -> Iterator[Token]:
    for token in tokens(page):
        yield from token.children or ()


def _plain(inline: Token) -> str:
    return "".join(part.content for part in inline.children or () if part.type in {"text", "code_inline"})
