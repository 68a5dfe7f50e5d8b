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
    Positive,
    RunId,
    Seconds,
    Timestamp,
    keep_one_spelling,
)

#: The roles that ask models, and change nothing.
SummonsRole = Literal["pm", "techlead", "reviewer"]
SummonsKind = Literal["review", "qa", "critique", "research", "plan"]
Confidence = Literal["low", "medium", "high"]
#: Questions of the gatekeeper itself, whose answers have a form of their own.
AdviceKind = Literal["critic", "qa"]
Recommendation = Literal["proceed", "ask_person", "block"]
#: Maximum per run, even if the policy permits more.
MOST_SUMMONSES = 8
#: Maximum characters of the reason for a missing answer.
MOST_WORDS = 4000
_Line = Annotated[str, Meta(min_length=1, max_length=500)]
_Constraints = Annotated[tuple[_Line, ...], Meta(max_length=10)]
_Key = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{8,64}}{END}")]


class SummonsItem(Document):
    """One question to one role."""

    role: SummonsRole
    """The role that is asked."""
    question: Words
    """The question."""
    kind: SummonsKind = "critique"
    """Kind of the question."""
    constraints: _Constraints = ()
    """Constraints on the answer, in the words of the sender."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "kind")


class SummonsRequest(Document):
    """Asks roles read-only questions about an open run.

    Without questions, it requests the questions and answers so far.
    """

    run_id: RunId
    questions: Annotated[tuple[SummonsItem, ...], Meta(max_length=MOST_SUMMONSES)] = ()
    """The questions. All of them are asked, or none."""
    key: _Key | None = None
    """Key of the request. Sending the same key again asks nothing twice."""
    requested_by: Annotated[str, Meta(max_length=200)] = ""
    """Who asks. A claim."""


class SummonsTask(Document):
    """A read-only question to a role, with a brief of the run. The answer is evidence beside the run, and satisfies no gate."""

    run_id: RunId
    task_id: NonEmpty
    """Id of the task within the run."""
    item: SummonsItem
    """The question."""
    brief: Annotated[str, Meta(max_length=20_000)]
    """The gatekeeper's account of the run."""
    evidence: Annotated[tuple[Artifact, ...], Meta(max_length=8)]
    """What the role may read besides the brief."""
    timeout_sec: Seconds
    """Seconds that the role may take."""
    publisher: NonEmpty
    """The identity that asked, as the bus knew it."""
    requested_by: Annotated[str, Meta(max_length=200)] = ""
    """Who asks. A claim."""
    budget: Budget | None = None
    """What the answer may cost."""
    transfer: TransferLeave | None = None
    """What the role may send to providers of models."""
    advice: AdviceKind | None = None
    """The form of the answer to a question of the gatekeeper; left out: an opinion in words."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "timeout_sec")


class SummonsOpinion(Document):
    """What a role's model answers to a question about a run."""

    directive_ack: NonEmpty
    """The directive_ack marker of the question, repeated."""
    answer: Annotated[str, Meta(min_length=1, max_length=16_000)]
    """The answer in words."""
    confidence: Confidence
    """How sure the answer is."""
    evidence: Annotated[tuple[Observation, ...], Meta(max_length=50)] = ()
    """Places that the answer rests on."""
    open_questions: Annotated[tuple[Words, ...], Meta(max_length=20)] = ()
    """Open questions."""


class CriticFinding(Document):
    """A problem at a place in the change."""

    path: NonEmpty
    """A changed file."""
    severity: Confidence
    """How much harm it may do: low, medium or high."""
    message: Words
    """What is wrong."""
    line: Positive | None = None
    """A line of the candidate's file."""


CriticFindings = Annotated[tuple[CriticFinding, ...], Meta(max_length=50)]


class CriticOpinion(Document):
    """What the critic's model answers to doubts about a change. It approves nothing."""

    directive_ack: NonEmpty
    """The directive_ack marker of the question, repeated."""
    recommendation: Recommendation
    """block: a finding shows that it must not land. ask_person: a person must decide. proceed: the doubts are answered."""
    summary: Annotated[str, Meta(min_length=1, max_length=4000)]
    """The recommendation in one or two sentences."""
    findings: CriticFindings = ()
    """Problems, each at a changed file and one of its lines."""


class Critique(Document):
    """What a model critic recommends about a change, with its findings at places that the change has."""

    recommendation: Recommendation
    """What the model recommends."""
    findings: CriticFindings = ()
    """Problems, each at a place in the change."""


class SuggestedTest(Document):
    """A test file that a model suggests. It runs only when a person orders it, and never lands."""

    path: Annotated[str, Meta(min_length=1, max_length=300)]
    """Where the file would be, from the repository's root."""
    content: Annotated[str, Meta(min_length=1, max_length=20_000)]
    """The whole file."""


class MissedCase(Document):
    """A case that the tests of a change do not cover."""

    case: Annotated[str, Meta(min_length=1, max_length=2000)]
    """The input or behaviour, and what goes wrong unnoticed."""
    path: NonEmpty | None = None
    """The changed file that it is about."""
    line: Positive | None = None
    """A line of the candidate's file."""
    command: Annotated[str, Meta(min_length=1, max_length=1000)] | None = None
    """Words of an argv that would show it."""
    test: SuggestedTest | None = None
    """A test file that would show it."""


MissedCases = Annotated[tuple[MissedCase, ...], Meta(max_length=10)]


class QaOpinion(Document):
    """What the tester's model answers to a change that passed its tests. It runs and approves nothing."""

    directive_ack: NonEmpty
    """The directive_ack marker of the question, repeated."""
    summary: Annotated[str, Meta(min_length=1, max_length=4000)]
    """What the tests cover, and what they miss, in one or two sentences."""
    missed: MissedCases = ()
    """Cases that no test covers, the most important first."""


class SummonsAnswer(Document):
    """What came of a question to a role: the role's words, or the reason why there are none."""

    run_id: RunId
    task_id: NonEmpty
    """Id of the task within the run."""
    role: SummonsRole
    """The role that is asked."""
    status: Literal["ANSWERED", "NOT_ANSWERED"]
    """Whether there is an answer."""
    code: NonEmpty
    """ok, or the stable code of the reason why there is no answer."""
    answered_at: Timestamp
    """When the answer was recorded."""
    agent_id: Annotated[str, Meta(max_length=200)] = ""
    """The agent that answered, from the agent registry."""
    message: Annotated[str, Meta(max_length=MOST_WORDS)] = ""
    """The reason, for people."""
    answer: Annotated[str, Meta(max_length=16_000)] = ""
    """The answer, in words."""
    confidence: Confidence | None = None
    """How sure the answer is."""
    evidence: Annotated[tuple[Observation, ...], Meta(max_length=50)] = ()
    """Places that the answer rests on."""
    open_questions: Annotated[tuple[Words, ...], Meta(max_length=20)] = ()
    """Questions that the role could not answer."""
    consultation: Consultation | None = None
    """What the role asked its model."""
    critique: Critique | None = None
    """The recommendation of a critic."""
    missed: MissedCases = ()
    """Cases that a tester found missing in the tests."""


class SummonsStanding(Document):
    """A question to a role, and the answer once there is one."""

    task: SummonsTask
    """What the role was given."""
    asked_at: Timestamp
    """When the ledger recorded it."""
    answer: SummonsAnswer | None = None
    """The answer, or why there is none."""


class SummonsList(Document):
    """The questions about a run, and their answers."""

    run_id: RunId
    summonses: tuple[SummonsStanding, ...]
    """The questions with their answers, the oldest first."""
    asked: tuple[NonEmpty, ...]
    """Ids of the tasks that this request made."""
    left: Annotated[int, Meta(ge=0, le=MOST_SUMMONSES)]
    """How many questions the run may still have."""
