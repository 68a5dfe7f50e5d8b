"""What the page on the architecture draws is how the code is built."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from itertools import pairwise

from gatewright.run.states import SUCCESSORS
from tests.docs.snippets import ROOT, fenced

PAGE = "docs/architecture.md"
GATEKEEPER = ROOT / "services" / "gatekeeper"
PREFIX = "gatewright.services.gatekeeper."


def drawing(first: str) -> list[str]:
    """The lines of the drawing whose first line is ``first``, without that line."""
    (text,) = [text for language, text in fenced(PAGE) if language == "mermaid" and text.startswith(first + "\n")]
    return [line.strip() for line in text.splitlines()[1:]]


def arrows() -> set[tuple[str, str]]:
    """(what needs, what is needed) in the drawing of the gatekeeper."""
    return {pair for line in drawing("flowchart TD") for pair in pairwise(line.split(" --> "))}


def reached(start: str, drawn: set[tuple[str, str]]) -> set[str]:
    """What can be reached from ``start`` along arrows."""
    found, last = set[str](), {start}
    while last:
        last = {end for begin, end in drawn if begin in last} - found
        found |= last
    return found


def imports() -> Iterator[tuple[str, str]]:
    """Which part of the gatekeeper imports which other one."""
    for path in GATEKEEPER.rglob("*.py"):
        part = path.relative_to(GATEKEEPER).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX):
                needed = (node.module or "").removeprefix(PREFIX).partition(".")[0]
                if needed != part:
                    yield part, needed


def test_the_floors_that_are_drawn_are_those_of_the_layers_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    (floors,) = [text.splitlines() for language, text in fenced(PAGE) if language == "text"]
    assert floors == layers


def test_the_drawing_of_the_gatekeeper_has_exactly_its_imports() -> None:
    drawn, real = arrows(), set(imports())
    nodes = {node for pair in drawn for node in pair}
    undrawn = {(part, needed) for part, needed in real if part in nodes and needed not in reached(part, drawn) | {"settings"}}
    assert undrawn == set()
    assert drawn - real == set()


def test_the_states_that_are_drawn_follow_each_other_as_in_the_ledger() -> None:
    moves = {match.groups() for line in drawing("stateDiagram-v2") if (match := re.match(r"(\w+) --> (\w+):", line))}
    assert moves == {(state, later) for state, successors in SUCCESSORS.items() for later in successors}
