"""hatch: what it starts is told and planted as by itself, where it installs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.port import Framework
from gatewright.ecosystems.registry import recognise, why_unproven
from tests.ecosystems.running import Files, Suite
from tests.ecosystems.tools import prefix_with

PREFIX = prefix_with("hatch", "pytest")
needs_hatch = pytest.mark.skipif(PREFIX is None, reason="no environment on PATH has hatch and pytest")

ENVIRONMENTS = """[project]
name = "demo"
version = "1"
[tool.hatch.envs.default]
skip-install = true
[tool.hatch.envs.default.scripts]
check = "pytest -q {args:tests}"
all = ["ruff check .", "check"]
[tool.hatch.envs.apart]
detached = true
[tool.hatch.envs.apart.scripts]
run = "python -m unittest discover -s tests"
[tool.hatch.envs.full]
skip-install = false
[tool.hatch.envs.more]
dependencies = ["coverage"]
"""
TEST = (
    "import unittest\n\n\nclass AddingTest(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(1 + 1, 2)\n"
)
FILES = {"pyproject.toml": ENVIRONMENTS, "tests/test_adding.py": TEST}


async def found(command: str, **files: str) -> Framework | None:
    return await recognise(command.split(), Files({**FILES, **files}))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("hatch -e system run pytest -q", "pytest"),
        ("hatch --env=system run python -m unittest", "unittest"),
        ("hatch run system:pytest", "pytest"),
        ("hatch run pytest", "pytest"),
        ("hatch run check", "pytest"),
        ("hatch run all", "pytest"),
        ("hatch run apart:run", "unittest"),
        ("hatch -e apart run run", "unittest"),
    ],
)
async def test_the_framework_that_hatch_starts_is_the_one_that_is_told(command: str, name: str) -> None:
    framework = await found(command)
    assert framework is not None
    assert framework.name == name
    make = await recognise(("make", "test"), Files({**FILES, "Makefile": f"test:\n\t{command}\n"}))
    assert make is not None
    assert make.name == name


@pytest.mark.parametrize(
    "command",
    ["hatch test", "hatch run full:check", "hatch run full:pytest", "hatch run more:check", "hatch run hatch-test:run"],
)
async def test_an_environment_that_has_to_be_installed_is_unproven_and_the_inner_command_is_proposed(command: str) -> None:
    assert await found(command) is None
    words = await why_unproven(command.split(), Files(FILES))
    assert "a network that tests do not have" in words
    assert "pytest" in words


@pytest.mark.parametrize("command", ["hatch run true", "hatch env show", "hatch run", "hatch", "hatch -e"])
async def test_a_command_without_a_framework_stays_unproven(command: str) -> None:
    assert await found(command) is None


async def test_a_script_that_leads_to_itself_and_settings_that_cannot_be_read_start_nothing() -> None:
    loop = ENVIRONMENTS.replace('"pytest -q {args:tests}"', '"all"')
    assert await found("hatch run check", **{"pyproject.toml": loop}) is None
    for text in ("[tool.hatch", "[tool.hatch]\nenvs = 3\n", "[tool.hatch.envs]\ndefault = 3\n", "tool = 3\n"):
        assert await found("hatch run check", **{"pyproject.toml": text}) is None


async def test_settings_of_hatch_itself_count_before_those_of_the_project() -> None:
    own = "[envs.default]\nskip-install = true\n[envs.default.scripts]\ncheck = 'python -m unittest'\n"
    framework = await found("hatch run check", **{"hatch.toml": own})
    assert framework is not None
    assert framework.name == "unittest"


@needs_hatch
@pytest.mark.parametrize("command", ["hatch -e system run pytest -q", "hatch run check"])
async def test_its_tests_are_told_and_a_planted_failure_fails_it(command: str, tmp_path: Path) -> None:
    suite = Suite(tmp_path, command.split(), FILES, PREFIX)
    ran = await suite.all()
    assert ran.completed.exit_code == 0, ran.words
    assert (ran.told.complete, list(ran.told.outcomes.values())) == (True, ["passed"])
    assert await suite.is_alive()


@needs_hatch
async def test_an_exit_code_that_hatch_is_told_to_ignore_is_no_living_command(tmp_path: Path) -> None:
    files = {**FILES, "pyproject.toml": ENVIRONMENTS.replace('"pytest -q', '"- pytest -q')}
    assert not await Suite(tmp_path, ("hatch", "run", "check"), files, PREFIX).is_alive()
