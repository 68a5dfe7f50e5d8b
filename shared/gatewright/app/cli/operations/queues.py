"""Work queues for programs and for people, and times as people write them. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from gatewright.app.cli.operations.dead_letters import age
from gatewright.bus.jetstream.queue_control import QueueState
from gatewright.clock import timestamp
from gatewright.errors import MalformedError

_TIME = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(s|m|h|d)")  # noqa: TID251 - the operator's own text
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class QueueEntry(msgspec.Struct, frozen=True):
    """One entry of ``queue list --json``. ``oldest_sec``: how long the oldest waiting message has waited, 0 when none does."""

    queue: str
    subject: str
    waiting: int
    in_hand: int
    oldest_sec: float
    requests: int
    paused_until: str | None


def entry_of(state: QueueState) -> QueueEntry:
    depth = state.depth
    return QueueEntry(
        queue=depth.queue.durable,
        subject=depth.queue.subject,
        waiting=depth.waiting,
        in_hand=depth.in_hand,
        oldest_sec=round(depth.oldest, 3),
        requests=depth.pulls,
        paused_until=timestamp(state.paused_until) if state.paused_until else None,
    )


def table(entries: Sequence[QueueEntry]) -> list[str]:
    """The list for people; a queue that no worker asks for work is one whose role does not run, or is busy."""
    width = max((len(entry.queue) for entry in entries), default=5)
    lines = [f"{'QUEUE':<{width}} {'WAITING':>7} {'IN HAND':>7} {'OLDEST':>8} {'ASKING':>6}  PAUSED UNTIL"]
    for entry in entries:
        oldest = age(entry.oldest_sec) if entry.waiting else "-"
        lines.append(
            f"{entry.queue:<{width}} {entry.waiting:>7} {entry.in_hand:>7} {oldest:>8} {entry.requests:>6}  "
            f"{entry.paused_until or '-'}"
        )
    return lines


def seconds_of(text: str) -> float:
    """``90s``, ``10m``, ``2h``, ``1d`` in seconds. Raises MalformedError."""
    found = _TIME.fullmatch(text.strip())
    if found is None:
        raise MalformedError(f"{text!r} is no length of time: write 90s, 10m, 2h or 1d", code="invalid_input")
    return float(found.group(1)) * _SECONDS[found.group(2)]
