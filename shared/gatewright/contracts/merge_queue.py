"""Merge queues as people and programs see them (``gw.merge``), and actions of operators on them (``gw.merge.act``)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.people.approvals import PersonName, SignedDecision
from gatewright.contracts.vocabulary import (
    END,
    Count,
    Document,
    NonEmpty,
    ObjectId,
    Positive,
    Priority,
    RunId,
    Timestamp,
    keep_one_spelling,
)

#: State of a position: to be composed, composed but not tested, under test, tested, or being pushed.
PositionState = Literal["composing", "waiting", "testing", "passed", "failed", "landing"]
MergeActionKind = Literal["hold", "resume", "dequeue", "move"]
QueueId = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{20}}{END}")]
"""Id of the queue of one branch of one repository."""
_Ahead = Annotated[str, Meta(max_length=64)]
_Reason = Annotated[str, Meta(max_length=2000)]


class MergeQueuesRequest(Document):
    """Asks for the merge queues that the sender may see. The answer is a ``merge_queues.v1``, or an ``error.v1``."""

    repository: Annotated[str, Meta(max_length=4096)] = ""
    """Only queues of this repository, as its queue names it."""
    branch: Annotated[str, Meta(max_length=1024)] = ""
    """Only queues of branches of this name."""
    queue_id: QueueId | None = None
    """Only this queue."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "repository", "branch")


class MergeHold(Document):
    """Why a queue is held: it composes, tests and lands nothing until an operator resumes it."""

    reason: NonEmpty
    """The stable code of the reason."""
    detail: str = ""
    """What happened, for people."""
    by: str = ""
    """Who held it. A claim, unless the queue requires signatures; left out for an automatic hold."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "detail", "by")


class MergePosition(Document):
    """A candidate position under way: its runs, on top of the positions ahead."""

    number: Positive
    """Number of the position in its queue."""
    runs: tuple[RunId, ...]
    """Its runs, in landing order, without runs that the sender may not see."""
    state: PositionState
    """Its current state."""
    others: Count = 0
    """How many of its runs the sender may not see."""
    tree: ObjectId | None = None
    """Its tree, once it is composed."""
    since: Timestamp | None = None
    """When its test was requested; left out while none is under way."""


class MergeEntry(Document):
    """A run that waits to land."""

    run_id: RunId
    title: Annotated[str, Meta(max_length=400)]
    """Beginning of its request."""
    publisher: NonEmpty
    """The identity that submitted it."""
    lane: Priority
    """The lane that the policy permits it."""
    enqueued_at: Timestamp
    """When it entered the queue."""
    place: Positive
    """Its place in landing order, from 1."""
    changed_paths: Count
    """How many paths it changes."""
    position: Count = 0
    """Number of the position that holds it; 0 while none does."""
    overtaken: Count = 0
    """How many later entries were placed or landed before it."""
    requeues: Count = 0
    """How often its change was queued before."""


class MergeEnding(Document):
    """How a run left its queue."""

    run_id: RunId
    outcome: NonEmpty
    """landed, or the stable code of the reason why it left."""


class MergeQueueView(Document):
    """The merge queue of one branch."""

    queue_id: QueueId
    repository: NonEmpty
    """The repository."""
    branch: NonEmpty
    """The branch that it lands on."""
    base: ObjectId
    """The commit of the branch."""
    window: Positive
    """Maximum number of positions under way."""
    length: Count
    """Number of its entries, with those that the sender may not see."""
    positions: tuple[MergePosition, ...]
    """Positions under way, in landing order."""
    entries: tuple[MergeEntry, ...]
    """Entries that the sender may see, in landing order."""
    endings: tuple[MergeEnding, ...] = ()
    """The last runs that landed or left, the newest first."""
    held: MergeHold | None = None
    """Why it is held; left out while it is not."""
    actions: Count = 0
    """Number of operators' actions on it so far. The next signed action has the next number."""
    signed_actions: bool = False
    """Whether its policy requires a signature for an operator's action."""


class MergeQueues(Document):
    """The merge queues that the sender may see. The answer to a ``merge_queues_request.v1``."""

    queues: tuple[MergeQueueView, ...]
    """The queues, by repository and branch."""


class MergeAction(Document):
    """An operator's action on a queue: hold or resume it, take a run out of it, or move a run within it.

    The answer is a ``merge_action_reply.v1``, or an ``error.v1``.
    """

    action: MergeActionKind
    """What to do."""
    requested_by: NonEmpty
    """Who requests it. A claim, for the record; the signer of a signed action replaces it."""
    queue_id: QueueId | None = None
    """The queue. Not required where repository, branch or run identify it."""
    repository: Annotated[str, Meta(max_length=4096)] = ""
    """The repository, as its queue names it."""
    branch: Annotated[str, Meta(max_length=1024)] = ""
    """The branch that the queue lands on."""
    run_id: RunId | None = None
    """The run to take out, or to move."""
    ahead_of: _Ahead = ""
    """The run that it is moved before; empty for the end of the queue."""
    reason: _Reason = ""
    """The reason, for people. The queue keeps it."""
    signed: SignedDecision | None = None
    """The same action as a signed ``merge_instruction.v1``. Required where the policy of the queue names signers."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "repository", "branch", "ahead_of", "reason")


class MergeInstruction(Document):
    """An operator's action on a queue, as a person signs it: the signature covers its canonical JSON.

    It applies once, to one queue. The queue keeps it with its signature.
    """

    queue_id: QueueId
    """The queue."""
    number: Positive
    """Number of the action in its queue: one more than ``actions`` of the queue's view."""
    action: MergeActionKind
    """What to do."""
    person: PersonName
    """The person who signs, by their name in the roster."""
    signed_at: Timestamp
    """When the person signed, by their own clock."""
    run_id: RunId | None = None
    """The run to take out, or to move."""
    ahead_of: _Ahead = ""
    """The run that it is moved before; empty for the end of the queue."""
    reason: _Reason = ""
    """The reason, for people."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "ahead_of", "reason")


class MergeActionReply(Document):
    """The queue after an operator's action."""

    queue: MergeQueueView
    """The queue after it."""
