"""Summonses: read-only questions to a role about an open run. The answer is evidence beside it, and satisfies no gate."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.consultation import Consultation
from gatewright.contracts.proposals import Observation, Words
from gatewright.contracts.transfers import TransferLeave
from gatewright.contracts.vocabulary import (
    END,
    Artifact,
    Budget,
    Document,
    NonEmpty,
    RunId,
    Seconds,
    Timestamp,
    keep_one_spelling,
)

#: The roles that ask models, and change nothing.
SummonsRole = Literal["pm", "techlead", "reviewer"]
SummonsKind = Literal["review", "qa", "critique", "research", "plan"]
Confidence = Literal["low", "medium", "high"]
#: Of one run, whatever the policy says.
MOST_SUMMONSES = 8
#: Characters that say why there is no answer.
MOST_WORDS = 4000
_Line = Annotated[str, Meta(min_length=1, max_length=500)]
_Constraints = Annotated[tuple[_Line, ...], Meta(max_length=10)]
_Key = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{8,64}}{END}")]


class SummonsItem(Document):
    """One question to one role. ``constraints`` are what the answer is to keep to, in the words of who asks."""

    role: SummonsRole
    question: Words
    kind: SummonsKind = "critique"
    constraints: _Constraints = ()

    def __post_init__(self) -> None:
        keep_one_spelling(self, "kind")


class SummonsRequest(Document):
    """Ask roles about a run, all of ``questions`` or none; without any: only what was asked and answered so far.

    ``key`` is the same when the same is asked again because no answer came. ``requested_by`` is a claim.
    """

    run_id: RunId
    questions: Annotated[tuple[SummonsItem, ...], Meta(max_length=MOST_SUMMONSES)] = ()
    key: _Key | None = None
    requested_by: Annotated[str, Meta(max_length=200)] = ""


class SummonsTask(Document):
    """What a role is given. ``brief`` is the gatekeeper's own account of the run, ``evidence`` what may be read besides.

    ``publisher`` is who asked, as the bus knew it. ``transfer``: what the role may send to providers of models.
    """

    run_id: RunId
    task_id: NonEmpty
    item: SummonsItem
    brief: Annotated[str, Meta(max_length=20_000)]
    evidence: Annotated[tuple[Artifact, ...], Meta(max_length=8)]
    timeout_sec: Seconds
    publisher: NonEmpty
    requested_by: Annotated[str, Meta(max_length=200)] = ""
    budget: Budget | None = None
    transfer: TransferLeave | None = None

    def __post_init__(self) -> None:
        keep_one_spelling(self, "timeout_sec")


class SummonsOpinion(Document):
    """What a role's model answers. ``evidence``: places that it rests on; a line is that of the candidate's file."""

    directive_ack: NonEmpty
    answer: Annotated[str, Meta(min_length=1, max_length=16_000)]
    confidence: Confidence
    evidence: Annotated[tuple[Observation, ...], Meta(max_length=50)] = ()
    open_questions: Annotated[tuple[Words, ...], Meta(max_length=20)] = ()


class SummonsAnswer(Document):
    """What became of a summons: the role's words, or the ``code`` and ``message`` why there are none."""

    run_id: RunId
    task_id: NonEmpty
    role: SummonsRole
    status: Literal["ANSWERED", "NOT_ANSWERED"]
    code: NonEmpty
    answered_at: Timestamp
    agent_id: Annotated[str, Meta(max_length=200)] = ""
    message: Annotated[str, Meta(max_length=MOST_WORDS)] = ""
    answer: Annotated[str, Meta(max_length=16_000)] = ""
    confidence: Confidence | None = None
    evidence: Annotated[tuple[Observation, ...], Meta(max_length=50)] = ()
    open_questions: Annotated[tuple[Words, ...], Meta(max_length=20)] = ()
    consultation: Consultation | None = None


class SummonsStanding(Document):
    """A summons, and the answer once there is one; ``asked_at`` is when the ledger has it."""

    task: SummonsTask
    asked_at: Timestamp
    answer: SummonsAnswer | None = None


class SummonsList(Document):
    """The summonses of a run, the oldest first. ``asked``: those of this request; ``left``: how many it may still have."""

    run_id: RunId
    summonses: tuple[SummonsStanding, ...]
    asked: tuple[NonEmpty, ...]
    left: Annotated[int, Meta(ge=0, le=MOST_SUMMONSES)]
