"""Real agents read no file of conventions by themselves: they get those of the baseline in their order, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from gatewright.contracts.vocabulary import Executor
from gatewright.resources import policy_directory
from gatewright.services.worker.handler import make_handler
from gatewright.services.worker.settings import Settings
from tests.agents.conftest import INSTALLATION, NATIVE, admit_installed
from tests.handler_fixture import HandlerFixture, make_handler_fixture
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Say, Write

NAMES = (
    *("AGENTS.md", "CLAUDE.md", "GEMINI.md", "QWEN.md", ".cursorrules", "src/AGENTS.md", "src/CLAUDE.md"),
    *(".agents/skills/a/SKILL.md", ".claude/skills/a/SKILL.md", ".github/copilot-instructions.md"),
)
AGENTS = (
    *(*NATIVE, "codex-acp", "claude-agent-acp", "gemini-cli", "qwen-code", "opencode"),
    *("copilot", "kilo", "pi"),
)


def marker(name: str) -> str:
    return f"marker of {name.replace('/', ' ')}"


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider({"edit": [Write("/workspace/src/new.py", "edited = True\n"), Say("done")]}) as provider:
        yield provider


@pytest.mark.parametrize("policy", ["given", "withheld"])
@pytest.mark.parametrize("agent", AGENTS)
async def test_an_agent_reads_conventions_from_its_order_alone(
    tmp_path: Path, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, agent: str, policy: str
) -> None:
    monkeypatch.setenv("SCRIPTED_KEY", KEY)
    tmp_path.chmod(0o755)
    skill = "---\nname: a\ndescription: {}\n---\n{}\n"
    files = {name: (skill if "skills" in name else "# {}\n{}\n").format(marker(name), "words") for name in NAMES}
    fixture: HandlerFixture = make_handler_fixture(
        tmp_path, {"src/a.py": b"a = 1\n", **{name: text.encode() for name, text in files.items()}}
    )
    policies = tmp_path / "policies"
    policies.mkdir()
    for file in policy_directory().iterdir():
        if file.is_file():
            (policies / file.name).write_bytes(file.read_bytes())
    (policies / "models.json").write_text(json.dumps(provider.policy("edit")))
    listed = json.loads((policies / "agents.json").read_text())
    (policies / "agents.json").write_text(json.dumps(listed | {"conventions": policy}))
    admit_installed(fixture.state, policies)
    worker = make_handler(Settings(home=fixture.state, policies=policies, agent_installations=(INSTALLATION,)))
    contract = fixture.contract(executor=Executor(kind="agent", agent=agent), allowed_paths=("src",))
    result = await worker.handle(contract, fixture.context())
    assert (result.status, result.failure) == ("SUCCESS", None)
    bodies = [request.body.decode() for request in provider.requests]
    seen = {name: max(body.count(marker(name)) for body in bodies) for name in NAMES}
    assert seen == dict.fromkeys(NAMES, 1 if policy == "given" else 0)
