"""What the maker of a change is handed when people have refused it: their words, where they point, and one narrow objective.

Data, never orders: it widens no contract, and the maker's prompt has it behind fences.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.people.approvals import PersonName, RequestId
from gatewright.contracts.people.review_votes import Anchor, VoteColour
from gatewright.contracts.reports import GateReport, ReviewReport, TestReport
from gatewright.contracts.vocabulary import Attempt, Document, NonEmpty, RunId

_Words = Annotated[str, Meta(min_length=1, max_length=4000)]


class RefusalWords(Document):
    """What one person found: a red vote with what it looked at and points at, or the comment of a no."""

    person: PersonName
    request_id: RequestId
    words: _Words
    scope: tuple[NonEmpty, ...] = ()
    evidence: tuple[Anchor, ...] = ()


class RevisionOrder(Document):
    """``attempt`` is the round that was refused, ``candidate_tree`` what it had made."""

    run_id: RunId
    attempt: Attempt
    reason: Literal["review_rejected", "approval_rejected"]
    candidate_tree: str
    objective: NonEmpty
    findings: Annotated[tuple[RefusalWords, ...], Meta(min_length=1)]


#: Why a round was refused: by the diff gate, the reviewer, the tests, or people.
FoundFault = GateReport | ReviewReport | TestReport | RevisionOrder


class VoidVote(Document):
    """A vote on the candidate that a repair took the place of: it says nothing about the next one."""

    request_id: RequestId
    person: PersonName
    colour: VoteColour
    at: str
    rationale: str
    evidence: tuple[str, ...]
