"""What the probe would have left behind, and a model that is never asked, for tests whose subject is something else."""

from __future__ import annotations

import json
from pathlib import Path

from gatewright.agents.admission_record import ADMISSIONS
from gatewright.agents.installation import InstalledAgent, usable_agent
from gatewright.agents.policy import load_agents
from gatewright.services.worker.agents.probe.admission import admission_of, keep
from gatewright.services.worker.agents.probe.result import StepResult

PASSED = (StepResult(step="handshake", outcome="passed", found="version 1"),)


def admit(home: Path, agent: InstalledAgent, *steps: StepResult) -> None:
    """Leave in ``home`` that ``agent`` was probed, and what was found."""
    keep(home / ADMISSIONS, admission_of(agent, "1", steps or PASSED, "2026-01-02T03:04:05.000Z"))


def write_silent_model(policies: Path) -> None:
    """A ``models.json`` for agents that ask no model: it has one without a key, at an address where nothing answers."""
    provider = {"name": "nowhere", "apis": ["chat_completions"], "base_url": "http://127.0.0.1:9/v1"}
    model = {"name": "none", "provider": "nowhere", "price": None}
    routes = [{"role": "worker", "models": ["none"]}]
    models = {"version": "1", "providers": [provider], "models": [model], "routes": routes}
    (policies / "models.json").write_text(json.dumps(models))


def admit_all(home: Path, policies: Path, *installations: Path, steps: tuple[StepResult, ...] = PASSED) -> None:
    """The same for every agent of the policies that is installed there."""
    for entry in load_agents(policies).agents:
        admit(home, usable_agent(entry, installations), *steps)
