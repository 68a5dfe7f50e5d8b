"""``gatewright run --linger``: the next run finds a stack, and nothing stays that should not."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.app.cli.run.ahead import linger_minutes
from gatewright.app.stack import state
from gatewright.app.stack.processes import descendants, identity
from tests.cli.conftest import MakeRepository
from tests.cli.test_stack_commands import begin, call, call_here, last_document
from tests.waiting import PATIENCE, wait_until

CHANGE = ("run", "make a note", "--linger", "--allow", "note.txt", "--exec", "touch note.txt", "--test", "true", "--json")


@pytest.fixture
def repository(make_repository: MakeRepository) -> Iterator[Path]:
    folder = make_repository("r")
    yield folder
    call_here(folder, "down")


def stack_of(repository: Path) -> state.StackState:
    running = state.read(repository / ".git/gatewright")
    assert running is not None
    return running


def test_a_second_run_uses_the_first_stack_until_down(repository: Path) -> None:
    first = call(repository, *CHANGE)
    assert last_document(first.stdout)["status"] == "SUCCESS", first.stderr
    assert "the stack stays for 10 idle minutes" in first.stderr
    running = stack_of(repository)
    below = descendants(running.pid)
    second = call(repository, *CHANGE)
    assert last_document(second.stdout)["status"] == "SUCCESS", second.stderr
    assert second.stderr == ""
    assert stack_of(repository).pid == running.pid
    assert "a stack that lingers, idle" in call_here(repository, "status").stdout
    assert json.loads(call_here(repository, "status", "--json").stdout)["stack"]["in_use"] is False
    assert last_document(call_here(repository, "down", "--json").stdout)["stopped"] is True
    assert [each for each in (running.pid, *below) if identity(each)] == []


def test_without_a_terminal_no_stack_stays_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (linger_minutes(None), linger_minutes(True), linger_minutes(False)) == (0.0, 10.0, 0.0)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert linger_minutes(None) == 10.0
    monkeypatch.setenv("CI", "true")
    assert linger_minutes(None) == 0.0
    monkeypatch.setenv("GATEWRIGHT_LINGER_MINUTES", "0")
    assert linger_minutes(True) == 0.0


@pytest.mark.long
def test_a_plain_run_leaves_nothing_behind(repository: Path) -> None:
    words = [word for word in CHANGE if word != "--linger"]
    assert call(repository, *words).returncode == 0
    assert state.read(repository / ".git/gatewright") is None


@pytest.mark.long
def test_two_runs_that_begin_at_once_share_one_stack(repository: Path) -> None:
    both = [begin(repository, *CHANGE) for _ in range(2)]
    said = [process.communicate(timeout=PATIENCE) for process in both]
    assert [last_document(out)["status"] for out, _ in said] == ["SUCCESS", "SUCCESS"], said
    assert stack_of(repository).linger == 10.0


@pytest.mark.long
def test_after_a_stack_was_killed_the_next_run_starts_another(repository: Path) -> None:
    call(repository, *CHANGE)
    running = stack_of(repository)
    os.kill(running.pid, signal.SIGKILL)
    assert wait_until(lambda: identity(running.pid) is None)
    assert last_document(call(repository, *CHANGE).stdout)["status"] == "SUCCESS"
    assert stack_of(repository).pid != running.pid


@pytest.mark.long
def test_a_killed_run_keeps_no_stack_for_longer_than_its_minutes(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWRIGHT_LINGER_MINUTES", "0.02")
    process = begin(repository, *CHANGE)
    assert wait_until(lambda: state.read(repository / ".git/gatewright") is not None)
    running = stack_of(repository)
    process.kill()
    process.communicate()
    assert wait_until(lambda: identity(running.pid) is None)


@pytest.mark.long
def test_a_started_stack_replaces_a_lingering_one(repository: Path) -> None:
    call(repository, *CHANGE)
    running = stack_of(repository)
    assert call(repository, "up", "--detach", "--json").returncode == 0
    assert identity(running.pid) is None
    assert stack_of(repository).linger == 0.0


@pytest.mark.long
def test_a_run_with_another_setting_replaces_the_stack(repository: Path) -> None:
    call(repository, *CHANGE)
    running = stack_of(repository)
    assert call(repository, *CHANGE, "--workers", "2").returncode == 0
    assert stack_of(repository).pid != running.pid
    assert identity(running.pid) is None
