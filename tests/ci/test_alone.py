"""What CI plays once more: the few tests that failed beside all others, alone, each named; and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import PATIENCE

ALONE = Path(__file__).resolve().parents[2] / ".ci" / "alone.py"
#: Green from the second time on.
BY_CHANCE = """
import pathlib
def test_by_chance():
    played = pathlib.Path("played")
    assert played.exists() or played.write_text("") is None and False
"""


def play(folder: Path, tests: str) -> int:
    """The tests beside one another, as a whole run; pytest's exit code."""
    (folder / "test_some.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:anyio"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=PATIENCE).returncode


def once_more(folder: Path, code: int) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, ALONE, str(code)], cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    return done.returncode, done.stdout


def red(folder: Path) -> list[str]:
    """What is told at the end of CI."""
    return (folder / ".ci-artifacts" / "red").read_text().splitlines()


@pytest.mark.long
def test_a_test_that_is_green_alone_is_named_and_holds_up_nothing(tmp_path: Path) -> None:
    code = play(tmp_path, BY_CHANCE + "def test_good(): pass\n")
    assert code == 1
    code, said = once_more(tmp_path, code)
    assert code == 0
    assert said.splitlines()[-1] == "=== RED BESIDE OTHERS, GREEN ALONE: test_some.py::test_by_chance"
    assert "1 passed" in said
    assert red(tmp_path) == []


@pytest.mark.long
def test_a_test_that_is_red_alone_too_fails_the_run(tmp_path: Path) -> None:
    code = play(tmp_path, BY_CHANCE + "def test_bad(): assert False\n")
    code, said = once_more(tmp_path, code)
    assert code == 1
    assert "1 failed, 1 passed" in said
    assert "GREEN" not in said
    assert "test_some.py::test_bad" in red(tmp_path)


@pytest.mark.long
def test_more_than_six_are_no_chance(tmp_path: Path) -> None:
    code = play(tmp_path, BY_CHANCE + "".join(f"def test_bad_{number}(): assert False\n" for number in range(6)))
    assert once_more(tmp_path, code) == (1, "")
    assert len(red(tmp_path)) == 7


@pytest.mark.parametrize("code", [2, 3, 4, 5, 137])
def test_what_ended_otherwise_is_not_tried_again(tmp_path: Path, code: int) -> None:
    noted = tmp_path / ".pytest_cache/v/cache/lastfailed"
    noted.parent.mkdir(parents=True)
    noted.write_text('{"test_some.py::test_by_chance": true}')
    assert once_more(tmp_path, code) == (code, "")


def test_without_a_note_of_what_failed_a_run_stays_red(tmp_path: Path) -> None:
    assert once_more(tmp_path, 1) == (1, "")
