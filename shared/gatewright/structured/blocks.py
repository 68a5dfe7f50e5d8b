"""Open questions of a role's model as documents for people: treated as data, and bound to this task. Pure."""

from __future__ import annotations

from datetime import datetime

from gatewright.clock import timestamp
from gatewright.contracts import Blocked, ContractProposal, PlanProposal, ReviewOpinion
from gatewright.contracts.consultation import Clamp
from gatewright.prompts.orders import BLOCKED
from gatewright.rules.blocked.asking import ILLEGAL, check

#: Reason code: no rule forwards open questions of the run's tasks to people.
UNASKED = "blocked_unasked"


def blocks_of(
    proposal: ContractProposal | PlanProposal | ReviewOpinion, task_id: str, now: datetime, *, may_ask: bool
) -> tuple[tuple[Blocked, ...], tuple[Clamp, ...]]:
    """Return the questions to forward to people, and the dropped ones: preferences, or all when no rule applies."""
    kept: list[Blocked] = []
    left: list[Clamp] = []
    for each in proposal.blocked:
        block = Blocked(
            session=task_id,
            blocked_at=timestamp(now),
            question=each.question,
            best_guess=each.best_guess,
            fallback_action=each.fallback_action,
            can_resume_without_answer=True,
            human_required_for=each.human_required_for,
        )
        if may_ask and not check(block):
            kept.append(block)
        else:
            left.append(Clamp(field=BLOCKED, proposed=each.question, granted="", reason=ILLEGAL if may_ask else UNASKED))
    return tuple(kept), tuple(left)
