"""Real agents call tools of the operator's servers: those that the contract names, through the worker."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.agents.installation import SETTING
from gatewright.contracts.vocabulary import Executor
from gatewright.foreign_documents import read_json
from gatewright.resources import policy_directory
from gatewright.services.worker.agents.record import EVENTS
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from gatewright.worker_role import PERMISSIONS, TOOL_SET
from tests.agents.conftest import INSTALLATION, AgentStack, admit_installed, open_agents
from tests.handler_fixture import make_handler_fixture
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Call, Say, Turn, Write
from tests.worker.agents.tool_program import ANSWER, install_server

APIS = {
    "codex": "responses",
    "codex-acp": "responses",
    "claude": "messages",
    "claude-agent-acp": "messages",
    "kilo": "chat_completions",
    "opencode": "chat_completions",
    "copilot": "chat_completions",
}


def use_tool(body: dict[str, Any]) -> Turn:
    """Look something up, write a file with the answer, and end."""
    told = json.dumps(body)
    if "looked_up.py" in told:
        return Say("done")
    if ANSWER in told:
        return Write("/workspace/src/looked_up.py", f"answer = {ANSWER!r}\n")
    found = re.search(r'"name": "([\w-]*docs[\w-]*lookup|lookup)"', told)
    assert found is not None, told[-3000:]
    group = re.search(r'"type": "namespace", "name": "(\w*docs\w*)"', told) or re.search(r'"name": "(mcp__docs\w*)"', told)
    return Call(found[1], {"q": "x"}, namespace=group[1] if group is not None and found[1] == "lookup" else "")


@dataclass(frozen=True)
class StackWithTools(AgentStack):
    """A stack whose operator has a tool server."""

    @property
    def environment(self) -> dict[str, str]:
        servers = self.home.parent / "servers"
        if not servers.exists():
            listed = json.loads((self.policies / "agents.json").read_text())
            listed["tool_servers"] = [install_server(servers, "lookup")]
            (self.policies / "agents.json").write_text(json.dumps(listed))
        return {**super().environment, SETTING: f"{INSTALLATION}{os.pathsep}{servers}"}


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({"lookup": use_tool}) as provider:
        yield provider


def models(provider: ScriptedProvider, api: str) -> dict[str, Any]:
    base = f"{provider.root}/v1" if api in {"chat_completions", "responses"} else provider.root
    return {
        "version": "1",
        "providers": [{"name": "scripted", "apis": [api], "base_url": base, "key": {"environment": "SCRIPTED_KEY"}}],
        "models": [{"name": "lookup", "provider": "scripted", "price": None}],
        "routes": [{"role": "worker", "models": ["lookup"]}],
    }


@pytest.mark.parametrize("agent", APIS)
async def test_an_agent_uses_the_answer_of_a_permitted_tool(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, agent: str
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    tmp_path.chmod(0o755)
    fixture = make_handler_fixture(tmp_path, {"src/a.py": b"a = 1\n"})
    policies = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    (policies / "models.json").write_text(json.dumps(models(provider, APIS[agent])))
    agents = json.loads((policies / "agents.json").read_text())
    agents["tool_servers"] = [install_server(tmp_path / "servers", "lookup", "secret")]
    (policies / "agents.json").write_text(json.dumps(agents))
    admit_installed(fixture.state, policies)
    settings = Settings(home=fixture.state, policies=policies, agent_installations=(INSTALLATION, tmp_path / "servers"))
    contract = fixture.contract(
        executor=Executor(kind="agent", agent=agent),
        allowed_paths=("src",),
        mcp_tool_set=(*TOOL_SET, "docs.lookup"),
        tool_permissions=replace(PERMISSIONS, mcp_tools=("docs.lookup",)),
    )
    result = await make_handler(settings).handle(contract, fixture.context())
    assert (result.status, result.failure, result.git.changed_files) == ("SUCCESS", None, ("src/looked_up.py",))
    (kept,) = (artifact for artifact in result.artifacts if artifact.name == EVENTS)
    events = [read_json(line) for line in fixture.artifacts.stored[kept.uri].splitlines()]
    assert [(event["tool"], event["outcome"]) for event in events if event["event"] == "tool_call"] == [
        ("docs.lookup", "answered")
    ]
    assert '"secret"' not in json.dumps([read_json(request.body) for request in provider.requests])


@pytest.mark.parametrize("agent", ["codex"])
def test_a_run_names_a_tool_and_its_bundle_has_the_calls(
    tmp_path: Path, provider: ScriptedProvider, project: Path, agent: str
) -> None:
    tmp_path.chmod(0o755)
    with open_agents(tmp_path, provider, models(provider, APIS[agent]), StackWithTools) as stack:
        words = ("--allow", "src", "--test", "python -m compileall -q src", "--agent", agent, "--model", "lookup")
        code, refused = stack.run(project, *words, "--mcp-tool", "docs.secret")
        assert (code, refused["failure"]["code"]) == (1, "tool_unknown")
        code, landed = stack.run(project, *words, "--mcp-tool", "docs.lookup")
        assert code == 0, json.dumps(landed["failure"])
        bundle = Path(landed["bundle"])
        assert stack.command("verify", str(bundle)).returncode == 0
        recorded = [path.read_text() for path in bundle.rglob("events.jsonl")]
        assert any('"tool":"docs.lookup"' in text for text in recorded)
