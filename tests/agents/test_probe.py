"""The admission probe on the real agents: what it finds is what is known of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import INSTALLATION

#: Seventeen boxes: an agent that starts slowly takes minutes, on a busy host up to ten.
SECONDS = 1200
EVERY = ["deny", "never", "on-request", "untrusted"]


def probe(agent: str, home: Path) -> dict[str, Any]:
    argv = [sys.executable, "-m", "gatewright.app.cli.main", "agents", "probe", agent, "--json"]
    environment = {"PATH": "/usr/bin:/bin", "GATEWRIGHT_HOME": str(home), "GATEWRIGHT_AGENT_INSTALLATIONS": str(INSTALLATION)}
    finished = subprocess.run(
        argv, env=environment, cwd=home.parent, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    assert json.loads((home / "agents" / f"{agent}.json").read_text()) == found
    return found


@pytest.mark.parametrize("agent", ["claude", "claude-agent-acp", "gemini-cli", "opencode", "qwen-code"])
def test_an_agent_that_asks_and_obeys_may_have_every_contract(agent: str, tmp_path: Path) -> None:
    found = probe(agent, tmp_path / "home")
    outcomes = {step["step"]: step["outcome"] for step in found["steps"]}
    assert len(outcomes) == 10
    assert "failed" not in outcomes.values()
    assert found["permitted"] == {"shells": EVERY, "read_only": True, "own_settings": True}
    told = {step["step"]: step["found"] for step in found["steps"]}
    if agent == "opencode":
        assert told["connections"] == "listens on port(s) 4096"
        assert "which tasks hide from it" in told["hostile_repository"]


@pytest.mark.parametrize("agent", ["codex", "codex-acp"])
def test_codex_permissions_follow_from_its_failed_probe_steps(agent: str, tmp_path: Path) -> None:
    found = probe(agent, tmp_path / "home")
    assert [step["step"] for step in found["steps"] if step["outcome"] == "failed"] == ["asks", "obeys_no", "read_only"]
    shells = ["never", "untrusted"] if agent == "codex" else ["never"]
    assert found["permitted"] == {"shells": shells, "read_only": False, "own_settings": True}
