"""Codex keeps its own prompt for models that it knows, and gets our entry for others."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts.vocabulary import Executor
from gatewright.models.policy import load_models
from gatewright.resources import policy_directory
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from tests.agents.conftest import INSTALLATION, admit_installed
from tests.handler_fixture import HandlerFixture, make_handler_fixture
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say, Write

#: The first words of our own entry.
OURS = "You are a coding agent. You work in a folder with the files of a repository"
DEFAULT = load_models(policy_directory()).policy.route("worker")[0]


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({"edit": [Write("/workspace/src/new.py", "edited = True\n"), Say("done")]}) as provider:
        yield provider


async def first_request(tmp_path: Path, provider: ScriptedProvider, agent: str, model: str) -> dict[str, Any]:
    """What Codex asks ``model`` first, in a task that succeeds."""
    tmp_path.chmod(0o755)
    fixture: HandlerFixture = make_handler_fixture(tmp_path, {"src/a.py": b"a = 1\n"})
    policies = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    models = provider.policy("edit")
    models["models"] = [{"name": model, "upstream": "scripted", "provider": "scripted-openai", "price": None}]
    models["routes"] = [{"role": "worker", "models": [model]}]
    (policies / "models.json").write_text(json.dumps(models))
    admit_installed(fixture.state, policies)
    worker = make_handler(Settings(home=fixture.state, policies=policies, agent_installations=(INSTALLATION,)))
    contract = fixture.contract(executor=Executor(kind="agent", agent=agent), allowed_paths=("src",))
    result = await worker.handle(contract, fixture.context())
    assert (result.status, result.failure, result.git.changed_files) == ("SUCCESS", None, ("src/new.py",))
    body: dict[str, Any] = json.loads(provider.requests[0].body)
    return body


@pytest.mark.parametrize("model", [DEFAULT, "model-of-ours", "gpt-5"])
@pytest.mark.parametrize("agent", ["codex", "codex-acp"])
async def test_a_known_model_keeps_codexs_own_prompt(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, agent: str, model: str
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    body = await first_request(tmp_path, provider, agent, model)
    instructions = json.dumps(body.get("instructions", "")) + json.dumps(body["input"])
    assert (OURS in instructions) is (model != DEFAULT)
    assert (len(instructions) > 15_000) is (model == DEFAULT)
    assert "apply_patch" in json.dumps(body["tools"])
