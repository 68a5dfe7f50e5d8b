"""tox, nox, uv and hatch: what they start is told and planted as by itself, where it can be started without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.ecosystems.hatch.framework import commands_of_hatch
from gatewright.ecosystems.port import Framework
from gatewright.ecosystems.registry import recognise, why_unproven
from tests.ecosystems.running import Files, Suite
from tests.ecosystems.tools import prefix_with

PREFIX = prefix_with("tox", "nox", "uv", "pytest")
needs_them = pytest.mark.skipif(PREFIX is None, reason="no environment on PATH has tox, tox-current-env, nox, uv and pytest")
HATCH = prefix_with("hatch", "pytest")
needs_hatch = pytest.mark.skipif(HATCH is None, reason="no environment on PATH has hatch and pytest")

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
FILES = {"tox.ini": TOX, "noxfile.py": NOXFILE, "pyproject.toml": ENVIRONMENTS, "tests/test_adding.py": TEST}
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
async def test_the_framework_inside_an_environment_is_recognised(command: str, name: str) -> None:
    framework = await found(command)
    assert framework is not None
    assert framework.name == name
    make = await recognise(("make", "test"), Files({**FILES, "Makefile": f"test:\n\t{command}\n"}))
    assert make is not None
    assert make.name == name


@pytest.mark.parametrize(
    "command",
    [
        *("tox", "tox -e py", "tox -e py,bare", "nox", "nox -s tests"),
        *("hatch test", "hatch run full:check", "hatch run full:pytest", "hatch run more:check", "hatch run hatch-test:run"),
    ],
)
async def test_an_uninstalled_environment_is_unproven_and_its_command_is_proposed(command: str) -> None:
    assert await found(command) is None
    words = await why_unproven(command.split(), Files(FILES))
    assert "a network that tests do not have" in words
    assert "pytest" in words


@pytest.mark.parametrize(
    "command",
    [
        *("tox -e lint --current-env", "nox --no-venv --no-install -s helper", "tox --current-env -e none"),
        *("hatch run true", "hatch env show", "hatch run", "hatch", "hatch -e"),
    ],
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


async def test_a_recursive_script_and_unreadable_settings_start_nothing() -> None:
    loop = ENVIRONMENTS.replace('"pytest -q {args:tests}"', '"all"')
    assert await found("hatch run check", **{"pyproject.toml": loop}) is None
    for text in ("[tool.hatch", "[tool.hatch]\nenvs = 3\n", "[tool.hatch.envs]\ndefault = 3\n", "tool = 3\n"):
        assert await found("hatch run check", **{"pyproject.toml": text}) is None


async def test_settings_of_hatch_itself_count_before_those_of_the_project() -> None:
    own = "[envs.default]\nskip-install = true\n[envs.default.scripts]\ncheck = 'python -m unittest'\n"
    framework = await found("hatch run check", **{"hatch.toml": own})
    assert framework is not None
    assert framework.name == "unittest"


@pytest.mark.parametrize(
    ("command", "prefix"),
    [
        *(
            pytest.param(command, PREFIX, marks=needs_them)
            for command in (
                *("tox --current-env -e py", "tox -e bare", "nox --no-venv --no-install -s tests", "nox -s bare"),
                "uv run --frozen pytest",
            )
        ),
        *(pytest.param(command, HATCH, marks=needs_hatch) for command in ("hatch -e system run pytest -q", "hatch run check")),
    ],
)
async def test_its_tests_are_reported_and_a_planted_failure_fails_it(command: str, prefix: Path, tmp_path: Path) -> None:
    project = ENVIRONMENTS if command.startswith("hatch") else PYPROJECT
    files = {**FILES, "pyproject.toml": project, "tox.ini": TOX.replace("    python -c \"print('first')\"\n", "")}
    suite = Suite(tmp_path, command.split(), files, prefix)
    ran = await suite.all()
    assert ran.completed.exit_code == 0, ran.words
    assert (ran.told.complete, list(ran.told.outcomes.values())) == (True, ["passed"])
    assert await suite.is_alive()


@pytest.mark.parametrize(
    ("command", "files", "prefix"),
    [
        *(
            pytest.param("tox --current-env", {"tox.ini": f"[testenv]\n{trick}\n"}, PREFIX, marks=needs_them)
            for trick in ("commands = - pytest {posargs:tests} -q", "ignore_outcome = true\ncommands = pytest -q")
        ),
        pytest.param(
            "hatch run check",
            {"pyproject.toml": ENVIRONMENTS.replace('"pytest -q', '"- pytest -q')},
            HATCH,
            marks=needs_hatch,
        ),
    ],
)
async def test_an_exit_code_that_is_to_be_ignored_is_no_living_command(
    command: str, files: dict[str, str], prefix: Path, tmp_path: Path
) -> None:
    suite = Suite(tmp_path, command.split(), {"tests/test_adding.py": TEST, **files}, prefix)
    assert not await suite.is_alive()


async def test_scripts_that_multiply_each_other_are_followed_a_while() -> None:
    scripts = {f"s{number}": [f"s{number + 1}"] * 40 for number in range(3)} | {"s3": "true"}
    text = (
        "[envs.default]\nskip-install = true\nscripts = {"
        + ", ".join(f"{name} = {said!r}" for name, said in scripts.items())
        + "}"
    )
    commands = await commands_of_hatch(("hatch", "run", "s0"), Files({"hatch.toml": text}))
    assert 0 < len(commands) <= 1_000
