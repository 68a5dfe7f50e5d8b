"""What the probe would have left behind, for tests whose subject is something else."""

from __future__ import annotations

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


def admit_all(home: Path, policies: Path, *installations: Path, steps: tuple[StepResult, ...] = PASSED) -> None:
    """The same for every agent of the policies that is installed there."""
    for entry in load_agents(policies).policy.agents:
        admit(home, usable_agent(entry, installations), *steps)
