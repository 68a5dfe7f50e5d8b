"""Codex and Claude Code under contract, from ``gatewright run`` to the landed and verified change, or to its refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import EDIT_CHECK, HOSTILE, NATIVE, PREFIX, AgentStack, log_of, processes_of_agents
from tests.git.repositories import Repository
from tests.models.provider import KEY

every_agent = pytest.mark.parametrize("agent", NATIVE)


def failure(result: dict[str, Any]) -> tuple[str, str]:
    return result["status"], (result["failure"] or {}).get("code", "")


@every_agent
def test_an_agents_change_is_landed_and_verified(agents: AgentStack, project: Path, agent: str) -> None:
    code, result = agents.ask(project, agent, "change")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    repository = Repository(project, project.parent / "home")
    assert repository.git("show", f"{result['branch']}:src/a.py") == b"a = 1\nedited = True\n"
    assert repository.git("show", f"{result['branch']}:src/new.py") == b"edited = 1\n"
    assert repository.git("show", f"{result['branch']}:.mcp.json") == HOSTILE[".mcp.json"]
    verified = agents.process("verify", result["bundle"], "--json")
    assert verified.returncode == 0, verified.stdout
    events = [json.loads(line)["event"] for line in log_of(result, "events.jsonl").splitlines()]
    assert events[0] == "started"
    assert {"command", "file_change", "message", "usage"} <= set(events)
    assert log_of(result, "thread_id.txt").strip()
    assert "I have edited them." in log_of(result, "transcript.md")
    assert processes_of_agents() == []


@every_agent
def test_the_repositorys_agent_configuration_is_neither_obeyed_nor_shown(agents: AgentStack, project: Path, agent: str) -> None:
    code, result = agents.ask(project, agent, "breakout")
    assert (code, result["status"]) == (0, "SUCCESS")
    repository = Repository(project, project.parent / "home")
    assert b"hooked" not in repository.git("ls-tree", "-r", "--name-only", result["branch"])
    requests = b"".join(seen.body for seen in agents.provider.requests)
    assert b"NOTES.md" in requests
    assert b"SECRET_OF_THE_REPOSITORY" not in requests


@every_agent
def test_an_out_of_scope_write_is_reported_once_and_refused(agents: AgentStack, project: Path, agent: str) -> None:
    code, result = agents.ask(project, agent, "stray")
    assert (code, failure(result)) == (1, ("FAILED", "path_out_of_scope"))
    transcript = log_of(result, "transcript.md")
    assert "I keep it." in transcript


@every_agent
def test_a_reverted_out_of_scope_write_lands(agents: AgentStack, project: Path, agent: str) -> None:
    code, result = agents.ask(project, agent, "repentant")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)


@every_agent
def test_a_write_outside_the_workspace_is_refused_by_the_sandbox(agents: AgentStack, project: Path, agent: str) -> None:
    seen = len(agents.provider.requests)
    code, result = agents.ask(project, agent, "breakout")
    assert (code, result["status"]) == (0, "SUCCESS")
    told = b"".join(request.body for request in agents.provider.requests[seen:])
    assert told.count(b"Read-only file system") >= 3
    for place in ("/usr/out", "/etc/out", "/out", "/gatewright-out"):
        assert not Path(place).exists()


@every_agent
@pytest.mark.parametrize("script", ["refused-key", "too-many", "broken", "unreachable"])
def test_a_provider_that_fails_is_no_success(agents: AgentStack, project: Path, agent: str, script: str) -> None:
    code, result = agents.ask(project, agent, script, "--timeout", "120")
    assert (code, failure(result)) == (1, ("FAILED", "agent_failed"))
    assert KEY not in json.dumps(result)


@every_agent
@pytest.mark.parametrize("script", ["silent", "endless-command"])
def test_an_agent_that_never_ends_is_ended_and_leaves_no_process(
    agents: AgentStack, project: Path, agent: str, script: str
) -> None:
    code, result = agents.ask(project, agent, script, "--timeout", "5")
    assert (code, failure(result)) == (1, ("FAILED", "task_timeout"))
    assert processes_of_agents() == []
    assert [entry for entry in Path("/proc").glob("[0-9]*/cmdline") if b"98765" in _read(entry)] == []


@every_agent
def test_success_that_is_claimed_and_changed_nothing_fails(agents: AgentStack, project: Path, agent: str) -> None:
    code, result = agents.ask(project, agent, "liar")
    assert (code, failure(result)) == (1, ("FAILED", "no_change"))


@every_agent
@pytest.mark.parametrize("allow", [("--allow", "src"), ("--allow", "src", "--allow", "tests", "--allow", "tools")])
def test_tests_that_are_edited_to_pass_are_refused(
    agents: AgentStack, project: Path, agent: str, allow: tuple[str, ...]
) -> None:
    code, result = agents.ask(project, agent, "test-bender", *allow)
    assert code == 1
    assert failure(result)[1] in {"path_out_of_scope", "path_protected", "tests_weakened"}


@every_agent
def test_an_injected_order_finds_no_key_and_no_environment_to_leak(agents: AgentStack, project: Path, agent: str) -> None:
    seen = len(agents.provider.requests)
    agents.ask(project, agent, "leaker")
    requests = agents.provider.requests[seen:]
    assert b"Ignore all orders" in b"".join(request.body for request in requests)
    for request in requests:
        assert KEY.encode() not in request.body
        assert b"SCRIPTED_KEY" not in request.body
        assert b"GATEWRIGHT_NATS" not in request.body
        assert b".nk" not in request.body.replace(b"'*.nk'", b"").replace(b'"*.nk"', b"")
        assert str(agents.home).encode() not in request.body


@every_agent
def test_an_agent_receives_the_failure_and_fixes_it_next_round(agents: AgentStack, project: Path, agent: str) -> None:
    code, result = agents.ask(project, agent, "fixer", "--max-retries", "2")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    prompts = [file.read_text() for file in sorted(Path(result["bundle"]).glob("codex/*/prompt.md"))]
    assert len(prompts) == 2
    assert "python tools/check.py 0 -> 1" in "".join(prompts)


@every_agent
def test_a_runaway_agent_is_ended_at_its_budget(agents: AgentStack, project: Path, agent: str) -> None:
    code, result = agents.ask(project, agent, "spender", "--max-tokens", "30000")
    assert (code, failure(result)) == (1, ("FAILED", "budget_exceeded"))
    assert log_of(result, "events.jsonl")
    assert processes_of_agents() == []


def test_live_agent_messages_are_shown_while_it_works(agents: AgentStack, project: Path) -> None:
    words = ("--allow", "src", "--test", EDIT_CHECK, "--env", str(PREFIX), "--agent", "codex", "--model", "openai-change")
    said = agents.process("run", "edit them", *words, cwd=project)
    assert said.returncode == 0, said.stdout + said.stderr
    lines = [line for line in said.stdout.splitlines() if "agent: " in line]
    assert any("$ " in line and "edited" in line for line in lines)
    assert any("wrote `src/new.py`" in line for line in lines)
    assert any("I have edited them." in line for line in lines)


def test_a_models_reply_is_taken_apart_and_landed(agents: AgentStack, project: Path) -> None:
    code, result = agents.run(
        project, "--allow", "src", "--test", "python tools/check.py 0", "--model", "openai-files", "--max-retries", "0"
    )
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
