"""A vote as a person gives it on the command line, and the review that it is about."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gatewright.app.cli.context import find_place
from gatewright.app.cli.people.session import open_inbox
from gatewright.app.cli.people.signing import sign_decision
from gatewright.clock import SystemClock, timestamp
from gatewright.contracts.people.approvals import ApprovalStanding
from gatewright.contracts.people.review_votes import ReviewStanding, ReviewVote
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
        found = await inbox.review(name)
        said = {"verdict": "vote", "person": person, "decided_at": timestamp(SystemClock().now()), "vote": vote}
        signed = await asyncio.to_thread(sign_decision, decision_on(found.request, **said), key)
        await inbox.decide([signed])
        return await inbox.review(found.request.request_id)


async def review_of(name: str) -> ApprovalStanding | ReviewStanding:
    """The review that a request or a run names, or the one that will be asked for.

    Raises MalformedError (``approval_unknown``, ``run_unknown``).
    """
    async with open_inbox(find_place()) as inbox:
        draft = await inbox.draft(name) if ".ask." not in name else None
        return draft or await inbox.review(name)
