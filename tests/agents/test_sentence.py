"""A sentence becomes a landed change: three roles ask models, two real agents work side by side, and one round is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gatewright.agents.installation import SETTING
from gatewright.resources import policy_directory
from tests.agents.conftest import INSTALLATION, admit_installed, processes_of_agents
from tests.e2e.stack import running_stack
from tests.e2e.test_sentence import PLAN, PROJECT, PROPOSAL, REVIEW, ThinkingStack, run
from tests.git.repositories import MakeRepository, Repository
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say, Shell, Turn
from tests.structured.scripted import answering, write_models


def mark(body: dict[str, Any]) -> Turn:
    """An agent's model: it marks the file of its own part, wrongly until a round was refused."""
    told = json.dumps(body)
    word = "edited" if "was refused" in told else "changed"
    if f"I marked it {word}" in told:
        return Say("done")
    (name,) = (each for each in ("a", "b") if f"- src/{each}.py" in told)
    return Shell(f"echo '{word} = True' >>src/{name}.py; echo I marked it {word}")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThinkingStack]:
    top = tmp_path_factory.mktemp("sentence")
    policies, home = Path(shutil.copytree(policy_directory(), top / "policies")), top / "home"
    proposal = PROPOSAL | {"executor": {"kind": "agent", "agent": "codex"}}
    scripts = {"pm": answering(proposal), "plan": answering(PLAN), "review": answering(REVIEW), "mark": mark}
    with ScriptedProvider(scripts) as provider:
        write_models(policies, provider, {"pm": "pm", "techlead": "plan", "reviewer": "review", "worker": "mark"})
        models = json.loads((policies / "models.json").read_text())
        models["providers"] = [each for each in models["providers"] if each["name"] != "mark"]
        models["providers"].append(provider.provider("mark", name="mark", apis=["responses"]))
        (policies / "models.json").write_text(json.dumps(models))
        admit_installed(home, policies)
        more = {
            "GATEWRIGHT_POLICIES": str(policies),
            "GATEWRIGHT_CONSULT": "pm,techlead,reviewer",
            "SCRIPTED_KEY": KEY,
            SETTING: str(INSTALLATION),
        }
        with running_stack(home, workers=2, stack=ThinkingStack(home, more)) as running:
            assert isinstance(running, ThinkingStack)
            yield running


def test_two_agents_complete_a_sentence_in_two_rounds(stack: ThinkingStack, make_repository: MakeRepository) -> None:
    project = make_repository("project", files=PROJECT).path
    code, result = run(stack, project, "--yes", "--shards", "2", "--max-retries", "1")
    assert (code, result["status"], result["failure"]) == (0, "SUCCESS", None)
    repository = Repository(project, project.parent / "home")
    for name in ("a", "b"):
        landed = repository.git("show", f"{result['branch']}:src/{name}.py")
        assert landed == f"{name} = 1\nchanged = True\nedited = True\n".encode()
    bundle = Path(result["bundle"])
    events = [json.loads(line)["event_type"] for line in (bundle / "events.jsonl").read_text().splitlines()]
    assert events.count("fix_ordered") == 1
    assert len(list(bundle.glob("codex/*/transcript.md"))) == 4
    assert {file.parent.name for file in bundle.glob("consultations/*/prompt.json")} >= {f"{result['run_id']}.plan"}
    assert stack.command("verify", str(bundle)).returncode == 0
    assert "plan-model" in stack.command("show", result["run_id"]).stdout
    assert "Make the acceptance tests pass." in stack.command("show", result["run_id"], "--as", "trail").stdout
    assert processes_of_agents() == []
