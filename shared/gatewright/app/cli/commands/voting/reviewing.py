"""``review``: votes on a change that is under review, and how the review stands."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewright.app.cli.commands.deciding import As, Key
from gatewright.app.cli.options import JsonOutput
from gatewright.app.cli.output import emit, note, reported, say
from gatewright.view.safe_text import printable

if TYPE_CHECKING:
    from gatewright.contracts.people.approvals import ApprovalStanding
    from gatewright.contracts.people.review_votes import ReviewStanding, ReviewVote

review = typer.Typer(help="Votes on a change that is under review, and how the review stands.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="REQUEST|RUN", help="The review, or the run that is under review.")]


def register(app: typer.Typer) -> None:
    for command in (vote, status):
        review.command()(command)
    app.add_typer(review, name="review")


@reported
def vote(
    name: Name,
    colour: Annotated[str, typer.Argument(metavar="green|yellow|red", help="Approve, accept with mitigations, or block.")],
    *,
    scope: Annotated[list[str], typer.Option(metavar="TEXT", help="What you have looked at; may be given again.")],
    rationale: Annotated[str, typer.Option(metavar="TEXT", help="Why.")],
    evidence: Annotated[
        list[str],
        typer.Option(
            metavar="ANCHOR",
            help="patch:PATH:LINE (-LINE for one that is removed), tests:NUMBER, document:contract|plan|review|tests.",
        ),
    ],
    mitigation: Annotated[
        list[str] | None, typer.Option(metavar="ACTION|OWNER|YYYY-MM-DD", help="What a yellow vote asks for.")
    ] = None,
    key: Key = None,
    person: As = "",
    json_output: JsonOutput = False,
) -> None:
    """Vote: signed with your own key, bound to the contract and the tree that are under review."""
    import asyncio

    from gatewright.app.cli.people.signing import usual_key
    from gatewright.app.cli.people.voting import cast, vote_of
    from gatewright.app.cli.user_git import user_name

    said = vote_of(colour, scope, rationale, evidence, mitigation or [])
    found = asyncio.run(cast(name, said, person or user_name(), key or usual_key(Path.home())))
    if json_output:
        emit(_plain(found))
        return
    for line in _lines(found):
        say(line)


@reported
def status(name: Name, json_output: JsonOutput = False) -> None:
    """Show how a review stands: its state, the votes that count, and what keeps it from consensus."""
    import asyncio

    from gatewright.app.cli.people.voting import review_of
    from gatewright.contracts.people.review_votes import ReviewStanding

    found = asyncio.run(review_of(name))
    if isinstance(found, ReviewStanding):
        if json_output:
            emit(_plain_draft(name, found))
            return
        for line in (f"{name}: {found.phase}", *(f"wanting {printable(each)}" for each in found.blockers)):
            say(line)
        return
    if json_output:
        emit(_plain(found))
        return
    for line in _lines(found):
        say(line)
    if found.review is not None and found.review.phase == "REVIEW":
        note("`gatewright review vote RUN green|yellow|red` votes; `gatewright approvals show RUN` shows the change")


def _plain(found: ApprovalStanding) -> dict[str, object]:
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


def _lines(found: ApprovalStanding) -> list[str]:
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
