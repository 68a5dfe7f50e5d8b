"""``gatewright run --interactive`` at a terminal: what an agent asks leave for is answered there, and nowhere else."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import MakeProject
from tests.e2e.stack import PREFIX, running_stack
from tests.e2e.terminal import Terminal
from tests.e2e.test_hostile_agents import CHECK, GOOD, ONCE, AgentStack, make_base
from tests.series import series
from tests.worker.agents.admissions import admit_all

pytestmark = pytest.mark.long

QUESTION = "allow it this once?"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentStack]:
    base = make_base(tmp_path_factory.mktemp("interactive"), {"wants": (f"wants:{ONCE}:{GOOD}", "say:over")})
    admit_all(base / "home", base / "policies", base / "installation")
    with running_stack(base / "home", workers=1, stack=AgentStack(base / "home", base)) as running:
        assert isinstance(running, AgentStack)
        yield running


def open_terminal(stack: AgentStack, project: Path) -> Terminal:
    """``gatewright run --interactive`` at a terminal of its own."""
    words = ["--allow", "src", "--test", CHECK, "--env", str(PREFIX), "--agent", "wants", "--interactive"]
    return Terminal(stack, project, "run", "edit every file", *words, "--max-retries", "0")


def permissions(stack: AgentStack) -> list[dict[str, str]]:
    """The questions of the last run's agent, with their answers, as the bundle has them."""
    bundle = max((stack.home / "runs").iterdir(), key=lambda place: place.stat().st_mtime_ns)
    (events,) = bundle.glob("codex/*/events.jsonl")
    told = [json.loads(line) for line in events.read_text().splitlines()]
    return [event for event in told if event["event"] == "permission"]


def test_a_command_that_the_person_allows_is_run_once_and_recorded(stack: AgentStack, make_project: MakeProject) -> None:
    terminal = open_terminal(stack, make_project())
    terminal.read_until(QUESTION)
    assert "wants asks leave to run: for f in src/a.py" in terminal.shown
    terminal.type("y\n")
    assert terminal.end() == 0, terminal.shown
    assert "allowed, this once" in terminal.shown
    (asked,) = permissions(stack)
    assert (asked["asked"], asked["answer"], asked["by"]) == ("command", "allow", "person")
    assert asked["person"].startswith("operator ")


@pytest.mark.parametrize("how", series(["no", "interrupt"], "interrupt"))
def test_a_forbidden_command_is_refused_and_the_run_continues(stack: AgentStack, make_project: MakeProject, how: str) -> None:
    terminal = open_terminal(stack, make_project())
    terminal.read_until(QUESTION)
    if how == "no":
        terminal.type("\n")
    else:
        terminal.process.send_signal(signal.SIGINT)
    assert terminal.end() == 1
    # It ended for the agent's reason, and was not aborted.
    assert "no_change" in terminal.shown or "agent_declined" in terminal.shown
    (asked,) = permissions(stack)
    assert (asked["asked"], asked["answer"], asked["by"]) == ("command", "reject", "person")


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_without_a_terminal_it_is_refused_before_anything_begins(
    stack: AgentStack, make_project: MakeProject, more: tuple[str, ...]
) -> None:
    words = ("--allow", "src", "--test", CHECK, "--agent", "wants", "--interactive", *more)
    said = stack.command("run", "edit every file", *words, cwd=make_project())
    assert said.returncode == 2
    assert "no_terminal" in said.stdout + said.stderr
