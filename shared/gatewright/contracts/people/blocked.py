"""What a role or an agent writes when it cannot tell how to go on (OmegaOS, ``blocked``), and goes on by its best guess."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import Document, NonEmpty, Timestamp

#: Of one task, and of one run: what is more is not asked.
MOST_BLOCKED = 8


class Blocked(Document):
    """A question that a person or another role has to answer, and what is done meanwhile."""

    session: NonEmpty
    blocked_at: Timestamp
    question: NonEmpty
    best_guess: str
    fallback_action: str
    can_resume_without_answer: bool
    human_required_for: Literal["credential", "destructive op", "scope expansion"] | None = None


BlockedDocuments = Annotated[tuple[Blocked, ...], Meta(max_length=MOST_BLOCKED)]
