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
    """What one person found: a red vote with its scope and evidence, or the comment of a rejection."""

    person: PersonName
    """The person who refused."""
    request_id: RequestId
    """The request that this answers."""
    words: _Words
    """The finding, in words."""
    scope: tuple[NonEmpty, ...] = ()
    """What the person looked at."""
    evidence: tuple[Anchor, ...] = ()
    """Where that can be seen in the run."""


class RevisionOrder(Document):
    """What people found in a change that they refused, as the maker of the change receives it. It widens nothing."""

    run_id: RunId
    attempt: Attempt
    """The round that was refused."""
    reason: Literal["review_rejected", "approval_rejected"]
    """Stable reason code: refused by votes, or by a rejection with a comment."""
    candidate_tree: str
    """The tree that the round produced."""
    objective: NonEmpty
    """The repair in one line."""
    findings: Annotated[tuple[RefusalWords, ...], Meta(min_length=1)]
    """What was found, and who found it."""


#: Why a round was refused: by the diff gate, the reviewer, the tests, or people.
FoundFault = GateReport | ReviewReport | TestReport | RevisionOrder


class VoidVote(Document):
    """A vote on the candidate that a repair has replaced. It does not count for the next one."""

    request_id: RequestId
    """The request that was voted on."""
    person: PersonName
    """The person who voted."""
    colour: VoteColour
    """Colour of the vote."""
    at: str
    """When the vote was recorded."""
    rationale: str
    """The reasons, in the words of the person."""
    evidence: tuple[str, ...]
    """What the vote points at."""
