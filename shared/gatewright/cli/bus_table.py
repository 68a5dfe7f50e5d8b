"""The topology of the bus as a document and as text: a view of ``gatewright.bus.topology``, with no fact of its own."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from gatewright.bus import topology as t


def bus_table() -> dict[str, Any]:
    """Everything of the topology as JSON types."""
    return {
        "streams": [asdict(stream) for stream in t.STREAMS],
        "consumers": [asdict(consumer) for consumer in t.consumers()],
        "permissions": {**{role: asdict(t.permissions(role)) for role in t.ROLES}, "publisher": asdict(t.PUBLISHER)},
        "service": t.SUBMIT_SUBJECT,
        "artifacts": t.ARTIFACT_BUCKET,
        "locks": t.LOCK_BUCKET,
    }


def bus_table_lines() -> list[str]:
    """The same for people."""
    lines = ["streams"]
    lines += [f"  {s.name:<8} {', '.join(s.subjects):<14} {s.retention:<10} {s.description}" for s in t.STREAMS]
    lines += ["", "consumers (durable, pulled)"]
    for consumer in t.consumers():
        lines.append(
            f"  {consumer.durable:<20} {consumer.stream:<8} {consumer.subject:<26} of {consumer.owner}; "
            f"ack within {consumer.ack_wait:g} s"
        )
    lines += ["", "permissions"]
    for name, may in [*((role, t.permissions(role)) for role in t.ROLES), ("publisher", t.PUBLISHER)]:
        lines.append(f"  {name:<11} publishes  {', '.join(may.publish)}")
        lines.append(f"  {'':<11} reads      {', '.join(may.subscribe)}")
    lines += ["", f"service {t.SUBMIT_SUBJECT}; object store {t.ARTIFACT_BUCKET}; key-value bucket {t.LOCK_BUCKET}"]
    return lines
