"""``make test``: told for the framework that its rule starts, and unproven where it starts another program."""

from __future__ import annotations

import pytest

from gatewright.ecosystems.make.rules import recipe_lines
from gatewright.ecosystems.registry import recognise
from tests.ecosystems.python.trees import Tree

MAKE_TEST = ("make", "test")


@pytest.mark.parametrize("recipe", ["./$(PROGRAM)", "./run-tests.sh", "./gradlew test", "bin/check --all"])
async def test_a_make_rule_with_its_own_program_has_no_framework(recipe: str) -> None:
    tree = Tree({"Makefile": f"PROGRAM = adds_test\ntests: $(PROGRAM)\ntest: tests\n\t{recipe}\n", "test.c": "int main(){}"})
    assert await recognise(MAKE_TEST, tree) is None


@pytest.mark.parametrize(
    ("recipe", "name"), [("python -m unittest", "unittest"), ("./prepare && pytest -q", "pytest"), ("cargo test", "cargo test")]
)
async def test_a_make_rule_that_starts_a_framework_is_recognised(recipe: str, name: str) -> None:
    found = await recognise(MAKE_TEST, Tree({"Makefile": f"test:\n\t{recipe}\n", "Cargo.toml": "[package]\nname = 'a'\n"}))
    assert found is not None
    assert found.name == name


async def test_a_target_that_many_need_is_expanded_once() -> None:
    names = " ".join(f"n{number}" for number in range(100))
    text = f"test: {names}\n{names}: {' '.join(f'm{number}' for number in range(100))}\n"
    text += f"{' '.join(f'm{number}' for number in range(100))}: last\nlast:\n\tpytest\n"
    assert await recipe_lines(Tree({"Makefile": text}), "test") == ("pytest",)
