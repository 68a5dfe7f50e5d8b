"""What a run waits for, as a ``blocked`` document (OmegaOS, prompt protocols)."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts import Blocked, OrchestratorEvent
from gatewright.errors import MalformedError
from gatewright.rules.blocked.asking import refuse_illegal
from gatewright.run import events as e
from gatewright.run.state import Run


def blocked_of(run: Run, records: Sequence[OrchestratorEvent]) -> Blocked:
    """Return what an open run waits for; it passes ``check``.

    Raises:
        MalformedError: it waits for nothing (``not_blocked``).
    """
    waiting = [record for record in records if record.event_type == e.LocksWaiting.event_type]
    if run.ended or not run.waiting_for_locks or not waiting:
        raise MalformedError(f"{run.run_id} is not blocked: it is {run.status} in {run.state}", code="not_blocked")
    payload = e.event_of(waiting[-1])
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
