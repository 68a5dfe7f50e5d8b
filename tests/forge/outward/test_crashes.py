"""A process that dies at any call leaves no duplicate, and the next one leads to the same end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field

import pytest

from tests.forge.outward.child import show
from tests.forge.outward.keepers import SCENARIOS, facts
from tests.forge.standin.app import Call
from tests.forge.standin.faults import Fault
from tests.forge.standin.server import Standin
from tests.forge.standin.state import ForgeState
from tests.processes import killed_on_failure
from tests.reason_codes import ROOT
from tests.series import series
from tests.waiting import PATIENCE

WRITES = frozenset({"POST", "PUT", "PATCH"})
#: Every phase of every scenario: what a run first leads to, and its end.
PHASES = [(name, phase) for name, scenario in SCENARIOS.items() for phase in range(len(scenario.phases))]


@dataclass
class KillAt(Fault):
    """Kills the process ``victims[0]`` at its ``number``-th call that writes; ``performed``: the call has its effect."""

    kind: str = "hang"  # type: ignore[assignment]  # the narrowest type is the parent's
    number: int = 1
    victims: list[int] = field(default_factory=list)
    seen: int = 0

    def meets(self, method: str, path: str) -> bool:
        del path
        self.seen += method in WRITES
        if not self.victims or method not in WRITES or self.seen != self.number:
            return False
        os.kill(self.victims.pop(), signal.SIGKILL)
        return True


async def undisturbed(scenario: str) -> list[tuple[dict[str, object], int]]:
    """By phase: what the forge shows after it where nothing fails, and how many of its calls write."""
    found = []
    with prepared(scenario) as forge:
        for phase in range(len(SCENARIOS[scenario].phases)):
            before = len(writes(forge))
            await show(scenario, phase, forge.api, forge.token)
            found.append((facts(forge.state), len(writes(forge)) - before))
    return found


def writes(forge: Standin) -> list[Call]:
    return [call for call in forge.app.calls if call.method in WRITES]


def prepared(scenario: str) -> Standin:
    state = ForgeState()
    SCENARIOS[scenario].prepare(state)
    return Standin("github", state)


def killed_child(forge: Standin, scenario: str, phase: int, fault: KillAt) -> int:
    argv = [sys.executable, "-m", "tests.forge.outward.child", scenario, str(phase), forge.api, forge.token]
    process = subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE)
    with killed_on_failure(process):
        fault.victims.append(process.pid)
        forge.fail(fault)
        process.communicate(timeout=PATIENCE)
    forge.recover()
    return process.returncode


@pytest.mark.parametrize("performed", [False, True])
@pytest.mark.parametrize(("scenario", "phase"), series(PHASES, ("judged", 0)))
async def test_a_kill_at_each_call_leads_to_the_same_end(scenario: str, phase: int, performed: bool) -> None:
    expected, calls = (await undisturbed(scenario))[phase]
    assert calls > 0
    for number in range(1, calls + 1):
        with prepared(scenario) as forge:
            for earlier in range(phase):
                await show(scenario, earlier, forge.api, forge.token)
            fault = KillAt(number=number, performed=performed)
            assert killed_child(forge, scenario, phase, fault) == -signal.SIGKILL
            await show(scenario, phase, forge.api, forge.token)
            assert facts(forge.state) == expected
            settled = len(writes(forge))
            await show(scenario, phase, forge.api, forge.token)
            assert len(writes(forge)) == settled
