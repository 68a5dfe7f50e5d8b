"""The glossary can be looked things up in: alphabetical, a line for each word, and the words of the code are among them."""

from __future__ import annotations

import re
from typing import get_args

from gatewright.bus.identities import STANDING
from gatewright.bus.topology import STREAMS
from gatewright.contracts.reports import GateName
from tests.docs.snippets import ROOT

LINES = (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()[4:]
#: What the code writes in one word and the glossary as people do.
SPELLED = {"techlead": "tech lead", "testrunner": "test runner"}


def terms() -> list[str]:
    """The words that are explained, in order."""
    return [match[1] for line in LINES if (match := re.match(r"- \*\*([^*]+)\*\*: \S.+\.$", line))]


def test_every_term_has_one_line_in_alphabetical_order() -> None:
    assert len(terms()) == len(LINES), "each line is a term"
    assert terms() == sorted(set(terms()), key=lambda term: term.lower().replace("-", " "))


def test_the_names_of_gates_streams_and_identities_are_explained() -> None:
    text = "\n".join(LINES)
    gates = set(get_args(GateName)) - {"schema"}
    names = gates | {stream.name for stream in STREAMS} | {SPELLED.get(name, name) for name in STANDING}
    assert {name for name in names if not re.search(rf"\b{re.escape(name)}\b", text)} == set()
