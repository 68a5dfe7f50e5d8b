"""Real agents whose contract has their commands approved: the person's answer is what runs, or does not."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from gatewright.agents.installation import find_agent
from gatewright.agents.policy import load_agents
from gatewright.contracts import TaskResult
from gatewright.contracts.vocabulary import Executor, ToolPermissions
from gatewright.resources import policy_directory
from gatewright.services.worker.agents.probe.result import StepResult
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from gatewright.tasks.questions import Leave
from tests.agents.conftest import INSTALLATION, NATIVE
from tests.handler_fixture import HandlerFixture, make_handler_fixture
from tests.models.provider import KEY, ScriptedProvider
from tests.worker.agents.admissions import PASSED, admit

#: What the probe finds of Codex: it does not ask unless it is set to ask for each command.
ASKS_FOR_EACH = (
    *PASSED,
    StepResult(step="asks", outcome="failed", found="does not ask"),
    StepResult(step="each_command", outcome="passed", found="asks for each command, and obeys"),
)
ON_REQUEST = ToolPermissions(filesystem="workspace-write", shell="on-request", network="deny", mcp_tools=())


@pytest.fixture
def fixture(tmp_path: Path) -> HandlerFixture:
    tmp_path.chmod(0o755)
    return make_handler_fixture(tmp_path, {"src/a.py": b"a = 1\n", "src/b.py": b"b = 1\n"})


@pytest.mark.parametrize("allow", [True, False])
@pytest.mark.parametrize("agent", NATIVE)
async def test_a_command_runs_where_the_person_allows_it_and_nowhere_else(
    fixture: HandlerFixture, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, agent: str, *, allow: bool
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    policies = Path(shutil.copytree(policy_directory(), fixture.state / "policies"))
    (policies / "models.json").write_text(json.dumps(provider.policy("resumer")))
    found = find_agent(load_agents(policies).agent(agent), (INSTALLATION,))
    assert found is not None
    admit(fixture.state, found, *(ASKS_FOR_EACH if agent == "codex" else PASSED))
    worker = make_handler(Settings(home=fixture.state, policies=policies, agent_installations=(INSTALLATION,)))
    put: list[tuple[str, str]] = []

    async def ask(name: str, subject: str) -> Leave:
        put.append((name, subject))
        return Leave(allow=allow, by="person", person="ci anna")

    contract = fixture.contract(
        executor=Executor(kind="agent", agent=agent), allowed_paths=("src",), tool_permissions=ON_REQUEST, interactive=True
    )
    result = await worker.handle(contract, dataclasses.replace(fixture.context(), ask=ask))
    assert [name for name, _ in put][:1] == [agent]
    assert "echo did half" in put[0][1]
    permissions = [event for event in events_of(fixture, result) if event["event"] == "permission"]
    assert {(event["answer"], event["by"], event["person"]) for event in permissions} == {
        ("allow" if allow else "reject", "person", "ci anna")
    }
    if allow:
        assert (result.status, result.failure) == ("SUCCESS", None)
        assert b"+edited = True" in fixture.artifacts.stored[result.git.patch]
    else:
        assert (result.failure or "").partition(":")[0] in {"no_change", "agent_declined"}


def events_of(fixture: HandlerFixture, result: TaskResult) -> list[dict[str, Any]]:
    (kept,) = (artifact for artifact in result.artifacts if artifact.name == "codex_events")
    return [json.loads(line) for line in fixture.artifacts.stored[kept.uri].splitlines()]
