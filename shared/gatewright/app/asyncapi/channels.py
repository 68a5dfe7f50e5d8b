"""The channels: every address of the bus with the documents that cross it, and the replies.

Streams, queues and permissions are in the topology and not repeated here; a test checks that each of their subjects has a
channel, and each channel an identity that may use it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from gatewright.bus import topology as t
from gatewright.bus.identities import DEFAULT_PUBLISHER, OPERATOR_PUBLISHER
from gatewright.bus.permissions import publisher_subjects
from gatewright.contracts import SummonsAnswer, codec
from gatewright.tasks.protocol import ACCEPTS, ANSWERS, QUESTION, SUMMONED

#: Decides the headers of a message.
Kind = Literal["submission", "question", "reply", "task", "answer", "ledger", "notice", "claim", "piece", "dead", "foreign"]

_PARAMETER = re.compile(r"\{[a-z0-9_]+\}")  # noqa: TID251 - linear: one class, anchored by braces
_ERROR = "error.v1"


@dataclass(frozen=True, slots=True)
class Channel:
    """``payloads`` and ``answers`` are names of schemas, or of payloads without one (``foreign.py`` of this package).

    ``also``: the name that other systems use; there is no second address for it.
    """

    key: str
    address: str
    description: str
    kind: Kind
    payloads: tuple[str, ...]
    answers: tuple[str, ...] = ()
    also: str = ""

    @property
    def pattern(self) -> str:
        """The address as NATS writes it: with wildcards."""
        return _PARAMETER.sub("*", self.address)

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(name.strip("{}") for name in _PARAMETER.findall(self.address))


@dataclass(frozen=True, slots=True)
class _Service:
    """A subject on which publishers send."""

    kind: Kind
    description: str
    payloads: tuple[str, ...]
    answers: tuple[str, ...] = ()
    also: str = ""


_ORDERS = ("run_request.v1", "task_contract.v1", "cloud_event")
_SERVICES: dict[str, _Service] = {
    "submit": _Service(
        "submission", "Start a run. The reply contains its id.", _ORDERS, ("submit_reply.v1", _ERROR), "deliver.submit"
    ),
    "status": _Service("question", "State of a run.", ("status_request.v1",), ("run_status.v1", _ERROR)),
    "events": _Service("question", "Events of a run.", ("events_request.v1",), ("run_events.v1", _ERROR)),
    "runs": _Service("question", "List of runs.", ("runs_request.v1",), ("run_list.v1", _ERROR)),
    "summon": _Service(
        "question", "Questions to roles about an open run.", ("summons_request.v1",), ("summons_list.v1", _ERROR)
    ),
    "merge": _Service("question", "List of merge queues.", ("merge_queues_request.v1",), ("merge_queues.v1", _ERROR)),
    "bundle": _Service("question", "A sealed bundle, in parts.", ("bundle_request.v1",), ("bundle_part.v1", _ERROR)),
    "context": _Service(
        "question",
        "Summary of a run for models, or of earlier runs, flaky tests, or budgets.",
        ("context_request.v1", "memory_request.v1", "flaky_tests_request.v1", "budgets_request.v1"),
        ("run_context.v1", "canonical_memory.v1", "flaky_tests.v1", "budget_states.v1", _ERROR),
        "context.get",
    ),
    "environment": _Service("question", "Prepare environments.", ("environment_order.v1",), ("environment_result.v1", _ERROR)),
    "request": _Service("submission", "Submit a request without a reply.", ("run_request.v1", "cloud_event")),
    "contract": _Service("submission", "Submit a contract without a reply.", ("task_contract.v1", "cloud_event")),
    "abort": _Service("submission", "Abort a run.", ("abort_request.v1", "cloud_event")),
}


def publisher_channels(publisher: str = DEFAULT_PUBLISHER) -> tuple[Channel, ...]:
    """Return the channels of one publisher; ``{publisher}`` stands for any with a name."""
    return (
        *_services(publisher),
        Channel(
            "uploads",
            t.upload_subject(publisher, "{sha256}", 0).rpartition(".")[0] + ".{piece}",
            "Files too large for a document, in pieces. The sender writes piece 0 last.",
            "piece",
            ("bytes",),
        ),
        Channel("questions", t.question_subject(publisher), "Permission requests of agents.", "notice", ("agent_question.v1",)),
        Channel("answers", t.answer_subject(publisher), "Answers to permission requests.", "notice", ("agent_answer.v1",)),
    )


#: The channels of the identity ``approver``.
_APPROVERS = (
    Channel(
        "approvals",
        t.APPROVALS_SUBJECT,
        "Open requests for approval.",
        "question",
        ("approvals_request.v1",),
        ("approval_list.v1", _ERROR),
        "review.status",
    ),
    Channel(
        "decide",
        t.DECIDE_SUBJECT,
        "Signed decisions and grants.",
        "question",
        ("decision_batch.v1", "grant_change.v1"),
        ("decision_reply.v1", "approval_list.v1", _ERROR),
        "review.vote",
    ),
)

#: The channels of the identity ``operator`` alone.
_OPERATORS = (
    Channel(
        "merge-act",
        t.MERGE_ACT_SUBJECT,
        "Operators' actions on merge queues.",
        "question",
        ("merge_action.v1",),
        ("merge_action_reply.v1", _ERROR),
    ),
)


def system_channels(partitions: int = 1) -> tuple[Channel, ...]:
    """Return every address of the bus, with a ledger of so many streams."""
    named = {"uploads", "questions", "answers"}  # these end in the publisher's name for all publishers
    ours = tuple(channel for channel in publisher_channels() if channel.key not in named)
    foreign = tuple(_of_named(channel) for channel in publisher_channels("{publisher}"))
    return (*ours, *foreign, *_APPROVERS, *_OPERATORS, *_role_channels(), *_ledger_channels(partitions), *_server_channels())


def _services(publisher: str) -> tuple[Channel, ...]:
    subjects = publisher_subjects(publisher)
    return tuple(
        Channel(key, subjects[key], service.description, service.kind, service.payloads, service.answers, service.also)
        for key, service in _SERVICES.items()
    )


def _of_named(channel: Channel) -> Channel:
    if channel.key not in _SERVICES:
        return channel
    words = f"{channel.description} For named publishers. {OPERATOR_PUBLISHER!r} is the name of the operators."
    return Channel(
        f"{channel.key}-named", channel.address, words, channel.kind, channel.payloads, channel.answers, channel.also
    )


def _role_channels() -> tuple[Channel, ...]:
    tasks = (
        Channel(
            f"{role}-tasks",
            t.task_subject(role, "{pool}").rpartition(".")[0] + ".{class}",
            f"Tasks for the {role}, by pool and priority class.",
            "task",
            (ACCEPTS[role], *((QUESTION,) if role in SUMMONED else ())),
        )
        for role in t.TASK_ROLES
    )
    results = (
        Channel(
            f"{role}-results",
            t.result_subject(role),
            f"Answers and usage reports of the {role}.",
            "answer",
            (
                codec.schema_name(ANSWERS[role]),
                *((codec.schema_name(SummonsAnswer),) if role in SUMMONED else ()),
                "usage_report.v1",
                _ERROR,
            ),
        )
        for role in t.TASK_ROLES
    )
    claims = (
        Channel(
            f"{role}-claims",
            t.claim_subject(role),
            f"Periodic claim that the {role} is working on a task; not stored.",
            "claim",
            ("status_claim.v1",),
        )
        for role in t.TASK_ROLES
    )
    return (
        *tasks,
        *results,
        *claims,
        Channel("cancel", t.CANCEL_SUBJECT, "Ended runs: roles stop their work for them.", "claim", ("cancellation",)),
        Channel(
            "leave",
            t.LEAVE_SUBJECT,
            "Permission requests of agents that an approval rule sends to people.",
            "question",
            ("agent_question.v1",),
            ("agent_leave.v1", _ERROR),
        ),
        Channel(
            "worker-live",
            t.live_subject("worker"),
            "Live activity of agents.",
            "notice",
            ("agent_activity.v1",),
        ),
        Channel(
            "artifacts",
            t.artifact_subject("{writer}", "{sha256}", 0).rpartition(".")[0] + ".{piece}",
            "Artifacts in pieces. The sender writes piece 0 last.",
            "piece",
            ("bytes",),
        ),
    )


def _ledger_channels(partitions: int) -> tuple[Channel, ...]:
    words = "One message per transition of a run" + ("" if partitions == 1 else ", in the ledger partition of its id")
    ledger = (
        Channel(
            "ledger" if partitions == 1 else f"ledger-{number}",
            t.ledger_stream(number, partitions).subjects[0].removesuffix("*") + "{run_id}",
            f"{words}.",
            "ledger",
            ("transition.v1",),
        )
        for number in range(partitions)
    )
    return (
        *ledger,
        Channel(
            "watch",
            "gw.watch.{run_id}",
            "The same. The server publishes each one as it stores it.",
            "ledger",
            ("transition.v1",),
        ),
        Channel(
            "merge-queues",
            t.queue_subject("{queue_id}"),
            "One message per step of a merge queue.",
            "ledger",
            ("queue_transition.v1",),
        ),
        Channel("dead", t.dead_subject("{role}"), "Messages that could not be handled, unchanged.", "dead", ("original",)),
        Channel("locks", f"$KV.{t.LOCK_BUCKET}.{{repository}}", "Path locks of runs.", "foreign", ("lock_table",)),
    )


def _server_channels() -> tuple[Channel, ...]:
    return (
        Channel(
            "exhausted",
            t.EXHAUSTED_SUBJECT.removesuffix(">") + "{consumer}",
            "The server has given a task up.",
            "foreign",
            ("max_deliveries",),
        ),
        Channel(
            "snapshot-acks", "$JS.SNAPSHOT.ACK.{stream}.{copy}", "Acknowledges a piece of a backup.", "foreign", ("empty",)
        ),
        Channel("restored", "$JS.SNAPSHOT.RESTORE.{stream}.{copy}", "A piece of a restored stream.", "foreign", ("bytes",)),
        Channel("services", "$SRV.{verb}", "All processes.", "foreign", ("empty",), ("service_record",)),
        Channel("services-of", "$SRV.{verb}.{service}", "All processes of a role.", "foreign", ("empty",), ("service_record",)),
        Channel("service", "$SRV.{verb}.{service}.{id}", "One process.", "foreign", ("empty",), ("service_record",)),
    )
