"""Expiry of a run from the ledger: a last transition keeps the permanent facts, and then the other entries may be removed.

Pure. ``gatewright.app.retention`` decides which runs expire, and only the bus's provisioner can remove entries.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from gatewright.contracts.records import Cause, Transition
from gatewright.errors import MalformedError
from gatewright.ledger.chain import link
from gatewright.run import events as e
from gatewright.run.state import Run, RunFailure

#: Maximum characters of the request that lists still show.
_SHOWN = 200


def expire(run: Run, now: datetime, by: str, reason: str) -> Transition:
    """Return the last transition of a sealed run.

    Raises:
        MalformedError: ``run_not_sealed``, ``run_expired``.
    """
    if run.expired is not None:
        raise MalformedError(f"{run.run_id} has expired before", code="run_expired")
    state = run.state
    if run.sealed is None or (state != "S6" and state != "FAILED" and state != "ABORTED"):  # noqa: PLR1714 - types are narrowed so
        raise MalformedError(
            f"the bundle of {run.run_id} is not sealed: only the ledger has its history", code="run_not_sealed"
        )
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
    """Return the message for a query of the events of an expired run."""
    sealed = run.sealed
    where = f": its bundle was sealed at {sealed.location} (manifest sha256 {sealed.manifest_sha256})" if sealed else ""
    return f"the ledger has let go of {run.run_id}, expired {run.at}{where}"


def check_whole(run: Run, first_seq: int) -> None:
    """Check that the events start with number 1.

    Raises:
        MalformedError: they start with a later ``first_seq`` (``run_expired``).
    """
    if run.expired is not None and first_seq > 1:
        raise MalformedError(expired_words(run), code="run_expired")


def is_remains(transition: Transition) -> bool:
    """Return whether a transition is the single one that remains, or will remain, of an expired run."""
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
