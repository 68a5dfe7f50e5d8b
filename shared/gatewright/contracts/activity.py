"""What is told of a task while it is being done: what it has used, that it is in hand, what its agent does and asks."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.vocabulary import (
    END,
    Artifact,
    Count,
    Document,
    NonEmpty,
    Positive,
    RunId,
    Timestamp,
    Usage,
    keep_one_spelling,
)

#: Artifacts that the last report of an interrupted delivery names.
MOST_LEFT = 16


class InterruptedWork(Document):
    """Why a delivery ended without an answer, and what it leaves behind: the records of its model calls, and more."""

    why: Literal["cancelled", "timed_out", "released", "failed"]
    artifacts: Annotated[tuple[Artifact, ...], Meta(max_length=MOST_LEFT)]


class UsageReport(Document):
    """What a task has used up so far, told while it is being done, so that its run can be stopped in time.

    ``interrupted`` is set in the last report of a delivery that ends without an answer.
    """

    run_id: RunId
    task_id: NonEmpty
    usage: Usage
    interrupted: InterruptedWork | None = None


#: What an agent's activity can be about. ``text`` is a message that is still being said; ``usage`` is of the gateway's count.
ActivityKind = Literal["started", "text", "message", "command", "file_change", "permission", "usage", "problem"]
#: Those of which the newest alone counts: what an agent says and has used just now.
MOMENTARY: frozenset[ActivityKind] = frozenset({"text", "usage"})
#: How a process calls itself when operators ask which there are.
ProcessId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{1,64}}{END}")]
#: Seconds of the longest beat.
LONGEST_BEAT = 86_400


class StatusClaim(Document):
    """A task is in hand: said every beat by the role that has it. Stored nowhere; ``since`` is by the clock of who says it.

    ``beat`` counts the claims of this delivery from 0. ``quiet_seconds``: since the work last showed a step or an activity.
    ``process``: which one of the role's processes says so, in its own word; an older one does not.
    """

    run_id: RunId
    task_id: Annotated[str, Meta(min_length=1, max_length=1024)]
    role: Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
    delivery: Positive
    beat: Count
    beat_seconds: Annotated[int, Meta(ge=1, le=LONGEST_BEAT)]
    since: Timestamp
    phase: Literal["working", "waiting"]
    quiet_seconds: Count
    activity: ActivityKind | None = None
    process: ProcessId | None = None


class AgentActivity(Document):
    """What an agent says it does, told while it works for those who look on. Stored nowhere; the bundle has its transcript."""

    run_id: RunId
    task_id: NonEmpty
    event: ActivityKind
    text: Annotated[str, Meta(max_length=2000)]


QuestionId = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{32}}{END}")]


class AgentQuestion(Document):
    """An agent asks leave for a command: its requester, or the people of a rule; the agent's events hold it.

    ``delivery``: how often its task had been delivered; a question of an earlier delivery than the latest that asks is over.
    """

    question_id: QuestionId
    run_id: RunId
    task_id: NonEmpty
    agent: Annotated[str, Meta(min_length=1, max_length=64)]
    subject: Annotated[str, Meta(max_length=2000)]
    seconds: Annotated[float, Meta(gt=0, le=3600)]
    delivery: Positive = 1

    def __post_init__(self) -> None:
        keep_one_spelling(self, "seconds")


class AgentAnswer(Document):
    """What a person answered: this once, or not. Which publisher says so, the subject tells."""

    question_id: QuestionId
    run_id: RunId
    task_id: NonEmpty
    allow: bool
    answered_by: Annotated[str, Meta(max_length=200)] = ""


LeaveStanding = Literal["pending", "allowed", "refused"]
LeaveStatus = Literal["pending", "approved", "rejected", "expired", "withdrawn"]


class AgentLeave(Document):
    """How a question stands that people of a rule are asked: the agent waits, may, or may not. ``status``: of its request."""

    question_id: QuestionId
    run_id: RunId
    task_id: NonEmpty
    standing: LeaveStanding
    status: LeaveStatus
    request_id: NonEmpty
    person: Annotated[str, Meta(max_length=200)] = ""
