"""Record of a role's model consultation in the role's own document: question, result, and open questions.

A model's answer is a proposal: the document has what the role accepted, and ``clamped`` what it rejected.
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
    """A question that a person has to answer, and what is done in the meantime (OmegaOS, ``blocked``)."""

    session: NonEmpty
    """The run or task that is blocked."""
    blocked_at: Timestamp
    """When the block began."""
    question: NonEmpty
    """The question that cannot be answered from what is known."""
    best_guess: str
    """The answer that the asking role assumes."""
    fallback_action: str
    """What is done in the meantime."""
    can_resume_without_answer: bool
    """Whether the work continues without an answer."""
    human_required_for: Literal["credential", "destructive op", "scope expansion"] | None = None
    """What only a person can give."""


class Clamp(Document):
    """A part of a model's proposal that the role did not take as proposed."""

    field: NonEmpty
    """The field that was clamped."""
    proposed: str
    """What the model proposed."""
    granted: str
    """What was taken instead; empty: nothing."""
    reason: NonEmpty
    """Stable reason code."""


class RefusedQuestion(Document):
    """A question that was put to no person, and the reason."""

    code: Annotated[str, Meta(pattern=rf"^[a-z][a-z0-9_]{{0,63}}{END}")]
    """The reason code."""
    message: Annotated[str, Meta(max_length=MOST_REFUSED_WORDS)]
    """What was refused, and why, without secrets."""


class Consultation(Document):
    """What a role asked a model, and what came of it."""

    model: NonEmpty
    """Name of the requested model."""
    answer_schema: NonEmpty
    """Name of the schema that the answer had to match."""
    answer_schema_sha256: Sha256
    """Digest of the schema file."""
    prompts: dict[str, Sha256]
    """Digests of the prompt and of what it was made of, by name."""
    directive: NonEmpty
    """The marker that the answer had to repeat."""
    asked: Positive
    """How often the model was asked until an answer was usable."""
    tokens: Count
    """Tokens of all these questions and answers together."""
    cost_usd: Annotated[float, Meta(ge=0, le=1e9)]
    """US dollars."""
    artifacts: tuple[Artifact, ...]
    """The prompt, the answers, the records of the calls, and what was proposed."""
    clamped: tuple[Clamp, ...] = ()
    """Parts of the proposal that were not taken as proposed."""
    blocked: Annotated[tuple[Blocked, ...], Meta(max_length=MOST_BLOCKED)] = ()
    """Questions that it could not answer, with its guesses."""
    unpriced: bool = False
    """Whether a model without a known price was asked. Its cost is missing from cost_usd."""
    incomplete: bool = False
    """Whether a reply was cut off or never came. tokens and cost_usd are then lower bounds."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "cost_usd")
