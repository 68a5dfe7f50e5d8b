"""A test that fails every second time on one tree, through a whole stack: it is named, counted, and never made green."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import stack as stacks
from tests.e2e.stack import Stack, is_ready, running_stack, wait_until
from tests.ecosystems.environments import make_environment
from tests.git.repositories import MakeRepository

pytestmark = pytest.mark.long

FILES = {
    "src/shop.py": b"def price(number):\n    return number * 2\n",
    # Depends on something outside of the tree.
    "tests/test_shop.py": b"import pathlib, sys\n\n\ndef test_steady():\n    assert True\n\n\n"
    b"def test_retry():\n    assert not (pathlib.Path(sys.prefix) / 'slow').exists()\n",
    "tools/change.py": b"import pathlib, sys\npathlib.Path('src/shop.py').write_text(f'PRICE = {sys.argv[1]}\\n')\n",
}
TEST = "tests/test_shop.py::test_retry"


def listed(stack: Stack, *words: str) -> list[dict[str, Any]]:
    """The flaky tests that the command lists."""
    finished = stack.command("tests", "flaky", "--json", *words)
    assert finished.returncode == 0, finished.stderr
    found: list[dict[str, Any]] = json.loads(finished.stdout)["tests"]
    return found


def test_a_flake_is_named_listed_and_never_green(
    make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = tmp_path / "environment"
    make_environment(prefix)
    monkeypatch.setattr(stacks, "PREFIX", prefix)
    repository, stack = make_repository("shop", files=FILES), Stack(tmp_path / "home")
    words = ("--allow", "src", "--test", "python -m pytest -q", "--exec")
    with running_stack(stack.home, workers=1):
        (prefix / "slow").touch()
        code, red = stack.run(repository.path, *words, "python tools/change.py 3")
        assert (code, red["failure"]["code"]) == (1, "tests_failed")
        assert listed(stack) == []
        assert "no flaky tests" in stack.command("tests", "flaky").stdout
        (prefix / "slow").unlink()
        finished = stack.command("run", "--again", red["run_id"], "--json", cwd=repository.path)
        green = json.loads(finished.stdout.splitlines()[-1])
        assert (finished.returncode, green["tree"]) == (0, red["tree"]), green
        (flake,) = listed(stack, "--repo", str(repository.path))
        assert (flake["test"], flake["flaky_trees"], flake["last_run"]) == (TEST, 1, red["run_id"])
        assert (flake["failures"], flake["plays"]) == (1, 2)
        assert f"{TEST} failed and passed on tree {red['tree'][:12]}" in stack.command("show", green["run_id"]).stdout

        stack.kill("gatekeeper")
        wait_until(lambda: is_ready(stack) and stack.command("tests", "flaky", "--json").returncode == 0)
        assert listed(stack) == [flake]
        (prefix / "slow").touch()
        code, known = stack.run(repository.path, *words, "python tools/change.py 4")
        assert (code, known["status"]) == (1, "FAILED")
        story = " ".join(stack.command("show", known["run_id"]).stdout.split())
        assert f"{TEST} failed; it is a known flake: it failed 2 of 3 times, with both results on one tree" in story
        last = listed(stack)
        assert (last[0]["failures"], last[0]["plays"], last[0]["last_run"]) == (2, 3, known["run_id"])
        for run in (red, green, known):
            assert stack.command("verify", run["bundle"]).returncode == 0
    assert listed(stack) == last
    assert TEST in stack.command("tests", "flaky").stdout
