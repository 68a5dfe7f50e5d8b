"""Votes of people on a change under review, what a rule wants of them, and how a review stands.

A vote is part of an approval decision, so that it is bound to contract, tree and request, and signed, as every decision is.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import END, Document, NonEmpty, keep_one_spelling

#: Approve; accept with mitigations; block.
VoteColour = Literal["green", "yellow", "red"]
ReviewPhase = Literal["DRAFT", "REVIEW", "CONSENSUS", "SUBMITTED", "MERGED", "REJECTED"]
#: A line of the patch (``-`` before the number: a line that it removes), a command of the tests, a document of the run.
Anchor = Annotated[
    str,
    Meta(
        pattern=rf"^(patch:.{{1,1000}}:-?[1-9][0-9]{{0,8}}|tests:[1-9][0-9]{{0,3}}|document:(contract|plan|review|tests)){END}"
    ),
]
_Day = Annotated[str, Meta(pattern=rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}{END}")]
_Line = Annotated[str, Meta(min_length=1, max_length=500)]
_Words = Annotated[str, Meta(min_length=1, max_length=4000)]
_Names = Annotated[tuple[NonEmpty, ...], Meta(min_length=1)]


class Mitigation(Document):
    """What is promised in return for a yellow vote, by whom, and until when."""

    action: _Line
    """The act."""
    owner: _Line
    """The role that does the task."""
    due: _Day
    """Last day, in UTC."""


class ReviewVote(Document):
    """A person's vote on a review, and what it rests on."""

    colour: VoteColour
    """Green approves, yellow accepts with mitigations, red blocks."""
    scope: Annotated[tuple[_Line, ...], Meta(min_length=1, max_length=50)]
    """What the voter looked at."""
    rationale: _Words
    """The reasons."""
    evidence: Annotated[tuple[Anchor, ...], Meta(min_length=1, max_length=50)]
    """What the vote rests on: lines of the judged patch, commands of its tests, documents of the run."""
    mitigations: Annotated[tuple[Mitigation, ...], Meta(max_length=20)] = ()
    """What is promised in return for a yellow vote."""


class OwnedPaths(Document):
    """A line of the operator's ``CODEOWNERS``."""

    line: Annotated[int, Meta(ge=1)]
    """Its line number in the file."""
    pattern: NonEmpty
    """Pattern as in gitignore, without !."""
    owners: Annotated[tuple[NonEmpty, ...], Meta(max_length=20)] = ()
    """People of the roster, or @group; none: matching files belong to the domain of the rule."""


class ReviewQuorum(Document):
    """Who must have voted, and how, for a review to pass. ``domain`` and ``quality`` name who can fill these two seats."""

    domain: _Names
    """Who can vote for the domain: people of the roster, or @group."""
    quality: _Names
    """Who can vote for quality: people of the roster, or @group."""
    reviewers: Annotated[int, Meta(ge=2, le=20)] = 3
    """Minimum number of votes."""
    greens: Annotated[int, Meta(ge=1, le=20)] = 2
    """Number of green votes that let it pass."""
    yellows: Annotated[int, Meta(ge=1, le=20)] = 2
    """Number of yellow votes that let it pass, with one green."""
    role_counts: bool = True
    """Whether the role reviewer's report is a green vote, of quality."""
    model_counts: bool = False
    """Whether a model that the reviewer asked, and that found nothing, is a green vote without a seat."""
    duo: Annotated[tuple[NonEmpty, ...], Meta(max_length=2)] = ()
    """Two people who may stand in for the owner of the domain once the first waiting time is over; empty: none."""
    by_owner: bool = False
    """The domain has a seat for the owners of each changed part, by owners; domain is for all other files."""
    owners: Annotated[tuple[OwnedPaths, ...], Meta(max_length=500)] = ()
    """The lines of CODEOWNERS. The gatekeeper writes them when it accepts a run; a rules file must not have them."""
    drift: Literal["any", "scope"] = "any"
    """Which commits on the target branch make votes void: any, or those that change the contract's allowed paths."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "drift")


class ConsensusReceipt(Document):
    """Whose votes made the consensus."""

    green: tuple[str, ...]
    """Who voted green."""
    yellow: tuple[str, ...]
    """Who voted yellow."""
    duo: tuple[str, ...] = ()
    """The two who stood in for the owner of the domain; empty: the owner voted."""
    red: tuple[str, ...] = ()
    """Who refused the change, which was then sent back; empty: the consensus approves it."""


class VoteStanding(Document):
    """A vote that counts now."""

    voter: NonEmpty
    """A person of the roster, role:reviewer, or model: and the name of a model."""
    colour: VoteColour
    """Green approves, yellow accepts with mitigations, red blocks."""
    at: str
    """When the vote was recorded."""
    vote: ReviewVote | None = None
    """The vote on a review."""


class ReviewStanding(Document):
    """The current state of a review."""

    phase: ReviewPhase
    """The review's own state."""
    votes: tuple[VoteStanding, ...]
    """The last vote of each voter."""
    blockers: tuple[str, ...]
    """What keeps the review from consensus."""
    consensus: ConsensusReceipt | None = None
    """The votes that made the consensus."""
