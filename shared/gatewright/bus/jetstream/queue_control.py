"""The work queues for operators: list them, show their state, pause them for a time.

A paused queue accepts messages and delivers none; deliveries in progress are finished. A pause ends at its deadline by the
server's clock. JetStream only: the in-memory bus has no operators.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from gatewright.bus.jetstream.api import MISSING, ApiReply, StreamNamesReply
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.queue_depths import QueueDepth, queue_depth
from gatewright.bus.topology import (
    EXHAUSTED_CONSUMER,
    RESULT_CONSUMER,
    TASK_CLASSES,
    TASK_ROLES,
    Consumer,
    intake_consumer,
    intake_publisher,
    task_consumer,
)
from gatewright.clock import timestamp
from gatewright.errors import BusError, MalformedError

#: Seconds that a queue may be paused for at most: a pause is no way to switch something off.
LONGEST_PAUSE = 30 * 86_400.0
_TASKS = "TASKS"


@dataclass(frozen=True, slots=True)
class QueueState:
    """The state of a work queue; ``paused_until`` is None while it delivers messages."""

    depth: QueueDepth
    paused_until: datetime | None


class _NamesReply(ApiReply):
    consumers: tuple[str, ...] | None = None


class _Config(msgspec.Struct):
    pause_until: datetime | None = None


class _PausedReply(ApiReply):
    ts: datetime = datetime.fromtimestamp(0, UTC)
    paused: bool = False
    config: _Config = msgspec.field(default_factory=_Config)


class _PauseReply(ApiReply):
    paused: bool = False
    pause_until: datetime | None = None


async def queues(connection: Connection) -> tuple[Consumer, ...]:
    """Return every work queue of the server: the gatekeeper's, and those of each role, pool and class. Raises BusError."""
    reply = await connection.api(f"CONSUMER.NAMES.{_TASKS}", {}, _NamesReply)
    found = [queue for name in reply.consumers or () if (queue := queue_named(name)) is not None]
    found.sort(key=lambda queue: (TASK_ROLES.index(queue.owner), queue.subject.split(".")[3], class_rank(queue)))
    return (*await intake_queues(connection), RESULT_CONSUMER, EXHAUSTED_CONSUMER, *found)


async def intake_queues(connection: Connection) -> tuple[Consumer, ...]:
    """The queues of what publishers leave: one for each, that without a name first. Raises BusError."""
    names: list[str] = []
    while True:
        question = {"subject": "gw.intake.>", "offset": len(names)}
        reply = await connection.api("STREAM.NAMES", question, StreamNamesReply)
        names += reply.streams or ()
        if not reply.streams or len(names) >= reply.total:
            break
    publishers = (intake_publisher(name) for name in sorted(names))
    return tuple(intake_consumer(publisher) for publisher in publishers if publisher is not None)


def queue_named(durable: str) -> Consumer | None:
    """The queue of tasks that a durable consumer serves; None for one that is none of ours."""
    for role in TASK_ROLES:
        for task_class in TASK_CLASSES:
            beginning, ending = f"{role}-", f"-{task_class}"
            if durable.startswith(beginning) and durable.endswith(ending) and len(durable) > len(beginning) + len(ending):
                return task_consumer(role, durable[len(beginning) : -len(ending)], task_class)
    return None


def class_rank(queue: Consumer) -> int:
    """0 for the most urgent class."""
    classes: Sequence[str] = TASK_CLASSES
    return classes.index(queue.subject.rpartition(".")[2])


async def state_of(connection: Connection, queue: Consumer) -> QueueState | None:
    """Return the state of a queue; None if it does not exist. Raises BusError."""
    try:
        depth, paused = await asyncio.gather(queue_depth(connection, queue), _info(connection, queue))
    except BusError as error:
        if error.reason in MISSING:
            return None
        raise
    return QueueState(depth, paused.config.pause_until if paused.paused else None)


async def pause(connection: Connection, queue: Consumer, seconds: float) -> datetime:
    """Stop deliveries for ``seconds`` by the server's clock, replacing a pause that is in force.

    Returns:
        When the pause ends.

    Raises:
        BusError: the server does not answer or refuses.
        MalformedError: ``queue_unknown``, ``pause_too_long``.
    """
    if not 0 < seconds <= LONGEST_PAUSE:
        raise MalformedError(f"a queue is paused for at most {LONGEST_PAUSE / 86_400:.0f} days", code="pause_too_long")
    until = (await _consumer_state(connection, queue)).ts + timedelta(seconds=seconds)
    reply = await connection.api(_call(queue), {"pause_until": timestamp(until)}, _PauseReply)
    if not reply.paused:
        raise BusError(f"{queue.durable} was not paused")
    return reply.pause_until or until


async def resume(connection: Connection, queue: Consumer) -> bool:
    """Resume deliveries; return whether the queue was paused. Raises BusError, MalformedError (``queue_unknown``)."""
    was_paused = (await _consumer_state(connection, queue)).paused
    await connection.api(_call(queue), {}, _PauseReply)
    return was_paused


def _call(queue: Consumer) -> str:
    return f"CONSUMER.PAUSE.{queue.stream}.{queue.durable}"


async def _consumer_state(connection: Connection, queue: Consumer) -> _PausedReply:
    try:
        return await _info(connection, queue)
    except BusError as error:
        if error.reason in MISSING:
            raise MalformedError(f"there is no queue {queue.durable}", code="queue_unknown") from error
        raise


async def _info(connection: Connection, queue: Consumer) -> _PausedReply:
    return await connection.api(f"CONSUMER.INFO.{queue.stream}.{queue.durable}", {}, _PausedReply)
