"""What a run waits for, as a ``blocked`` document, and which questions are no blocks (OmegaOS, prompt protocols).

A block is legal when only the person who is asked can settle it, work goes on meanwhile, and it goes on without an answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gatewright.contracts import Blocked, OrchestratorEvent
from gatewright.errors import Fault, MalformedError
from gatewright.ledger import events as e
from gatewright.ledger.run import Run

ILLEGAL = "blocked_illegal"
#: Preferences that are put as questions: the agent that asks them decides and goes on.
_PREFERENCES = re.compile(  # noqa: TID251 - linear: each try ends where the next one begins
    r"which (path|option|approach|one) (should|would|do)|should i (proceed|continue|go on)|await(ing)? (confirmation|approval)"
    r"|confirm before|like to confirm|would you prefer|validate the approach|may i (proceed|continue)",
    re.IGNORECASE,
)


def blocked_of(run: Run, records: Sequence[OrchestratorEvent]) -> Blocked:
    """What an open run waits for; it passes ``check``.

    Raises MalformedError (``not_blocked``) for one that waits for nothing.
    """
    waiting = [record for record in records if record.event_type == e.LocksWaiting.event_type]
    if run.ended or not run.waiting_for_locks or not waiting:
        raise MalformedError(f"{run.run_id} is not blocked: it is {run.status} in {run.state}", code="not_blocked")
    payload = e.payload_of(waiting[-1])
    holders = payload.holders if isinstance(payload, e.LocksWaiting) else ()
    blocked = Blocked(
        session=run.run_id,
        blocked_at=waiting[-1].ts,
        question=f"When are the paths free that {', '.join(holders)} holds?",
        best_guess="when the run that holds them has ended",
        fallback_action="the run stands in line for the locks, all or nothing, and is gone on with when they are released",
        can_resume_without_answer=True,
    )
    refuse_illegal(blocked)
    return blocked


def check(blocked: Blocked) -> tuple[Fault, ...]:
    """Why a document is no legal block, as far as its fields can tell; empty when it is one."""
    faults: list[Fault] = []
    if not blocked.can_resume_without_answer:
        faults.append(Fault("/can_resume_without_answer", ILLEGAL, "an agent that is blocked must go on without an answer"))
    if not blocked.fallback_action.strip():
        faults.append(Fault("/fallback_action", ILLEGAL, "nothing is being done meanwhile"))
    if _PREFERENCES.search(blocked.question):
        faults.append(Fault("/question", ILLEGAL, "a preference and no block: decide and go on"))
    return tuple(faults)


def refuse_illegal(blocked: Blocked) -> None:
    """Raises MalformedError (``blocked_illegal``) with every fault that ``check`` finds."""
    faults = check(blocked)
    if faults:
        raise MalformedError(f"{faults[0].pointer}: {faults[0].message}", faults=faults, code=ILLEGAL)
