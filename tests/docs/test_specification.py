"""A number of the specification that anything cites is the number of a heading there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import headings, name_of
from tests.docs.snippets import ROOT

SPECIFICATION = ROOT / "docs" / "specification.md"
CITING = ("services", "shared", "docs", "tests", "policies", "examples", "deploy", "benchmarks")
TEXTS = {".py", ".md", ".json", ".yaml", ".yml", ".cel"}
_NUMBER = r"\d+(?:\.\d+)*(?:, (?:mechanism \d+|S\d|replay))?"
#: One number or several: "6.1.2; 8, mechanism 5", "5.2 and 5.3".
_CITED = re.compile(rf"\bspecification[,:]?\s+({_NUMBER}(?:(?:; | and ){_NUMBER})*)", re.IGNORECASE)
_HEADING = re.compile(rf"({_NUMBER})[.:]? ")


def cited(text: str) -> Iterator[str]:
    """The numbers that a text cites."""
    for citation in _CITED.finditer(text):
        yield from re.split(r"; | and ", citation[1])


def numbers() -> list[str]:
    """The numbers of the specification's headings, in order."""
    found = (_HEADING.match(heading + " ") for heading in headings(SPECIFICATION))
    return [match[1] for match in found if match is not None]


def citing_files() -> Iterator[Path]:
    for folder in CITING:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in TEXTS and path.is_file() and path != Path(__file__):
                yield path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(specification 6.1.2; 8, mechanism 5).", ["6.1.2", "8, mechanism 5"]),
        ("Specification 5.2 and 5.3. 7 of them", ["5.2", "5.3"]),
        ("(specification 7, S1)", ["7, S1"]),
        ("(specification 7: blocking review", ["7"]),
        ("Re-execution (specification 3, replay): the same", ["3, replay"]),
        ("the specification names two", []),
    ],
)
def test_a_citation_is_read_as_the_numbers_that_it_names(text: str, found: list[str]) -> None:
    assert list(cited(text)) == found


def test_every_number_that_is_cited_is_a_heading_of_the_specification() -> None:
    known = set(numbers())
    by_number: dict[str, list[str]] = {}
    for path in citing_files():
        for number in cited(path.read_text("utf-8")):
            by_number.setdefault(number, []).append(name_of(path))
    assert len(by_number) > 10, "the citations are found"
    assert {number: places for number, places in by_number.items() if number not in known} == {}


def test_a_number_of_the_specification_stands_for_one_rule() -> None:
    found = numbers()
    assert len(found) == len(set(found))
    assert len(found) == len(headings(SPECIFICATION)) - 1, "every heading but the title has a number"
