"""What a vote on a review makes of the request that it answers."""

from __future__ import annotations

from dataclasses import replace

from gatewright.contracts import ApprovalDecision, codec
from gatewright.errors import MalformedError
from gatewright.ledger.events import ApprovalDecided
from gatewright.ledger.run import AskedApproval, CastVote


def voted(asked: AskedApproval, event: ApprovalDecided, now: str) -> AskedApproval:
    """The request after one more vote; a consensus is its yes. Raises MalformedError for a decision without a vote."""
    decision = codec.decode(event.signed.document.encode(), ApprovalDecision)
    if decision.vote is None:
        raise MalformedError(f"{event.request_id[:80]!r}: a vote that says nothing", code="bad_event")
    cast = CastVote(event.approver, decision.vote, decision.decided_at, now)
    asked = replace(asked, votes=(*asked.votes, cast))
    if event.consensus is None:
        return asked
    return replace(asked, status="approved", person=event.approver.name, at=now, consensus=event.consensus)
