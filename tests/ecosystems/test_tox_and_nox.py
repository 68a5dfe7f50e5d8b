"""tox, nox and uv: what they start is told and planted as by itself, where it can be started without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.port import Framework
from gatewright.ecosystems.registry import recognise, why_unproven
from tests.ecosystems.running import Files, Suite
from tests.ecosystems.tools import prefix_with

PREFIX = prefix_with("tox", "nox", "uv", "pytest")
needs_them = pytest.mark.skipif(PREFIX is None, reason="no environment on PATH has tox, tox-current-env, nox, uv and pytest")

TOX = """[tox]
env_list = py, lint
[testenv]
deps = pytest
commands =
    python -c "print('first')"
    pytest {posargs:tests} -q
[testenv:py]
pass_env = WHATEVER
[testenv:lint]
commands = ruff check {toxinidir}
[testenv:bare]
deps =
skip_install = true
commands = python -m unittest discover -s tests
"""
NOXFILE = """import nox

@nox.session(python=["3.11", "3.12"], name="tests")
def check(session):
    session.install("pytest")
    session.run("pytest", "-q", *session.posargs)

@nox.session
def bare(session):
    session.run("python", "-m", "unittest", "discover", "-s", "tests")

def helper(session):
    session.run("mypy")
"""
TEST = (
    "import unittest\n\n\nclass AddingTest(unittest.TestCase):\n    def test_adds(self):\n        self.assertEqual(1 + 1, 2)\n"
)
FILES = {"tox.ini": TOX, "noxfile.py": NOXFILE, "tests/test_adding.py": TEST}
PYPROJECT = '[project]\nname = "demo"\nversion = "1"\ndependencies = ["not-on-this-machine"]\n'


async def found(command: str, **files: str) -> Framework | None:
    return await recognise(command.split(), Files({**FILES, **files}))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("tox --current-env", "pytest"),
        ("tox --current-env -e py", "pytest"),
        ("tox -e bare", "unittest"),
        ("tox run -e bare", "unittest"),
        ("nox --no-venv --no-install", "pytest"),
        ("nox --no-venv --no-install -s tests-3.12", "pytest"),
        ("nox --session=bare", "unittest"),
    ],
)
async def test_the_framework_in_an_environment_is_the_one_that_is_told(command: str, name: str) -> None:
    framework = await found(command)
    assert framework is not None
    assert framework.name == name
    make = await recognise(("make", "test"), Files({**FILES, "Makefile": f"test:\n\t{command}\n"}))
    assert make is not None
    assert make.name == name


@pytest.mark.parametrize("command", ["tox", "tox -e py", "tox -e py,bare", "nox", "nox -s tests"])
async def test_an_environment_that_has_to_be_installed_is_unproven_and_the_inner_command_is_proposed(command: str) -> None:
    assert await found(command) is None
    words = await why_unproven(command.split(), Files(FILES))
    assert "a network that tests do not have" in words
    assert "pytest" in words


@pytest.mark.parametrize(
    "command", ["tox -e lint --current-env", "nox --no-venv --no-install -s helper", "tox --current-env -e none"]
)
async def test_a_command_without_a_framework_stays_unproven(command: str) -> None:
    framework = await found(command, **{"tox.ini": TOX.replace("pytest {", "echo {")})
    assert framework is None


@pytest.mark.parametrize(
    "settings",
    [
        {"tox.ini": "", "setup.cfg": "[tox:tox]\n[testenv]\nskip_install = true\ncommands = pytest\n"},
        {"tox.ini": "", "pyproject.toml": '[tool.tox.env_run_base]\npackage = "skip"\ncommands = [["pytest", "tests"]]\n'},
        {"tox.ini": "", "tox.toml": 'env_list = ["a"]\n[env.a]\nskip_install = true\ncommands = [["pytest"]]\n'},
        {
            "tox.ini": "",
            "pyproject.toml": "[tool.tox]\nlegacy_tox_ini = '''\n[testenv]\nskip_install=true\ncommands=pytest\n'''\n",
        },
    ],
)
async def test_settings_are_read_from_every_file_that_tox_reads(settings: dict[str, str]) -> None:
    framework = await found("tox", **settings)
    assert framework is not None
    assert framework.name == "pytest"


@needs_them
@pytest.mark.parametrize(
    "command",
    ["tox --current-env -e py", "tox -e bare", "nox --no-venv --no-install -s tests", "nox -s bare", "uv run --frozen pytest"],
)
async def test_its_tests_are_told_and_a_planted_failure_fails_it(command: str, tmp_path: Path) -> None:
    files = {**FILES, "pyproject.toml": PYPROJECT, "tox.ini": TOX.replace("    python -c \"print('first')\"\n", "")}
    suite = Suite(tmp_path, command.split(), files, PREFIX)
    ran = await suite.all()
    assert ran.completed.exit_code == 0, ran.words
    assert (ran.told.complete, list(ran.told.outcomes.values())) == (True, ["passed"])
    assert await suite.is_alive()


@needs_them
@pytest.mark.parametrize("trick", ["commands = - pytest {posargs:tests} -q", "ignore_outcome = true\ncommands = pytest -q"])
async def test_an_exit_code_that_tox_is_told_to_ignore_is_no_living_command(trick: str, tmp_path: Path) -> None:
    settings = f"[testenv]\n{trick}\n"
    suite = Suite(tmp_path, ("tox", "--current-env"), {**FILES, "tox.ini": settings}, PREFIX)
    assert not await suite.is_alive()
