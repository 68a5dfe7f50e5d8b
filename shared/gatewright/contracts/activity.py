"""Live reports about a task in progress: its usage, its claim, and the activity and questions of its agent."""

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
    """Why a delivery ended without an answer, and what it left behind: the records of its model calls, and more."""

    why: Literal["cancelled", "timed_out", "released", "failed"]
    """What ended it: the end of its run, its time limit, the end of its process, or an error."""
    artifacts: Annotated[tuple[Artifact, ...], Meta(max_length=MOST_LEFT)]
    """What it left behind: the records of its model calls, the incomplete cassette, an agent's record."""


class UsageReport(Document):
    """What a task has used so far, reported while it runs.

    The gatekeeper adds it up and stops the run in time. A claim, like every report.
    """

    run_id: RunId
    task_id: NonEmpty
    """The task that is being done."""
    usage: Usage
    """All that this delivery of the task has used up since it began."""
    interrupted: InterruptedWork | None = None
    """Set in the last report of a delivery that ended without an answer."""


#: Kinds of agent activity. ``text`` is an unfinished message; ``usage`` comes from the gateway's count.
ActivityKind = Literal["started", "text", "message", "command", "tool_call", "file_change", "permission", "usage", "problem"]
#: Kinds of which only the newest report matters: current text and usage.
MOMENTARY: frozenset[ActivityKind] = frozenset({"text", "usage"})
#: How a process calls itself when operators ask which there are.
ProcessId = Annotated[str, Meta(pattern=rf"^[A-Za-z0-9_-]{{1,64}}{END}")]
#: Seconds of the longest beat.
LONGEST_BEAT = 86_400


class StatusClaim(Document):
    """A role's claim that it still works on a task, sent every beat.

    It is stored nowhere and is no evidence. Its times are from the clock of the process that sends it.
    """

    run_id: RunId
    task_id: Annotated[str, Meta(min_length=1, max_length=1024)]
    """The task that is being worked on."""
    role: Literal["pm", "techlead", "worker", "reviewer", "testrunner"]
    """The role that works on it."""
    delivery: Positive
    """How often the task has been delivered, this time included."""
    beat: Count
    """How many claims of this delivery came before this one. A process's older claim is ignored."""
    beat_seconds: Annotated[int, Meta(ge=1, le=LONGEST_BEAT)]
    """The beat that came with the task, in seconds."""
    since: Timestamp
    """When this delivery was taken, by the clock of the process that sends the claim."""
    phase: Literal["working", "waiting"]
    """waiting: this host or the bus has no capacity for the work now."""
    quiet_seconds: Count
    """Seconds since the work last showed a step or an activity."""
    activity: ActivityKind | None = None
    """The kind of activity that the agent of the task reported last, without its words."""
    process: ProcessId | None = None
    """The process of the role that sends the claim: the id under which it answers operators. A claim; an older process leaves
    it out."""
    window: Count | None = None
    """Number of whole beats since 1970-01-01 UTC by the clock of the sender; roles with one beat share their windows."""


class AgentActivity(Document):
    """What a coding agent reports that it does, for people who watch it work.

    It is stored nowhere and is no evidence; the bundle has the agent's transcript.
    """

    run_id: RunId
    task_id: NonEmpty
    """The task that the agent works on."""
    event: ActivityKind
    """Kind of the activity."""
    text: Annotated[str, Meta(max_length=2000)]
    """A text for people."""


QuestionId = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{32}}{END}")]


class AgentQuestion(Document):
    """A coding agent asks for permission to run a command, where the contract lets it ask its requester or the people of a
    rule. The agent's events in the bundle hold question and answer. A question of an earlier delivery than the latest one that
    asks is over."""

    question_id: QuestionId
    """Id that the worker made and that cannot be guessed. The answer repeats it."""
    run_id: RunId
    task_id: NonEmpty
    """The task that the agent works on."""
    agent: Annotated[str, Meta(min_length=1, max_length=64)]
    """The agent's name in the policy."""
    subject: Annotated[str, Meta(max_length=2000)]
    """What the agent wants to run, in its own words."""
    seconds: Annotated[float, Meta(gt=0, le=3600)]
    """Seconds after which the command is refused if no answer came."""
    delivery: Positive = 1
    """How often the task had been delivered. A question of an earlier delivery than the latest one that asks is over."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "seconds")


class AgentAnswer(Document):
    """What a person answered to an agent's question: this once, or not.

    The publisher that sends it, known from the subject, is the one that made the run.
    """

    question_id: QuestionId
    """Copied from the question."""
    run_id: RunId
    task_id: NonEmpty
    """Copied from the question."""
    allow: bool
    """Whether this command may run once."""
    answered_by: Annotated[str, Meta(max_length=200)] = ""
    """Who claims to have answered; it decides nothing."""


LeaveStanding = Literal["pending", "allowed", "refused"]
LeaveStatus = Literal["pending", "approved", "rejected", "expired", "withdrawn"]


class AgentLeave(Document):
    """The state of an agent's question that the people of a rule are asked: pending, allowed or refused.

    It is stored nowhere; the ledger has the request and the signed decision.
    """

    question_id: QuestionId
    """Copied from the question."""
    run_id: RunId
    task_id: NonEmpty
    """Copied from the question."""
    standing: LeaveStanding
    """The answer that the agent gets; pending: none yet."""
    status: LeaveStatus
    """The state of the request in the ledger."""
    request_id: NonEmpty
    """The request that people decide."""
    person: Annotated[str, Meta(max_length=200)] = ""
    """The person who decided, known by their key."""
