"""The topology of the bus as a document and as text: a view of its tables, with no fact of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gatewright.bus import topology as t
from gatewright.bus.identities import STANDING
from gatewright.bus.permissions import access_of


def bus_table(pools: tuple[str, ...], partitions: int = 1) -> dict[str, Any]:
    """Everything of the topology as JSON types."""
    table = [access_of(identity, pools, partitions=partitions) for identity in STANDING]
    return {
        "streams": [asdict(stream) for stream in t.streams(partitions)],
        "consumers": [asdict(consumer) for consumer in t.consumers(pools)],
        "permissions": {
            a.identity: {"publish": a.sends(), "subscribe": a.receives(), "account": _account(a.guest)} for a in table
        },
        "services": [t.SUBMIT_SUBJECT, *t.QUESTION_SUBJECTS, *t.APPROVER_SUBJECTS, t.LEAVE_SUBJECT],
        "locks": t.LOCK_BUCKET,
    }


def bus_table_lines(pools: tuple[str, ...], partitions: int = 1) -> list[str]:
    """The same for people."""
    lines = ["streams"]
    lines += [f"  {s.name:<8} {', '.join(s.subjects):<14} {s.retention:<10} {s.description}" for s in t.streams(partitions)]
    lines += ["", "consumers (durable, pulled)"]
    for consumer in t.consumers(pools):
        lines.append(
            f"  {consumer.durable:<26} {consumer.stream:<8} {consumer.subject:<32} of {consumer.owner}; "
            f"ack within {consumer.ack_wait:g} s"
        )
    lines += ["", "permissions (the calls of JetStream: --json)"]
    for identity in STANDING:
        may = access_of(identity, pools, partitions=partitions)
        lines.append(f"  {identity:<11} publishes  {', '.join(may.publish) or '-'}")
        lines.append(f"  {'':<11} hears      {', '.join((*may.hear, *may.serve)) or '-'}")
        if may.queues:
            lines.append(f"  {'':<11} pulls      {', '.join(queue.durable for queue in may.queues)}")
    lines += [
        "",
        f"services {', '.join((t.SUBMIT_SUBJECT, *t.QUESTION_SUBJECTS, *t.APPROVER_SUBJECTS, t.LEAVE_SUBJECT))}",
        f"key-value bucket {t.LOCK_BUCKET}",
    ]
    return lines


def _account(guest: bool) -> str:
    return "its own" if guest else "the bus's"
