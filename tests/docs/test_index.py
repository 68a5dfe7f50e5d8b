"""A reader finds every page: it is in the index, every decision is under its number, and each link leads to a heading."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.pages import PAGES, anchors, headings, links, name_of
from tests.docs.snippets import ROOT

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
DECISIONS = DOCS / "adr" / "README.md"
KINDS = ["Tutorials", "How-to guides", "Reference", "Explanation", "Decisions"]
ELSEWHERE = ("http://", "https://", "mailto:")


def inside(page: Path) -> list[str]:
    return [link for link in links(page) if not link.startswith(ELSEWHERE)]


def target(page: Path, link: str) -> tuple[Path, str]:
    """The file that a link leads to, and the heading in it."""
    path, _, anchor = link.partition("#")
    return (page.parent / unquote(path)).resolve() if path else page, anchor


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_to_an_existing_file_and_heading(page: Path) -> None:
    for link in inside(page):
        path, anchor = target(page, link)
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


def test_every_page_is_in_the_index_once() -> None:
    indexed = [path for index in (INDEX, DECISIONS) for link in inside(index) for path, _ in [target(index, link)]]
    pages = {page for page in DOCS.rglob("*.md") if page != INDEX}
    assert pages - set(indexed) == set()
    assert len(indexed) == len(set(indexed))


def test_the_index_has_the_kinds_of_page_in_order() -> None:
    assert headings(INDEX)[1:] == KINDS


def test_a_decision_is_listed_under_its_number_and_its_title() -> None:
    decisions = sorted((DOCS / "adr").glob("[0-9]*.md"))
    listed = [line for line in DECISIONS.read_text("utf-8").splitlines() if "](" in line]
    expected = []
    for number, page in enumerate(decisions, 1):
        title = headings(page)[0]
        assert title.startswith(f"{number}. "), page
        assert page.name.startswith(f"{number:04}-"), page
        expected.append(f"{number}. [{title.partition(' ')[2]}]({page.name})")
    assert listed == expected


def test_the_readme_links_the_index_and_each_page_kind() -> None:
    targets = {target(ROOT / "README.md", link)[0] for link in inside(ROOT / "README.md")}
    assert INDEX in targets
    for section in INDEX.read_text("utf-8").split("\n## ")[1:5]:
        assert targets & {DOCS / page for page in re.findall(r"\]\(([\w-]+\.md)\)", section)}, section
