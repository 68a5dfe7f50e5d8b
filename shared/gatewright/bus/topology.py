"""The one table of streams, subjects, durable consumers and permissions. Everything else about the bus is derived from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gatewright.bus.subjects import MAX_MESSAGE_BYTES, matches
from gatewright.errors import MalformedError

DEFAULT_POOL = "default"
ARTIFACT_BUCKET = "gw-artifacts"
LOCK_BUCKET = "gw-locks"
#: The streams in which JetStream keeps the buckets.
ARTIFACT_STREAM = f"OBJ_{ARTIFACT_BUCKET}"
LOCK_STREAM = f"KV_{LOCK_BUCKET}"

Role = Literal["pm", "techlead", "worker", "reviewer", "testrunner", "gatekeeper"]
ROLES: tuple[Role, ...] = ("pm", "techlead", "worker", "reviewer", "testrunner", "gatekeeper")
#: The roles that take tasks; the gatekeeper gives them.
TASK_ROLES: tuple[Role, ...] = ("pm", "techlead", "worker", "reviewer", "testrunner")

SUBMIT_SUBJECT = "gw.submit"
REQUEST_SUBJECT = "gw.intake.request"
CONTRACT_SUBJECT = "gw.intake.contract"
ABORT_SUBJECT = "gw.intake.abort"
#: Broadcast by the gatekeeper when a run is aborted: whoever works for it stops.
CANCEL_SUBJECT = "gw.cancel"


@dataclass(frozen=True, slots=True)
class Stream:
    """``max_message_bytes`` bounds one message; ``dedupe_seconds`` is the window of ``Nats-Msg-Id``.

    From a work queue a message goes when it is settled; ``append_only``: no single message can be taken out.
    """

    name: str
    subjects: tuple[str, ...]
    retention: Literal["workqueue", "limits"]
    description: str
    append_only: bool = False
    max_message_bytes: int = MAX_MESSAGE_BYTES
    dedupe_seconds: float = 120.0


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


STREAMS: tuple[Stream, ...] = (
    Stream("INTAKE", ("gw.intake.>",), "workqueue", "requests, contracts and aborts from outside"),
    Stream("TASKS", ("gw.task.>",), "workqueue", "tasks, one subject per role and pool"),
    Stream("RESULTS", ("gw.result.>",), "workqueue", "what the roles answer"),
    Stream("RUNS", ("gw.run.*",), "limits", "the ledger: one message per transition of a run", append_only=True),
    Stream("DEAD", ("gw.dead.>",), "limits", "messages that could not be handled, with the reason"),
)


def stream_of(subject: str) -> str:
    """The stream that keeps ``subject`` (or what a pattern covers); raises MalformedError when none does."""
    for stream in STREAMS:
        if any(matches(kept, subject) for kept in stream.subjects):
            return stream.name
    raise MalformedError(f"no stream keeps {subject!r}", code="bad_subject")


def task_subject(role: str, pool: str = DEFAULT_POOL) -> str:
    return f"gw.task.{role}.{pool}"


def result_subject(role: str) -> str:
    return f"gw.result.{role}"


def run_subject(run_id: str) -> str:
    return f"gw.run.{run_id}"


def dead_subject(role: str) -> str:
    return f"gw.dead.{role}"


def task_consumer(role: Role, pool: str = DEFAULT_POOL) -> Consumer:
    """The queue of one role's pool, shared by all its processes."""
    return Consumer("TASKS", f"{role}-{pool}", task_subject(role, pool), role)


#: The gatekeeper waits for locks by giving a message back, so its queues deliver without end.
INTAKE_CONSUMER = Consumer("INTAKE", "gatekeeper-intake", "gw.intake.>", "gatekeeper", ack_wait=6.0, max_deliver=-1)
RESULT_CONSUMER = Consumer("RESULTS", "gatekeeper-results", "gw.result.>", "gatekeeper", ack_wait=6.0, max_deliver=-1)


def consumers(pools: tuple[str, ...] = (DEFAULT_POOL,)) -> tuple[Consumer, ...]:
    """Every durable consumer of a system whose roles have these pools."""
    return (INTAKE_CONSUMER, RESULT_CONSUMER, *(task_consumer(role, pool) for role in TASK_ROLES for pool in pools))


@dataclass(frozen=True, slots=True)
class Permissions:
    """What a credential may do on the bus, besides its own inbox and the JetStream calls of its consumers."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def permissions(role: Role) -> Permissions:
    """Who may dispatch to whom, as subjects: only the gatekeeper gives tasks and writes the ledger."""
    if role == "gatekeeper":
        return Permissions(
            ("gw.task.>", "gw.run.*", CANCEL_SUBJECT, dead_subject(role)), ("gw.intake.>", "gw.result.>", SUBMIT_SUBJECT)
        )
    return Permissions((result_subject(role), dead_subject(role)), (f"gw.task.{role}.>", CANCEL_SUBJECT))


PUBLISHER = Permissions(("gw.intake.>", SUBMIT_SUBJECT), ("gw.run.*",))
