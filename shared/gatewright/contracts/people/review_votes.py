"""Votes of people on a change under review, what a rule wants of them, and how a review stands.

A vote is part of an approval decision, so that it is bound to contract, tree and request, and signed, as every decision is.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import END, Document, NonEmpty

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
    """What is promised in return for a yellow vote: by whom, and until which day (UTC)."""

    action: _Line
    owner: _Line
    due: _Day


class ReviewVote(Document):
    """``scope`` names what was looked at, ``evidence`` where in the run that can be seen."""

    colour: VoteColour
    scope: Annotated[tuple[_Line, ...], Meta(min_length=1, max_length=50)]
    rationale: _Words
    evidence: Annotated[tuple[Anchor, ...], Meta(min_length=1, max_length=50)]
    mitigations: Annotated[tuple[Mitigation, ...], Meta(max_length=20)] = ()


class OwnedPaths(Document):
    """A line of the operator's ``CODEOWNERS``. Without owners: what it matches belongs to the ``domain`` of the rule."""

    line: Annotated[int, Meta(ge=1)]
    pattern: NonEmpty
    owners: Annotated[tuple[NonEmpty, ...], Meta(max_length=20)] = ()


class ReviewQuorum(Document):
    """Who must have voted, and how, for a review to pass. Names are people of the roster, or ``@group``.

    ``domain`` and ``quality`` name who fills these two seats; ``role_counts``: the role reviewer's report is a green vote
    of quality; ``model_counts``: so is, in no seat, the word of the model that the reviewer asked.
    ``duo``: two names that may stand in for the owner of the domain once the first time is over; empty: none.
    ``by_owner``: the domain has a seat for the owners of each part that is changed, by ``owners``, and ``domain`` is for the
    rest; the gatekeeper writes ``owners`` there when a run is accepted.
    """

    domain: _Names
    quality: _Names
    reviewers: Annotated[int, Meta(ge=2, le=20)] = 3
    greens: Annotated[int, Meta(ge=1, le=20)] = 2
    yellows: Annotated[int, Meta(ge=1, le=20)] = 2
    role_counts: bool = True
    model_counts: bool = False
    duo: Annotated[tuple[NonEmpty, ...], Meta(max_length=2)] = ()
    by_owner: bool = False
    owners: Annotated[tuple[OwnedPaths, ...], Meta(max_length=500)] = ()


class ConsensusReceipt(Document):
    """Whose votes made the consensus. ``duo``: the two that stood in for the owner of the domain; empty: the owner voted.

    ``red``: who refused the change, which is sent back for it; empty: the consensus is a yes.
    """

    green: tuple[str, ...]
    yellow: tuple[str, ...]
    duo: tuple[str, ...] = ()
    red: tuple[str, ...] = ()


class VoteStanding(Document):
    """A vote that counts now. ``voter``: a person of the roster, ``role:reviewer``, or ``model:`` and the name of a model."""

    voter: NonEmpty
    colour: VoteColour
    at: str
    vote: ReviewVote | None = None


class ReviewStanding(Document):
    """How a review stands: ``blockers`` is what keeps it from consensus, in words."""

    phase: ReviewPhase
    votes: tuple[VoteStanding, ...]
    blockers: tuple[str, ...]
    consensus: ConsensusReceipt | None = None
