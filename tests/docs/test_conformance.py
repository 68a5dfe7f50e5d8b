"""Each rule of the specification documents is done by code and tests that are there, or not done for a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.snippets import ROOT
from tests.docs.test_specification import SPECIFICATION, numbers

Rule = dict[str, Any]
RULES: dict[str, list[Rule]] = yaml.safe_load((ROOT / "docs" / "conformance.yaml").read_text("utf-8"))
EVERY = [rule for rules in RULES.values() for rule in rules]
#: Most words of a rule, as of any sentence; fewest of a reason.
LONGEST, SHORTEST = 25, 5
#: The section that an id of the numbered specification names: `core-6.1.2-map` is of 6.1.2, `core-7-S1-least` of 7, S1.
_SECTION = re.compile(r"core-(\d+(?:\.\d+)*)(?:-(S\d|replay)|-m(\d))?(?:-|$)")


@cache
def names(path: Path) -> frozenset[str]:
    """The functions, classes and constants of a module, found without importing it."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return frozenset(found)


def missing(place: str) -> bool:
    """Whether a file is not there, or has no such name."""
    path, _, name = place.partition("::")
    return not (ROOT / path).exists() or bool(name and name not in names(ROOT / path))


def faults(rule: Rule) -> Iterator[str]:
    """What is wrong with a rule."""
    if not rule["rule"].endswith(".") or len(rule["rule"].split()) > LONGEST:
        yield "the rule is no short sentence"
    if "not_done" in rule:
        if set(rule) != {"id", "rule", "not_done"}:
            yield "it is done and not done"
        if len(rule["not_done"].split()) < SHORTEST:
            yield "the reason is too short"
        return
    if set(rule) != {"id", "rule", "code", "tests"} or not rule["code"] or not rule["tests"]:
        yield "it has no code or no test"
        return
    yield from (f"{place} is missing" for place in (*rule["code"], *rule["tests"]) if missing(place))
    yield from (f"{place} is no test" for place in rule["tests"] if not re.match(r"tests/.+\.py::test_\w+$", place))


def section(rule_id: str, headings: list[str]) -> str:
    """The heading of the specification that an id of ``core`` belongs to: its own number, or the number above."""
    match = _SECTION.match(rule_id)
    assert match is not None, rule_id
    number = match[1] if match[1] in headings else match[1].rpartition(".")[0]
    return number + (f", {match[2]}" if match[2] else "") + (f", mechanism {match[3]}" if match[3] else "")


DONE = {
    "id": "x",
    "rule": "It is so.",
    "code": [".ci/reference.py::table"],
    "tests": ["tests/docs/test_conformance.py::test_a_sound_rule_has_no_fault"],
}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rule": "It is so"}, "no short sentence"),
        ({"rule": "It " * 26 + "is."}, "no short sentence"),
        ({"code": []}, "no code or no test"),
        ({"tests": []}, "no code or no test"),
        ({"code": ["shared/gatewright/nowhere.py"]}, "nowhere.py is missing"),
        ({"code": [".ci/reference.py::nowhere"]}, "nowhere is missing"),
        ({"tests": ["tests/docs/test_conformance.py::test_nowhere"]}, "test_nowhere is missing"),
        ({"tests": ["tests/docs/test_conformance.py::faults"]}, "is no test"),
        ({"not_done": "a reason of more than five words"}, "done and not done"),
    ],
)
def test_a_fault_of_a_rule_is_found(changes: Rule, words: str) -> None:
    assert words in " ".join(faults(DONE | changes))


def test_a_sound_rule_has_no_fault() -> None:
    assert list(faults(DONE)) == []


def test_a_reason_of_few_words_is_a_fault() -> None:
    assert list(faults({"id": "x", "rule": "It is so.", "not_done": "not needed here"})) == ["the reason is too short"]


def test_every_rule_has_code_and_tests_or_a_reason() -> None:
    assert {rule["id"]: found for rule in EVERY if (found := list(faults(rule)))} == {}


def test_every_id_is_unique_and_begins_with_its_document() -> None:
    ids = [rule["id"] for rule in EVERY]
    assert len(ids) == len(set(ids)) > 300
    assert [rule["id"] for name, rules in RULES.items() for rule in rules if not rule["id"].startswith(f"{name}-")] == []


def test_every_section_of_the_specification_has_rules_and_each_rule_a_section() -> None:
    listed = [number for number in numbers() if not number.startswith("9")]
    leaves = {number for number in listed if not any(other.startswith((f"{number}.", f"{number},")) for other in listed)}
    known = {section(rule["id"], listed) for rule in RULES["core"]}
    assert known - set(listed) == set()
    assert leaves - known == set()


def test_the_page_shows_every_rule() -> None:
    text = SPECIFICATION.read_text("utf-8")
    assert [rule["id"] for rule in EVERY if f"| `{rule['id']}` |" not in text] == []
