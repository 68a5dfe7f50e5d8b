"""The inbox of approvers: pending requests, and signed answers. It uses the bus port and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.bus.port import Bus
from gatewright.bus.topology import APPROVALS_SUBJECT, DECIDE_SUBJECT
from gatewright.client.refusals import decode_answer
from gatewright.contracts import ApprovalList, ApprovalsRequest, DecisionBatch, DecisionReply, GrantChange, codec
from gatewright.contracts.people.approvals import ApprovalStanding, GrantStanding, SignedDecision
from gatewright.contracts.people.review_votes import ReviewStanding
from gatewright.errors import MalformedError

#: Seconds that a gatekeeper is waited for; a yes may land a change before it is answered.
_ASKING = 10.0
_DECIDING = 60.0
#: Maximum number of requests in one answer.
_MOST = 1000


class ApprovalInbox:
    """The operations of the identity ``approver``. Every method raises BusError when the bus cannot serve."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def listed(self, request: ApprovalsRequest) -> ApprovalList:
        """The requests there are. Raises MalformedError (``run_unknown``), UnavailableError."""
        data = codec.encode(request)
        answer = await self._bus.request(APPROVALS_SUBJECT, data, schema="approvals_request.v1", timeout=_ASKING)
        return decode_answer(answer, ApprovalList)

    async def review(self, name: str) -> ApprovalStanding:
        """Return the state of a request's or run's review: the last one, if a run has several.

        Raises MalformedError (``approval_unknown``, ``run_unknown``), UnavailableError.
        """
        run_id = name.partition(".ask.")[0]
        listed = (await self.listed(ApprovalsRequest(run_id=run_id, limit=_MOST))).approvals
        found = [each for each in listed if each.review is not None and name in {run_id, each.request.request_id}]
        if not found:
            raise MalformedError(f"{name} has no review", code="approval_unknown")
        return found[-1]

    async def draft(self, run_id: str) -> ReviewStanding | None:
        """Return the review that will be requested once the run's change is made; None without one.

        Raises MalformedError (``run_unknown``), UnavailableError.
        """
        return (await self.listed(ApprovalsRequest(run_id=run_id, limit=1))).draft

    async def decide(self, decisions: Sequence[SignedDecision]) -> DecisionReply:
        """Bring decisions that count together or not at all. Raises DeniedError, MalformedError."""
        data = codec.encode(DecisionBatch(decisions=tuple(decisions)))
        answer = await self._bus.request(DECIDE_SUBJECT, data, schema="decision_batch.v1", timeout=_DECIDING)
        return decode_answer(answer, DecisionReply)

    async def grants(self) -> tuple[GrantStanding, ...]:
        """Return all approvals in advance, the oldest first. Raises UnavailableError."""
        data = codec.encode(ApprovalsRequest(grants=True))
        answer = await self._bus.request(APPROVALS_SUBJECT, data, schema="approvals_request.v1", timeout=_ASKING)
        return decode_answer(answer, ApprovalList).grants

    async def change_grant(self, change: GrantChange) -> GrantStanding:
        """Send a signed grant or revocation; return its state. Raises DeniedError, MalformedError."""
        data = codec.encode(change)
        answer = await self._bus.request(DECIDE_SUBJECT, data, schema="grant_change.v1", timeout=_ASKING)
        return decode_answer(answer, ApprovalList).grants[0]
