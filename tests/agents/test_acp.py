"""Agents of the Agent Client Protocol under contract, from ``gatewright run`` to the landed change, or to its refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import ACP, AgentStack, log_of, processes_of_agents
from tests.e2e.conftest import CHECK
from tests.git.repositories import MakeRepository, Repository
from tests.models.provider import KEY

every_agent = pytest.mark.parametrize("agent", ACP)


@pytest.fixture
def bare(make_repository: MakeRepository) -> Path:
    """A project in which there is nothing to edit yet."""
    return make_repository("project", files={"README.md": b"read me\n", "tools/check.py": CHECK, "src/note": b""}).path


def events_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_of(result, "events.jsonl").splitlines()]


@every_agent
def test_an_agents_change_is_landed_and_verified(agents: AgentStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "add")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    repository = Repository(bare, bare.parent / "home")
    assert repository.git("show", f"{result['branch']}:src/new.py") == b"edited = 1\n"
    assert agents.process("verify", result["bundle"]).returncode == 0
    events = events_of(result)
    assert events[0]["event"] == "started"
    questions = [event for event in events if event["event"] == "permission"]
    assert [(question["asked"], question["answer"]) for question in questions] == [("edit", "allow")]
    assert "I have added it." in log_of(result, "transcript.md")
    assert processes_of_agents() == []


@every_agent
def test_a_write_out_of_scope_is_refused_by_the_gate(agents: AgentStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "add-stray")
    assert (code, (result["failure"] or {})["code"]) == (1, "path_out_of_scope")
    assert result["branch"] is None


@every_agent
def test_a_command_that_asks_is_refused_and_nothing_is_changed(agents: AgentStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "run")
    assert code == 1
    assert (result["failure"] or {})["code"] in {"no_change", "agent_declined"}
    answers = [(event["asked"], event["answer"]) for event in events_of(result) if event["event"] == "permission"]
    assert answers == [("command", "reject")]


@every_agent
def test_success_that_is_claimed_and_changed_nothing_fails(agents: AgentStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "liar")
    assert (code, (result["failure"] or {})["code"]) == (1, "no_change")


@every_agent
def test_an_agent_that_never_ends_is_ended_and_leaves_no_process(agents: AgentStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "silent", "--timeout", "20")
    assert (code, (result["failure"] or {})["code"]) == (1, "task_timeout")
    assert processes_of_agents() == []


@every_agent
@pytest.mark.parametrize("script", ["refused-key", "broken", "unreachable"])
def test_a_provider_that_fails_is_no_success(agents: AgentStack, bare: Path, agent: str, script: str) -> None:
    code, result = agents.ask(bare, agent, script, "--timeout", "60")
    assert code == 1
    assert result["status"] == "FAILED"
    assert KEY not in json.dumps(result)
