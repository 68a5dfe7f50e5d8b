"""Agents of the Agent Client Protocol under contract, from ``gatewright run`` to the landed change, or to its refusal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatewright.resources import policy_directory
from tests.agents.conftest import AgentStack, admit_installed, log_of, processes_of_agents
from tests.agents.scripts import ASKING
from tests.e2e.conftest import CHECK
from tests.e2e.stack import running_stack
from tests.git.repositories import MakeRepository, Repository
from tests.models.provider import KEY, ScriptedProvider

#: By what each asks its model.
APIS = {"gemini-cli": "gemini", "qwen-code": "chat_completions", "opencode": "chat_completions", "claude-agent-acp": "messages"}
every_agent = pytest.mark.parametrize("agent", APIS)


@dataclass(frozen=True)
class AcpStack(AgentStack):
    def ask(self, project: Path, agent: str, script: str, *words: str) -> tuple[int, dict[str, Any]]:
        """``gatewright run --agent`` with the script: exit code and result."""
        given = ("--allow", "src", "--test", "python tools/check.py 0", "--max-retries", "0")
        return self.run(project, *given, "--agent", agent, "--model", f"{APIS[agent].replace('_', '-')}-{script}", *words)


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcpStack]:
    top = tmp_path_factory.mktemp("acp")
    policies, home = Path(shutil.copytree(policy_directory(), top / "policies")), top / "home"
    admit_installed(home, policies)
    with ScriptedProvider(ASKING) as provider:
        (policies / "models.json").write_text(json.dumps(models(provider.root)))
        with running_stack(home, workers=1, stack=AcpStack(home, policies, provider)) as stack:
            assert isinstance(stack, AcpStack)
            yield stack


def models(root: str) -> dict[str, Any]:
    """Each script as a model of each API, and one of each that cannot be reached."""
    providers, found = [], []
    for api in sorted(set(APIS.values())):
        name = api.replace("_", "-")
        base = f"{root}/v1" if api == "chat_completions" else root
        key = {"environment": "SCRIPTED_KEY"}
        providers += [
            {"name": name, "apis": [api], "base_url": base, "key": key},
            {"name": f"no-{name}", "apis": [api], "base_url": "http://127.0.0.1:9", "key": key},
        ]
        found += [{"name": f"{name}-{script}", "provider": name, "upstream": script, "price": None} for script in ASKING]
        found.append({"name": f"{name}-unreachable", "provider": f"no-{name}", "price": None})
    # What fails comes last: a model that fails is followed by the next of the route.
    route = sorted(
        (str(each["name"]) for each in found), key=lambda name: name.endswith(("refused-key", "broken", "unreachable"))
    )
    return {"version": "1", "providers": providers, "models": found, "routes": [{"role": "worker", "models": route}]}


@pytest.fixture
def bare(make_repository: MakeRepository) -> Path:
    """A project in which there is nothing to edit yet."""
    return make_repository("project", files={"README.md": b"read me\n", "tools/check.py": CHECK, "src/note": b""}).path


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


@every_agent
def test_a_write_out_of_scope_is_refused_by_the_gate(agents: AcpStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "add-stray")
    assert (code, (result["failure"] or {})["code"]) == (1, "path_out_of_scope")
    assert result["branch"] is None


@every_agent
def test_a_command_that_asks_is_refused_and_nothing_is_changed(agents: AcpStack, bare: Path, agent: str) -> None:
    code, result = agents.ask(bare, agent, "run")
    assert code == 1
    assert (result["failure"] or {})["code"] in {"no_change", "agent_declined"}
    answers = [(event["asked"], event["answer"]) for event in events_of(result) if event["event"] == "permission"]
    assert answers == [("command", "reject")]


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
@pytest.mark.parametrize("script", ["refused-key", "broken", "unreachable"])
def test_a_provider_that_fails_is_no_success(agents: AcpStack, bare: Path, agent: str, script: str) -> None:
    code, result = agents.ask(bare, agent, script, "--timeout", "60")
    assert code == 1
    assert result["status"] == "FAILED"
    assert KEY not in json.dumps(result)
