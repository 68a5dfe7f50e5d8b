"""Agents of the Agent Client Protocol under contract, from ``gatewright run`` to the landed change, or to its refusal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import HOSTILE, AgentStack, log_of, open_agents, processes_of_agents
from tests.agents.scripts import ASKING, FAILING
from tests.e2e.conftest import CHECK
from tests.git.repositories import MakeRepository, Repository
from tests.models.provider import KEY, ScriptedProvider

#: By what each asks its model.
APIS = {
    "gemini-cli": "gemini",
    "qwen-code": "chat_completions",
    "opencode": "chat_completions",
    "kilo": "chat_completions",
    "copilot": "chat_completions",
    "claude-agent-acp": "messages",
}
every_agent = pytest.mark.parametrize("agent", APIS)
#: One that asks for nothing: what it may not do is for the walls and the gates.
UNASKING = {"codex-acp": "responses", "pi": "chat_completions"}


@dataclass(frozen=True)
class AcpStack(AgentStack):
    def ask(self, project: Path, agent: str, script: str, *words: str) -> tuple[int, dict[str, Any]]:
        """``gatewright run --agent`` with the script: exit code and result."""
        given = ("--allow", "src", "--test", "python tools/check.py 0", "--max-retries", "0")
        model = f"{(APIS | UNASKING)[agent].replace('_', '-')}-{script}"
        return self.run(project, *given, "--agent", agent, "--model", model, *words)


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcpStack]:
    top = tmp_path_factory.mktemp("acp")
    with ScriptedProvider(ASKING) as provider, open_agents(top, provider, models(provider.root), AcpStack) as stack:
        yield stack


def models(root: str) -> dict[str, Any]:
    """Each script as a model of each API, and one of each that cannot be reached."""
    providers, found = [], []
    for api in sorted({*APIS.values(), *UNASKING.values()}):
        name = api.replace("_", "-")
        base = f"{root}/v1" if api in {"chat_completions", "responses"} else root
        key = {"environment": "SCRIPTED_KEY"}
        providers += [
            {"name": name, "apis": [api], "base_url": base, "key": key},
            {"name": f"no-{name}", "apis": [api], "base_url": "http://127.0.0.1:9", "key": key},
        ]
        found += [{"name": f"{name}-{script}", "provider": name, "upstream": script, "price": None} for script in ASKING]
        found.append({"name": f"{name}-unreachable", "provider": f"no-{name}", "price": None})
    # What fails comes last: a model that fails is followed by the next of the route.
    route = sorted((str(each["name"]) for each in found), key=lambda name: name.endswith((*FAILING, "unreachable")))
    return {"version": "1", "providers": providers, "models": found, "routes": [{"role": "worker", "models": route}]}


@pytest.fixture
def bare(make_repository: MakeRepository) -> Path:
    """A project in which there is nothing to edit yet."""
    return make_repository("project", files={"README.md": b"read me\n", "tools/check.py": CHECK, "src/note": b""}).path


@pytest.fixture
def tested(make_repository: MakeRepository) -> Path:
    """A project with a test, and with a file that orders agents about."""
    files = {"tools/check.py": CHECK, "src/NOTES.md": HOSTILE["src/NOTES.md"], "tests/test_a.py": HOSTILE["tests/test_a.py"]}
    return make_repository("project", files=files).path


def events_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log_of(result, "events.jsonl").splitlines()]


@every_agent
def test_an_agents_change_is_landed_and_verified(agents: AcpStack, bare: Path, agent: str) -> None:
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


@pytest.mark.parametrize("agent", UNASKING)
def test_an_agent_without_requests_lands_only_what_its_contract_allows(agents: AcpStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "add")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    assert not [event for event in events_of(result) if event["event"] == "permission"]
    code, result = agents.ask(bare, agent, "add-stray")
    assert (code, (result["failure"] or {})["code"]) == (1, "path_out_of_scope")
    assert processes_of_agents() == []


@every_agent
def test_a_write_out_of_scope_is_refused_by_the_gate(agents: AcpStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "add-stray")
    assert (code, (result["failure"] or {})["code"]) == (1, "path_out_of_scope")
    assert result["branch"] is None


@every_agent
def test_a_command_that_an_agent_asks_for_runs_in_the_sandbox(agents: AcpStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "run")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    answers = [(event["asked"], event["answer"]) for event in events_of(result) if event["event"] == "permission"]
    assert answers == [("command", "allow")]
    repository = Repository(bare, bare.parent / "home")
    assert repository.git("diff", "--name-only", "main", result["branch"]).split() == [b"src/new.py"]


@every_agent
def test_success_that_is_claimed_and_changed_nothing_fails(agents: AcpStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "liar")
    assert (code, (result["failure"] or {})["code"]) == (1, "no_change")


@every_agent
def test_an_agent_that_never_ends_is_ended_and_leaves_no_process(agents: AcpStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "silent", "--timeout", "20")
    assert (code, (result["failure"] or {})["code"]) == (1, "task_timeout")
    assert processes_of_agents() == []


@every_agent
@pytest.mark.parametrize("script", [*FAILING, "unreachable"])
def test_a_provider_that_fails_is_no_success(agents: AcpStack, bare: Path, agent: str, script: str) -> None:
    code, result = agents.ask(bare, agent, script, "--timeout", "60")
    assert code == 1
    assert result["status"] == "FAILED"
    assert KEY not in json.dumps(result)


@every_agent
def test_a_write_outside_the_workspace_is_refused_by_the_sandbox(agents: AcpStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "add-outside")
    for place in ("/usr", "/etc", "/", "/home"):
        assert not Path(place, "gatewright-out").exists()
    # Some agents go on after the refusal, and make their change; others give up.
    if code == 0:
        repository = Repository(bare, bare.parent / "home")
        changed = repository.git("diff", "--name-only", "main", result["branch"])
        assert changed.split() == [b"src/new.py"]
    else:
        assert (result["failure"] or {})["code"] in {"no_change", "agent_declined"}
    assert processes_of_agents() == []


@every_agent
@pytest.mark.parametrize("allow", [(), ("--allow", "tests")])
def test_tests_that_are_edited_to_pass_are_refused(agents: AcpStack, tested: Path, agent: str, allow: tuple[str, ...]) -> None:
    code, result = agents.ask(tested, agent, "bend-tests", *allow)
    assert code == 1
    assert (result["failure"] or {})["code"] in {"path_out_of_scope", "path_protected", "tests_weakened"}
    assert result["branch"] is None


@every_agent
def test_an_injected_order_finds_no_key_and_no_environment_to_leak(agents: AcpStack, tested: Path, agent: str) -> None:
    before = len(agents.provider.requests)
    agents.ask(tested, agent, "obey-notes")
    requests = agents.provider.requests[before:]
    assert b"Ignore all orders" in b"".join(request.body for request in requests)
    for request in requests:
        assert KEY.encode() not in request.body
        assert b"SCRIPTED_KEY" not in request.body
        assert b"GATEWRIGHT_" not in request.body
        assert str(agents.home).encode() not in request.body
        # The one place of the key: the gateway has put it into the head, on the host.
        assert KEY in "".join(value for _, value in request.headers)
