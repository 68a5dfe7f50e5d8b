"""What is compiled for a command, and when its sandbox is started for that: never for what runs compile sooner."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.sandbox import SandboxLimits, make_sandbox
from gatewright.sandbox.environments import Environments, ShownFolder
from gatewright.services.testrunner import bytecode_cache
from gatewright.services.testrunner.bytecode_cache import WORTH, BytecodeCache
from gatewright.tasks.inputs import RebuiltCandidate
from gatewright.workspace import Workspaces
from tests.ecosystems.environments import plain_environment
from tests.handler_fixture import BrokenSandbox, HandlerFixture, make_handler_fixture

ARGV = ("python", "-m", "pytest")
LINE = b"number = 1\n"
FILES = {
    "large.py": LINE * (WORTH // len(LINE) + 1),
    "small.py": LINE,
    "test_a.py": b"def test_a():\n    assert True\n",
    "wrong.py": b"def (\n" + LINE * (WORTH // len(LINE)),
    "own/__init__.py": LINE,
}


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, FILES)


async def candidate_of(fixture: HandlerFixture) -> RebuiltCandidate:
    mirror = await fixture.mirror()
    tree = await mirror.tree_of(fixture.baseline)
    return RebuiltCandidate(mirror, fixture.baseline, tree, tree)


def broken(fixture: HandlerFixture) -> BytecodeCache:
    """One whose sandbox cannot be started."""
    return BytecodeCache(fixture.state / "bytecode", BrokenSandbox(), Workspaces(fixture.state / "workspaces"))


async def made(cache: BytecodeCache, fixture: HandlerFixture, environment: str = "an environment") -> dict[bytes, str]:
    prefix = Environments((ShownFolder(plain_environment()),))
    found = await cache.of(await candidate_of(fixture), (ARGV,), prefix, environment, SandboxLimits())
    return {path: each.name.partition(".")[2] for path, each in found.items()}


TESTS_AND_IMPORTS = {
    "pyproject.toml": b'[tool.pytest.ini_options]\ntestpaths = ["tests"]\n',
    "src/pkg/__init__.py": b"from .inner import (\n    large,\n)\n",
    "src/pkg/inner/__init__.py": LINE,
    "src/pkg/inner/large.py": b"import pkg.other as it, os\n" + LINE * (WORTH // len(LINE)),
    "src/pkg/other.py": b"from .. import nothing\n",
    "src/pkg/unused.py": LINE,
    "tests/conftest.py": b"import helper\n",
    "tests/helper.py": LINE,
    "tests/test_a.py": b"def test_a():\n    import pkg\n",
    "elsewhere/test_b.py": LINE,
}


async def test_a_new_command_compiles_tests_and_their_imports_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    fixture = make_handler_fixture(tmp_path, TESTS_AND_IMPORTS)
    workspaces = Workspaces(fixture.state / "workspaces")
    found = await made(BytecodeCache(fixture.state / "bytecode", make_sandbox("bubblewrap"), workspaces), fixture)
    left_out = {"pyproject.toml", "src/pkg/unused.py", "elsewhere/test_b.py"}
    assert {path.decode() for path in found} == TESTS_AND_IMPORTS.keys() - left_out
    assert {path.decode() for path, name in found.items() if "-pytest-" in name} == {"tests/conftest.py", "tests/test_a.py"}
    assert await made(broken(fixture), fixture) == found


async def test_a_command_without_large_imports_gets_no_bytecode(fixture: HandlerFixture) -> None:
    workspaces = Workspaces(fixture.state / "workspaces")
    cache = BytecodeCache(fixture.state / "bytecode", make_sandbox("bubblewrap"), workspaces)
    assert await made(cache, fixture) == {}  # the only test imports none of the large ones


@pytest.mark.parametrize("argv", [("ruff", "check"), ("python", "large.py"), ("go", "test", "./...")])
async def test_a_new_command_without_python_tests_starts_no_sandbox(fixture: HandlerFixture, argv: tuple[str, ...]) -> None:
    prefix = Environments((ShownFolder(plain_environment()),))
    found = await broken(fixture).of(await candidate_of(fixture), (argv,), prefix, "an environment", SandboxLimits())
    assert found == {}


@pytest.mark.parametrize("loaded", [("small.py", "test_a.py"), ("gone.py",), ("small.py", "large.txt"), ("../../large.py",)])
async def test_small_suites_and_names_that_the_baseline_has_not_start_no_sandbox(
    fixture: HandlerFixture, loaded: tuple[str, ...]
) -> None:
    cache = broken(fixture)
    await cache.remember(ARGV, "an environment", "pytest", loaded)
    assert await made(cache, fixture) == {}


async def test_what_was_loaded_in_another_environment_is_not_compiled(fixture: HandlerFixture) -> None:
    workspaces = Workspaces(fixture.state / "workspaces")
    cache = BytecodeCache(fixture.state / "bytecode", make_sandbox("bubblewrap"), workspaces)
    await cache.remember(ARGV, "an environment", "pytest", ("large.py",))
    assert await made(cache, fixture, "another") == {}
    assert await made(cache, fixture, "") == {}
    assert (await made(cache, fixture)).keys() == {b"large.py"}


async def test_sources_are_compiled_once_and_one_that_is_none_is_left_out(fixture: HandlerFixture) -> None:
    workspaces = Workspaces(fixture.state / "workspaces")
    cache = BytecodeCache(fixture.state / "bytecode", make_sandbox("bubblewrap"), workspaces)
    await cache.remember(ARGV, "an environment", "pytest", ("large.py", "test_a.py", "own/__init__.py", "wrong.py"))
    found = await made(cache, fixture)
    assert found.keys() == {b"large.py", b"test_a.py", b"own/__init__.py"}
    assert "-pytest-" in found[b"test_a.py"]
    assert "-pytest-" not in found[b"large.py"]
    again = BytecodeCache(fixture.state / "bytecode", BrokenSandbox(), workspaces)
    assert await made(again, fixture) == found


async def test_what_was_kept_longest_ago_is_forgotten(fixture: HandlerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bytecode_cache, "_MOST_KEPT", 1)
    monkeypatch.setattr(bytecode_cache, "_MOST_ENVIRONMENTS", 1)
    workspaces = Workspaces(fixture.state / "workspaces")
    cache = BytecodeCache(fixture.state / "bytecode", make_sandbox("bubblewrap"), workspaces)
    for environment in ("an environment", "another"):
        await cache.remember(ARGV, environment, "pytest", ("large.py", "test_a.py"))
        assert len(await made(cache, fixture, environment)) == 2
    (left,) = (fixture.state / "bytecode").iterdir()
    assert len([place for place in left.iterdir() if place.is_file()]) == 1
