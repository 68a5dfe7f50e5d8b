"""``review``: votes on a change under review, and the status of the review."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, write_line
from gatewright.app.cli.people.inbox import open_inbox
from gatewright.app.cli.people.signing import As, Key, sign_decision, signing_identity
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.contracts.people.approvals import ApprovalStanding
    from gatewright.contracts.people.review_votes import ReviewStanding, ReviewVote

review = typer.Typer(help="Vote on a change under review.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="REQUEST|RUN", help="Request id, or the run under review")]


def register(app: typer.Typer) -> None:
    for command in (vote, status):
        review.command()(command)
    app.add_typer(review, name="review")


@reported
def vote(
    name: Name,
    colour: Annotated[
        str, typer.Argument(metavar="green|yellow|red", help="green approves, yellow accepts with mitigations, red blocks")
    ],
    *,
    scope: Annotated[list[str], typer.Option(metavar="TEXT", help="Part of the change that you reviewed")],
    rationale: Annotated[str, typer.Option(metavar="TEXT", help="Reason for the vote")],
    evidence: Annotated[list[str], typer.Option(metavar="ANCHOR", help="Evidence for the vote")],
    mitigation: Annotated[
        list[str] | None, typer.Option(metavar="ACTION|OWNER|YYYY-MM-DD", help="Mitigation that a yellow vote requires")
    ] = None,
    key: Key = None,
    person: As = "",
    json_output: JsonOutput = False,
) -> None:
    """Vote on a change with your own key.

    The signature covers the contract and the tree under review. An ANCHOR is patch:PATH:LINE (-LINE for a removed line),
    tests:NUMBER or document:NAME. A document is contract, plan, review or tests.
    """
    import asyncio

    from gatewright.app.cli.context import find_place

    review_vote = vote_of(colour, scope, rationale, evidence, mitigation or [])
    found = asyncio.run(cast(name, review_vote, *signing_identity(find_place(), person, key)))
    if json_output:
        emit(_review_document(found))
        return
    for line in _review_lines(found):
        write_line(line)


@reported
def status(name: Name, json_output: JsonOutput = False) -> None:
    """Show a review: state, votes and what blocks consensus."""
    import asyncio

    from gatewright.contracts.people.review_votes import ReviewStanding

    found = asyncio.run(review_of(name))
    if isinstance(found, ReviewStanding):
        if json_output:
            emit(_plain_draft(name, found))
            return
        for line in (f"{name}: {found.phase}", *(f"wanting {printable(each)}" for each in found.blockers)):
            write_line(line)
        return
    if json_output:
        emit(_review_document(found))
        return
    for line in _review_lines(found):
        write_line(line)
    if found.review is not None and found.review.phase == "REVIEW":
        note("`gatewright review vote RUN green|yellow|red` votes; `gatewright approvals show RUN` shows the change")


def _review_document(found: ApprovalStanding) -> dict[str, object]:
    import msgspec

    request = found.request
    return {
        "request_id": request.request_id,
        "run_id": request.run_id,
        "candidate_tree": request.candidate_tree,
        "expires_at": request.expires_at,
        "review": msgspec.to_builtins(found.review),
    }


def _plain_draft(run_id: str, draft: ReviewStanding) -> dict[str, object]:
    import msgspec

    nothing = dict.fromkeys(("request_id", "candidate_tree", "expires_at"))
    return {**nothing, "run_id": run_id, "review": msgspec.to_builtins(draft)}


def _review_lines(found: ApprovalStanding) -> list[str]:
    standing = found.review
    if standing is None:
        return []
    lines = [f"{found.request.request_id}: {standing.phase}, tree {found.request.candidate_tree}"]
    lines += [f"{each.colour:<7} {printable(each.voter)}{_vote_words(each.vote)}" for each in standing.votes]
    sent_back = standing.consensus is not None and bool(standing.consensus.red)
    lines += [f"{'refused:' if sent_back else 'wanting'} {printable(each)}" for each in standing.blockers]
    if standing.consensus is not None and standing.consensus.duo:
        lines.append(f"the duo {printable(' and '.join(standing.consensus.duo))} stood in for the owner of the domain")
    return lines


def _vote_words(vote: ReviewVote | None) -> str:
    if vote is None:
        return ": its report passed"
    promised = "; ".join(f"{each.action} ({each.owner}, {each.due})" for each in vote.mitigations)
    return printable(f": {vote.rationale} [{', '.join(vote.evidence)}]{f' {promised}' if promised else ''}")


def vote_of(
    colour: str, scope: Sequence[str], rationale: str, evidence: Sequence[str], mitigations: Sequence[str]
) -> ReviewVote:
    """Build a vote from the options of a command. Raises MalformedError (``bad_vote``)."""
    import msgspec

    from gatewright.contracts.people.review_votes import ReviewVote
    from gatewright.errors import MalformedError

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
    """Cast a vote, and return the status of the review after it. Raises as the gatekeeper refuses a decision."""
    import asyncio

    from gatewright.app.cli.context import find_place
    from gatewright.clock import SystemClock, timestamp
    from gatewright.rules.approvals import decision_on

    async with open_inbox(find_place()) as inbox:
        found = await inbox.review(name)
        fields = {"verdict": "vote", "person": person, "decided_at": timestamp(SystemClock().now()), "vote": vote}
        signed = await asyncio.to_thread(sign_decision, decision_on(found.request, **fields), key)
        await inbox.decide([signed])
        return await inbox.review(found.request.request_id)


async def review_of(name: str) -> ApprovalStanding | ReviewStanding:
    """Return the review of a request or a run, or the review that the run will request.

    Raises MalformedError (``approval_unknown``, ``run_unknown``).
    """
    from gatewright.app.cli.context import find_place

    async with open_inbox(find_place()) as inbox:
        draft = await inbox.draft(name) if ".ask." not in name else None
        return draft or await inbox.review(name)
