"""How the ledger lets go of a run: one last transition that says what must be known for good, after which the others may go.

Pure. Which runs may expire is settled by ``gatewright.app.retention``, and only the bus's provisioner can take entries away.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from gatewright.contracts.records import Cause, Transition
from gatewright.errors import MalformedError
from gatewright.ledger.chain import link
from gatewright.run import events as e
from gatewright.run.state import Run, RunFailure

#: Characters of what was asked for that lists still show.
_SHOWN = 200


def expire(run: Run, now: datetime, by: str, reason: str) -> Transition:
    """The last transition of a sealed run. Raises MalformedError (``run_not_sealed``, ``run_expired``)."""
    if run.expired is not None:
        raise MalformedError(f"{run.run_id} has expired before", code="run_expired")
    state = run.state
    if run.sealed is None or (state != "S6" and state != "FAILED" and state != "ABORTED"):  # noqa: PLR1714 - types are narrowed so
        raise MalformedError(f"the bundle of {run.run_id} is not sealed: the ledger alone tells of it", code="run_not_sealed")
    failure = run.failure or RunFailure("", "")
    payload = e.RunExpired(
        accepted=_shortened(run.accepted),
        sealed=run.sealed.without_memory(),
        state=state,
        attempt=run.attempt,
        created_at=run.created_at,
        finished_at=run.finished_at,
        code=failure.code,
        message=failure.message,
        by=by,
        reason=reason,
        landed=run.landed,
    )
    moment = max(now, datetime.fromisoformat(run.at))
    events = link([e.LabelledEvent(payload)], run_id=run.run_id, trace_id=run.trace_id, seq=run.seq, head=run.head, now=moment)
    cause = Cause(kind="expiry", message_id=f"{run.run_id}:expired")
    return Transition(run_id=run.run_id, number=run.transitions + 1, cause=cause, events=events, commands=())


def expired_words(run: Run) -> str:
    """What is said of a run whose events are asked for, and of which the ledger has the end alone."""
    sealed = run.sealed
    where = f": its bundle was sealed at {sealed.location} (manifest sha256 {sealed.manifest_sha256})" if sealed else ""
    return f"the ledger has let go of {run.run_id}, expired {run.at}{where}"


def check_whole(run: Run, first_seq: int) -> None:
    """Raises MalformedError (``run_expired``) where the events that there are begin with number ``first_seq``, not with 1."""
    if run.expired is not None and first_seq > 1:
        raise MalformedError(expired_words(run), code="run_expired")


def is_remains(transition: Transition) -> bool:
    """Whether it is the one transition that is left of an expired run, or will be."""
    return len(transition.events) == 1 and transition.events[0].event_type == e.RunExpired.event_type


def _shortened(accepted: e.RunAccepted) -> e.RunAccepted:
    return msgspec.structs.replace(
        accepted,
        user_request=accepted.user_request[:_SHOWN],
        request=None,
        contract=None,
        versions={},
        policies={},
        host={},
        mutation=None,
        approval_rules=(),
    )
