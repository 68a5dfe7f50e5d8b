"""A vote as a person gives it on the command line, and the review that it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gatewright.app.cli.context import find_place
from gatewright.app.cli.people.session import MOST, open_inbox
from gatewright.app.cli.people.signing import sign_decision
from gatewright.client.approvals import ApprovalInbox
from gatewright.clock import SystemClock, timestamp
from gatewright.contracts import ApprovalsRequest
from gatewright.contracts.people.approvals import ApprovalStanding
from gatewright.contracts.people.review_votes import ReviewVote
from gatewright.errors import MalformedError
from gatewright.rules.approvals import decision_on


def vote_of(
    colour: str, scope: Sequence[str], rationale: str, evidence: Sequence[str], mitigations: Sequence[str]
) -> ReviewVote:
    """The words of a command as a vote. Raises MalformedError (``bad_vote``) for what is none."""
    promised = []
    for each in mitigations:
        action, owner, due = (*(part.strip() for part in each.split("|")), "", "")[:3]
        promised.append({"action": action, "owner": owner, "due": due})
    plain = {"colour": colour, "scope": scope, "rationale": rationale, "evidence": evidence, "mitigations": promised}
    try:
        return msgspec.convert(plain, ReviewVote)
    except msgspec.ValidationError as error:
        raise MalformedError(f"that is no vote: {error}", code="bad_vote") from error


async def cast(name: str, vote: ReviewVote, person: str, key: Path) -> ApprovalStanding:
    """Vote, and say how the review stands then. Raises what the gatekeeper refuses a decision for."""
    async with open_inbox(find_place()) as inbox:
        found = await _review(inbox, name)
        said = {"verdict": "vote", "person": person, "decided_at": timestamp(SystemClock().now()), "vote": vote}
        signed = await asyncio.to_thread(sign_decision, decision_on(found.request, **said), key)
        await inbox.decide([signed])
        return await _review(inbox, found.request.request_id)


async def review_of(name: str) -> ApprovalStanding:
    """The review that a request or a run names. Raises MalformedError (``approval_unknown``, ``run_unknown``)."""
    async with open_inbox(find_place()) as inbox:
        return await _review(inbox, name)


async def _review(inbox: ApprovalInbox, name: str) -> ApprovalStanding:
    """The last one that was asked for, where a run has several."""
    run_id = name.partition(".ask.")[0]
    listed = (await inbox.listed(ApprovalsRequest(run_id=run_id, limit=MOST))).approvals
    found = [each for each in listed if each.review is not None and name in {run_id, each.request.request_id}]
    if not found:
        raise MalformedError(f"{name} has no review", code="approval_unknown")
    return found[-1]
