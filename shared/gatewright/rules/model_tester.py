"""The model tester: asked for missed cases once a change passed its tests, where the routing rules require that. Pure.

Its answer is advice: people, the model critic and the bundle have it, and no gate and no state depends on it.
"""

from __future__ import annotations

from gatewright.contracts.routing import ModelTester
from gatewright.rules.approvals import TIERS
from gatewright.rules.critic import is_routed
from gatewright.run.state import Run


def tester_id(run: Run) -> str:
    """Return the task id of the question to the tester: one per round."""
    return f"{run.run_id}.summons.qa-{run.attempt}"


def tester_limits(run: Run) -> ModelTester | None:
    """Return the limits of the tester; None when the rules ask none about a change of this risk."""
    wanted = run.accepted.routing.model_tester if run.accepted.routing is not None else None
    if wanted is None or run.routing is None or TIERS.index(run.routing.tier) < TIERS.index(wanted.from_tier):
        return None
    return wanted


def is_tester_due(run: Run) -> bool:
    """Return whether the candidate is routed, the rules ask a tester about it, and none was asked."""
    return is_routed(run) and tester_limits(run) is not None and tester_id(run) not in run.summonses


def awaits_tester(run: Run) -> bool:
    """Return whether the run waits for the tester's answer."""
    asked = run.summonses.get(tester_id(run))
    return run.state == "S4" and asked is not None and asked.answer is None
