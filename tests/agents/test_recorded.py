"""Real agents on recorded calls: the real program again, with the network blocked, asks the same and makes the same."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import gatewright.prompts
from gatewright.agents.installation import SETTING
from gatewright.contracts import TaskResult
from gatewright.contracts.vocabulary import Executor
from gatewright.models.cassettes import SUFFIX
from gatewright.resources import policy_directory
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from gatewright.worker_role import PERMISSIONS
from tests.agents.conftest import INSTALLATION, AgentStack, admit_installed, processes_of_agents
from tests.e2e.stack import SECONDS
from tests.handler_fixture import HandlerFixture, make_handler_fixture
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say, Write
from tests.models.wire_forms import Api

#: No interface but loopback: what is asked for beyond this host cannot be had.
_AS_USER = () if os.geteuid() == 0 else ("--user", "--map-current-user", "--keep-caps")
WITHOUT_NETWORK = ("unshare", *_AS_USER, "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def reexecuted(stack: AgentStack, bundle: Path, code: int = 0, **more: str) -> dict[str, Any]:
    """What `gatewright replay --reexecute` tells, without key and without network."""
    argv = [*WITHOUT_NETWORK, sys.executable, "-m", "gatewright.app.cli.main", "replay", "--reexecute", str(bundle), "--json"]
    environment = {**stack.environment, "SCRIPTED_KEY": "", **more}
    finished = subprocess.run(
        argv, cwd=stack.home.parent, env=environment, check=False, capture_output=True, text=True, timeout=4 * SECONDS
    )
    assert finished.returncode == code, finished.stdout + finished.stderr
    told: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
    return told


def test_a_recorded_run_of_codex_is_done_again_with_the_network_blocked(agents: AgentStack, project: Path) -> None:
    code, result = agents.ask(project, "codex", "change")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    bundle, asked = Path(result["bundle"]), len(agents.provider.requests)
    report = reexecuted(agents, bundle)
    assert (report["status"], report["hard_diffs"]) == ("pass", [])
    assert not [each for each in report["soft_diffs"] if each["key"].startswith("requests.")]
    assert len(agents.provider.requests) == asked
    (written,) = (agents.home / "reexecutions").glob(f"{result['run_id']}--*.json")
    second = written.parent / written.stem.partition("--")[2]
    (before,), (after,) = ((each / "cassettes").iterdir() for each in (bundle, second))
    assert digests(after.read_bytes()) == digests(before.read_bytes()) != []
    assert (second / "git" / "candidate_tree.txt").read_bytes() == (bundle / "git" / "candidate_tree.txt").read_bytes()
    assert processes_of_agents() == []
    # One byte of what the agent is told is another one.
    prompts = Path(shutil.copytree(Path(gatewright.prompts.__file__).parent / "builtin", agents.home.parent / "prompts"))
    roles = prompts / "roles.yaml"
    roles.write_text(roles.read_text().replace("and nothing beside it", "and nothing beside It"))
    report = reexecuted(agents, bundle, code=1, GATEWRIGHT_PROMPTS=str(prompts))
    assert {each["key"]: each.get("actual") for each in report["hard_diffs"]}["failure.code"] == "cassette_miss"
    assert "beside It" in json.dumps(report["soft_diffs"])
    # Where the agent is not installed, or in another version, nothing is run, and it is said what to install.
    error = reexecuted(agents, bundle, code=3, **{SETTING: str(agents.home)})["error"]
    assert error["code"] == "agent_not_installed"
    assert "npm install --prefix ~/agents @openai/codex@" in error["message"]


def test_a_further_round_is_done_again_as_it_was(agents: AgentStack, project: Path) -> None:
    code, result = agents.ask(project, "codex", "fixer", "--max-retries", "1")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    asked = len(agents.provider.requests)
    report = reexecuted(agents, Path(result["bundle"]))
    assert (report["status"], report["hard_diffs"]) == ("pass", [])
    assert len(agents.provider.requests) == asked


#: The API by which each agent asks.
APIS: dict[str, Api] = {
    "codex": "responses",
    "claude": "messages",
    "opencode": "chat_completions",
    "gemini-cli": "gemini",
    "qwen-code": "chat_completions",
    "claude-agent-acp": "messages",
}
MODELS: dict[Api, str] = {
    "responses": "scripted",
    "chat_completions": "scripted",
    "messages": "scripted-claude",
    "gemini": "scripted-gemini",
}


@pytest.mark.parametrize("agent", APIS)
async def test_replays_ask_the_same_and_a_changed_order_misses(
    agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    policies = Path(shutil.copytree(policy_directory(), tmp_path / "policies"))
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    model = MODELS[APIS[agent]]
    with ScriptedProvider({"add": [Write("/workspace/src/new.py", "edited = 1\n"), Say("I have added it.")]}) as provider:
        (policies / "models.json").write_text(json.dumps(provider.policy("add")))
        fixture = make_handler_fixture(tmp_path, {"README.md": b"read me\n", "src/a.py": b"a = 1\n"})
        first, tape = await worked(fixture, "first", policies, agent, model)
    assert (first.status, first.failure) == ("SUCCESS", None)
    assert digests(tape)
    folder = tmp_path / "recorded"
    folder.mkdir()
    (folder / f"a{SUFFIX}").write_bytes(tape)
    monkeypatch.delenv("SCRIPTED_KEY")
    again, played = await worked(fixture, "in another place", policies, agent, model, cassette=folder)
    assert (again.status, again.failure) == ("SUCCESS", None)
    assert digests(played) == digests(tape)
    assert (again.git.head_ref, again.git.patch) == (first.git.head_ref, first.git.patch)
    other, _ = await worked(fixture, "other", policies, agent, model, cassette=folder, order="Add a modulE.")
    assert (other.failure or "").partition(":")[0] == "cassette_miss"
    assert "modulE" in (other.failure or "")


async def worked(
    fixture: HandlerFixture,
    place: str,
    policies: Path,
    agent: str,
    model: str,
    cassette: Path | None = None,
    order: str = "Add a module.",
) -> tuple[TaskResult, bytes]:
    """A worker's result, and the cassette of its calls; what the worker keeps lies in the folder ``place``."""
    home = fixture.state / place
    settings = Settings(home=home, policies=policies, agent_installations=(INSTALLATION,), cassette=cassette)
    admit_installed(home, policies)
    contract = fixture.contract(executor=Executor(kind="agent", agent=agent, model=model))
    contract = replace(
        contract,
        inputs=replace(contract.inputs, spec=order),
        tool_permissions=PERMISSIONS,
        timeout_retry=replace(contract.timeout_retry, timeout_sec=300),
    )
    result = await make_handler(settings).handle(contract, fixture.context())
    kept = {each.name: fixture.artifacts.stored[each.uri] for each in result.artifacts}
    return result, kept["model_cassette"]


def digests(tape: bytes) -> list[str]:
    """Of the requests of a task, in order."""
    return [json.loads(line)["request_sha256"] for line in tape.splitlines()[1:]]
