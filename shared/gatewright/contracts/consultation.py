"""What a role asked a model, what came of it, and what it could not tell: the record that stands in the role's own document.

A model's answer is a proposal: what the role made of it is in the document, what it took away is in ``clamped``.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import (
    END,
    Artifact,
    Count,
    Document,
    NonEmpty,
    Positive,
    Sha256,
    Timestamp,
    keep_one_spelling,
)

#: Blocks that one task may bring, and that people are asked about in one run.
MOST_BLOCKED: Final = 8
#: Questions of one result that no person was asked, and characters of what is reported of each.
MOST_REFUSED: Final = 128
MOST_REFUSED_WORDS: Final = 600


class Blocked(Document):
    """What a task or a run could not tell, its guess, and what is done meanwhile (OmegaOS, ``blocked``)."""

    session: NonEmpty
    blocked_at: Timestamp
    question: NonEmpty
    best_guess: str
    fallback_action: str
    can_resume_without_answer: bool
    human_required_for: Literal["credential", "destructive op", "scope expansion"] | None = None


class Clamp(Document):
    """Something proposed that was not taken as it was. ``granted`` is empty where nothing of it was."""

    field: NonEmpty
    proposed: str
    granted: str
    reason: NonEmpty


class RefusedQuestion(Document):
    """A question that no person was asked. ``code`` is the reason; ``message`` is what was refused, and why."""

    code: Annotated[str, Meta(pattern=rf"^[a-z][a-z0-9_]{{0,63}}{END}")]
    message: Annotated[str, Meta(max_length=MOST_REFUSED_WORDS)]


class Consultation(Document):
    """``model`` is the name that was asked for; ``answer_schema`` the schema that the answer had to have.

    ``prompts`` are the digests of what the prompt was made of, and of the prompt itself. ``directive`` is the marker that the
    answer had to repeat. ``asked``: how often the model was asked until an answer could be used. ``blocked``: what it could
    not tell, and has guessed. ``unpriced``: ``cost_usd`` leaves out what a model without a known price cost; ``incomplete``: a
    reply was cut off or never came, so that this is the least that was used.
    """

    model: NonEmpty
    answer_schema: NonEmpty
    answer_schema_sha256: Sha256
    prompts: dict[str, Sha256]
    directive: NonEmpty
    asked: Positive
    tokens: Count
    cost_usd: Annotated[float, Meta(ge=0, le=1e9)]
    artifacts: tuple[Artifact, ...]
    clamped: tuple[Clamp, ...] = ()
    blocked: Annotated[tuple[Blocked, ...], Meta(max_length=MOST_BLOCKED)] = ()
    unpriced: bool = False
    incomplete: bool = False

    def __post_init__(self) -> None:
        keep_one_spelling(self, "cost_usd")
