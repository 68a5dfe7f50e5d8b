"""The table of streams, subjects and durable consumers, from which everything else about the bus is derived.

``permissions.py`` defines who may use which of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from gatewright.bus.subjects import MAX_MESSAGE_BYTES, matches
from gatewright.contracts.vocabulary import Priority
from gatewright.errors import MalformedError

DEFAULT_POOL = "default"
#: The publisher whose identity has no name.
DEFAULT_PUBLISHER = "default"
#: The publisher of operators, such as the command line beside a local stack. No other identity may use it.
OPERATOR_PUBLISHER = "operator"
LOCK_BUCKET = "gw-locks"
#: The stream in which JetStream keeps the bucket.
LOCK_STREAM = f"KV_{LOCK_BUCKET}"

Role = Literal["pm", "techlead", "worker", "reviewer", "testrunner", "gatekeeper"]
ROLES: tuple[Role, ...] = ("pm", "techlead", "worker", "reviewer", "testrunner", "gatekeeper")
#: The roles that take tasks; the gatekeeper gives them.
TASK_ROLES: tuple[Role, ...] = ("pm", "techlead", "worker", "reviewer", "testrunner")
#: Priority classes of tasks, the most urgent first: what a free worker takes is looked for in this order.
TASK_CLASSES: tuple[Priority, ...] = ("high", "normal", "low")
DEFAULT_CLASS: Priority = "normal"

SUBMIT_SUBJECT = "gw.submit"
STATUS_SUBJECT = "gw.status"
EVENTS_SUBJECT = "gw.events"
RUNS_SUBJECT = "gw.runs"
BUNDLE_SUBJECT = "gw.bundle"
#: Returns a summary of a run, written for models.
CONTEXT_SUBJECT = "gw.context"
#: Starts consultations of roles about open runs, and returns their answers.
SUMMON_SUBJECT = "gw.summon"
#: Returns the merge queues.
MERGE_SUBJECT = "gw.merge"
#: The puller prepares environments here.
ENVIRONMENT_SUBJECT = "gw.environment"
#: Operators hold, resume and change merge queues here. It is no subject below ``gw.merge``: each of those is a publisher's.
MERGE_ACT_SUBJECT = "gw.merge-act"
#: Approvers list pending approvals here, and send decisions.
APPROVALS_SUBJECT = "gw.approvals"
DECIDE_SUBJECT = "gw.decide"
APPROVER_SUBJECTS = (APPROVALS_SUBJECT, DECIDE_SUBJECT)
#: Workers forward agents' permission requests here, if a rule names people for them.
LEAVE_SUBJECT = "gw.leave"
#: Subjects on which the gatekeeper answers requests about runs.
QUESTION_SUBJECTS = (
    *(STATUS_SUBJECT, EVENTS_SUBJECT, RUNS_SUBJECT, BUNDLE_SUBJECT, CONTEXT_SUBJECT, SUMMON_SUBJECT),
    MERGE_SUBJECT,
)
#: Every subject on which the gatekeeper answers requests.
SERVICE_SUBJECTS = (SUBMIT_SUBJECT, *QUESTION_SUBJECTS, *APPROVER_SUBJECTS, LEAVE_SUBJECT, MERGE_ACT_SUBJECT)
REQUEST_SUBJECT = "gw.intake.request"
CONTRACT_SUBJECT = "gw.intake.contract"
ABORT_SUBJECT = "gw.intake.abort"
#: Broadcast by the gatekeeper when a run is aborted: the roles that work for it stop.
CANCEL_SUBJECT = "gw.cancel"
#: Live reports by workers of what an agent claims to do, for spectators. Not stored, and not evidence.
LIVE_SUBJECT = "gw.live.*"
#: Periodic claims by each role of every task that it handles, for the gatekeepers. Not stored, and not evidence.
CLAIM_SUBJECT = "gw.claim.*"
#: Workers forward agents' permission requests to the run's publisher, and that publisher answers; each publisher has a
#: subject of its own. Not stored: the agent's events in the bundle hold request and answer.
QUESTION_SUBJECT = "gw.question.*"
ANSWER_SUBJECT = "gw.answer.*"
#: The server's report of a task that reached its last delivery unsettled. Kept only if a stream stores it.
EXHAUSTED_SUBJECT = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.TASKS.>"
#: The server's copy of each stored ledger message, for watchers: one subject per run.
WATCH_SUBJECT = "gw.watch.*"


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream. ``max_message_bytes`` bounds one message; ``dedupe_seconds`` is the window of ``Nats-Msg-Id``.

    A work queue removes a message when it is settled; ``append_only`` forbids removal of single messages. ``max_messages``,
    ``max_per_subject`` and ``max_bytes`` bound the stream (-1: as the operator has set it); a full stream refuses and drops
    nothing. The server reserves ``max_bytes``; if it has less, the stream is made smaller, down to ``least_bytes``.
    ``repeated``: the subject under which the server republishes stored messages, with ``{{wildcard(1)}}`` for the last
    token. ``direct``: messages can be read by a call that names their subject, for which permissions exist.
    ``keep_seconds``: the age after which a message expires (0: never).
    """

    name: str
    subjects: tuple[str, ...]
    retention: Literal["workqueue", "limits"]
    description: str
    append_only: bool = False
    max_message_bytes: int = MAX_MESSAGE_BYTES
    dedupe_seconds: float = 120.0
    max_messages: int = -1
    max_per_subject: int = -1
    max_bytes: int = -1
    least_bytes: int = -1
    repeated: str = ""
    direct: bool = False
    keep_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Consumer:
    """A shared durable pull consumer. ``ack_wait`` in seconds; ``max_deliver`` -1 means without end."""

    stream: str
    durable: str
    subject: str
    owner: Role
    ack_wait: float = 6.0
    max_deliver: int = 6
    max_ack_pending: int = 1000


def handled_deliveries(max_deliver: int) -> float:
    """Return how many deliveries of a task are worked on.

    The last delivery is held back and refused unseen. Otherwise a task that kills its process every time would stay in the
    queue for ever, and its run would never end.
    """
    return float("inf") if max_deliver < 1 else max(1, max_deliver - 1)


#: The shortest window that the server takes.
SHORTEST_DEDUPE = 0.1

#: A subject is written once, for good, which is all that idempotence needs: the window of message ids is as short as can be, so
#: that no writer can have another's message taken for a repetition.
ARTIFACTS = StreamSpec(
    "ARTIFACTS",
    ("gw.artifact.*.*.*",),
    "limits",
    "artifacts in pieces, by writer and sha256",
    append_only=True,
    dedupe_seconds=SHORTEST_DEDUPE,
    max_per_subject=1,
    direct=True,
)

_INTAKE = "INTAKE"


def intake_stream(publisher: str) -> StreamSpec:
    """Return the intake stream of one publisher; separate streams keep a full one from blocking other publishers.

    ``*`` stands for any publisher with a name. The publisher without a name has the stream ``INTAKE``.
    """
    plain = publisher == DEFAULT_PUBLISHER
    return StreamSpec(
        _INTAKE if plain else f"{_INTAKE}_{publisher}",
        ("gw.intake.*" if plain else f"gw.intake.*.{publisher}",),
        "workqueue",
        "requests, contracts and aborts of a publisher",
        # The ledger detects duplicates, however late they arrive.
        dedupe_seconds=SHORTEST_DEDUPE,
        max_messages=100_000,
        max_per_subject=10_000,
        max_bytes=256 << 20,
        least_bytes=16 << 20,
    )


def intake_publisher(stream: str) -> str | None:
    """Return the publisher whose intake this stream is; None for other streams."""
    if stream == _INTAKE:
        return DEFAULT_PUBLISHER
    return stream.removeprefix(f"{_INTAKE}_") if stream.startswith(f"{_INTAKE}_") else None


#: The ledger: the name of its first stream, and the subjects of its runs as every party but the bus itself writes them.
LEDGER = "RUNS"
#: Maximum number of streams of one ledger.
MOST_PARTITIONS = 64


def ledger_stream(partition: int = 0, partitions: int = 1) -> StreamSpec:
    """Return one stream of the ledger; its subjects contain the number of partitions, so that two numbers never mix.

    The subject for watchers contains only the run id, not the partition.
    """
    whole = partitions == 1
    return StreamSpec(
        LEDGER if partition == 0 else f"{LEDGER}_{partition}",
        ("gw.run.*" if whole else f"gw.run.{partitions}.{partition}.*",),
        "limits",
        "the ledger: one message per transition of a run" + ("" if whole else f"; part {partition + 1} of {partitions}"),
        append_only=True,
        repeated="gw.watch.{{wildcard(1)}}",
    )


def is_of_ledger(stream: str) -> bool:
    """Return whether the stream holds the ledger or a part of it."""
    return stream == LEDGER or stream.startswith(f"{LEDGER}_")


#: The stream of the merge queues.
MERGE_QUEUES = "QUEUES"


def queue_subject(queue_id: str) -> str:
    """Return the subject of the events of a merge queue; ``*`` for all queues."""
    return f"gw.queue.{queue_id}"


STREAMS: tuple[StreamSpec, ...] = (
    intake_stream(DEFAULT_PUBLISHER),
    intake_stream(OPERATOR_PUBLISHER),
    StreamSpec("TASKS", ("gw.task.>",), "workqueue", "tasks, one subject per role, pool and class"),
    StreamSpec(
        "EXHAUSTED",
        (EXHAUSTED_SUBJECT,),
        "workqueue",
        "the server's reports of tasks that were delivered as often as may be, and never settled",
    ),
    StreamSpec(
        "RESULTS",
        ("gw.result.>",),
        "workqueue",
        "what the roles answer",
        max_messages=1_000_000,
        max_bytes=8 << 30,
        least_bytes=64 << 20,
    ),
    ledger_stream(),
    StreamSpec(
        MERGE_QUEUES,
        (queue_subject("*"),),
        "limits",
        "the merge queues: one message per step of a queue, one subject per queue",
        append_only=True,
    ),
    StreamSpec("DEAD", ("gw.dead.>",), "limits", "messages that could not be handled, with the reason"),
    ARTIFACTS,
)


def streams(partitions: int = 1) -> tuple[StreamSpec, ...]:
    """Return the streams of every system with this number of ledger partitions."""
    ledger = tuple(ledger_stream(number, partitions) for number in range(partitions))
    return tuple(part for stream in STREAMS for part in (ledger if stream.name == LEDGER else (stream,)))


#: Seconds that an upload is kept. The gatekeeper copies what a run refers to when it judges the run.
UPLOAD_SECONDS = 7 * 86_400.0
_UPLOADS = "UPLOADS_"


def upload_stream(publisher: str = "*") -> StreamSpec:
    """Return the upload stream of one publisher; separate streams keep a full one from blocking other publishers.

    ``*`` stands for any publisher.
    """
    return StreamSpec(
        f"{_UPLOADS}{publisher}",
        (f"gw.upload.{publisher}.*.*",),
        "limits",
        "what a publisher uploads, in pieces, by sha256",
        append_only=True,
        dedupe_seconds=SHORTEST_DEDUPE,
        # The server remembers every subject, however small its message.
        max_messages=100_000,
        max_per_subject=1,
        max_bytes=512 << 20,
        least_bytes=16 << 20,
        direct=True,
        keep_seconds=UPLOAD_SECONDS,
    )


def publisher_streams(publisher: str) -> tuple[StreamSpec, ...]:
    """Return the streams of this publisher, in addition to those of every system."""
    own = (intake_stream(publisher), upload_stream(publisher))
    return tuple(stream for stream in own if stream not in STREAMS)


def uploader_of(stream: str) -> str | None:
    """Return the publisher whose uploads this stream holds; None for other streams."""
    return stream.removeprefix(_UPLOADS) if stream.startswith(_UPLOADS) else None


#: Streams that several identities write to: the ids of their messages are no secret shared by all (``Credential.private_id``).
SHARED_STREAMS = frozenset({"RESULTS", "DEAD"})
#: Every stream of a system with an unpartitioned ledger, including that of the bucket.
STREAM_NAMES: tuple[str, ...] = (*(stream.name for stream in STREAMS), LOCK_STREAM)


def stream_names(partitions: int = 1) -> tuple[str, ...]:
    """Return the stream names of a system with this number of ledger partitions."""
    return (*(stream.name for stream in streams(partitions)), LOCK_STREAM)


def stream_of(subject: str) -> str:
    """The stream that keeps ``subject`` (or what a pattern covers); raises MalformedError when none does."""
    for stream in (*STREAMS, intake_stream("*")):
        if any(matches(kept, subject) for kept in stream.subjects):
            return stream.name.replace("*", subject.rpartition(".")[2])
    raise MalformedError(f"no stream keeps {subject!r}", code="bad_subject")


def task_subject(role: str, pool: str = DEFAULT_POOL, task_class: Priority = DEFAULT_CLASS) -> str:
    return f"gw.task.{role}.{pool}.{task_class}"


def task_queue(subject: str) -> str:
    """Return the subject of a task without its class, which all classes of one queue share."""
    return subject.rpartition(".")[0]


def live_subject(role: str) -> str:
    """Return the subject of a role's live reports, for spectators."""
    return f"gw.live.{role}"


def claim_subject(role: str) -> str:
    """Return the subject on which this role alone claims tasks."""
    return f"gw.claim.{role}"


def question_subject(publisher: str) -> str:
    """Return the subject on which a publisher receives its agents' permission requests."""
    return f"gw.question.{publisher}"


def answer_subject(publisher: str) -> str:
    """Return the subject on which this publisher alone answers them."""
    return f"gw.answer.{publisher}"


def result_subject(role: str) -> str:
    return f"gw.result.{role}"


def run_subject(run_id: str) -> str:
    return f"gw.run.{run_id}"


def artifact_subject(writer: str, digest: str, piece: int) -> str:
    """Return the subject of piece ``piece`` (0 is the first) of an artifact stored by ``writer``."""
    return f"gw.artifact.{writer}.{digest}.{piece}"


def artifact_use_subject(writer: str, digest: str, day: int) -> str:
    """Return the subject on which ``writer`` records, for a day since 1970, that it stored an artifact again."""
    return f"gw.artifact.{writer}.{digest}.used-{day}"


def upload_subject(publisher: str, digest: str, piece: int) -> str:
    """The same of what a publisher has uploaded."""
    return f"gw.upload.{publisher}.{digest}.{piece}"


#: The owner of dead-letter decisions, which are stored under the subject of this name.
DEAD_LETTER_DECIDER: Final = "operator"


def dead_subject(role: str) -> str:
    return f"gw.dead.{role}"


def task_consumer(role: Role, pool: str = DEFAULT_POOL, task_class: Priority = DEFAULT_CLASS) -> Consumer:
    """The queue of one class of one role's pool, shared by all its processes."""
    return Consumer("TASKS", f"{role}-{pool}-{task_class}", task_subject(role, pool, task_class), role)


def task_consumers(role: Role, pool: str = DEFAULT_POOL) -> tuple[Consumer, ...]:
    """The queues of one role's pool, the most urgent class first."""
    return tuple(task_consumer(role, pool, task_class) for task_class in TASK_CLASSES)


def intake_consumer(publisher: str) -> Consumer:
    """The queue of what a publisher leaves.

    The gatekeeper gives a message back for as long as the publisher's limits or a bus that is away want it: without end.
    """
    stream = intake_stream(publisher)
    plain = publisher == DEFAULT_PUBLISHER
    # The stream of the publisher without a name may still hold messages of others from before the streams were split.
    subject = "gw.intake.>" if plain else stream.subjects[0]
    durable = "gatekeeper-intake" if plain else f"gatekeeper-intake-{publisher}"
    return Consumer(stream.name, durable, subject, "gatekeeper", ack_wait=6.0, max_deliver=-1)


INTAKE_CONSUMER = intake_consumer(DEFAULT_PUBLISHER)
OPERATOR_INTAKE_CONSUMER = intake_consumer(OPERATOR_PUBLISHER)
RESULT_CONSUMER = Consumer("RESULTS", "gatekeeper-results", "gw.result.>", "gatekeeper", ack_wait=6.0, max_deliver=-1)
EXHAUSTED_CONSUMER = Consumer(
    "EXHAUSTED", "gatekeeper-exhausted", EXHAUSTED_SUBJECT, "gatekeeper", ack_wait=6.0, max_deliver=-1
)


def intake_consumers(publishers: Iterable[str]) -> tuple[Consumer, ...]:
    """Return the intake queues of these publishers, in addition to those of every system."""
    known = (INTAKE_CONSUMER, OPERATOR_INTAKE_CONSUMER)
    return tuple(queue for publisher in publishers if (queue := intake_consumer(publisher)) not in known)


def consumers(pools: tuple[str, ...] = (DEFAULT_POOL,), publishers: Iterable[str] = ()) -> tuple[Consumer, ...]:
    """Return every durable consumer of a system with these pools, and these publishers besides the standing ones."""
    tasks = (queue for role in TASK_ROLES for pool in pools for queue in task_consumers(role, pool))
    own = (INTAKE_CONSUMER, OPERATOR_INTAKE_CONSUMER, RESULT_CONSUMER, EXHAUSTED_CONSUMER)
    return (*own, *intake_consumers(publishers), *tasks)
