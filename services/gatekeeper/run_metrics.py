"""Metrics of the gatekeeper: durations of runs when they occur, and queue depths every few seconds. It decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.queue_depths import QueueDepth, fullness, open_dead_letters, queue_depth
from gatewright.bus.topology import (
    OPERATOR_PUBLISHER,
    Consumer,
    StreamSpec,
    intake_publisher,
    intake_stream,
    task_queue,
    upload_stream,
)
from gatewright.errors import BusError
from gatewright.ledger.store import Position
from gatewright.pause import pause_unless
from gatewright.queue.events import EntryLeft, PositionFailed, PositionLanded, QueueEvent
from gatewright.queue.state import Queue
from gatewright.run.durations import LocksHad, LocksWaitedFor, RunOver, StateLeft, passages
from gatewright.service.process import Service
from gatewright.telemetry.metric_list import (
    MOST_POOLS,
    MOST_PUBLISHERS,
    NO_POOL,
    PublisherRoom,
    QueueClass,
    QueueName,
    RunOutcome,
)
from gatewright.telemetry.metrics import OTHER, Metrics, QueueLook

#: Seconds between two reads of the queues.
LOOK = 5.0

T = TypeVar("T")

_OUTCOMES: dict[str, RunOutcome] = {"S6": "success", "FAILED": "failed", "ABORTED": "aborted"}
_OWN_QUEUES: dict[str, QueueName] = {"RESULTS": "results", "EXHAUSTED": "exhausted"}
_CLASSES: dict[str, QueueClass] = {"high": "high", "normal": "normal", "low": "low"}
_ROLES: dict[str, QueueName] = {
    "pm": "pm",
    "techlead": "techlead",
    "worker": "worker",
    "reviewer": "reviewer",
    "testrunner": "testrunner",
}


def count_merge_events(metrics: Metrics, queue: Queue | None, events: Iterable[QueueEvent], now: datetime) -> None:
    """Record the next events of a merge queue. Only the gatekeeper that appended them may call this."""
    for event in events:
        match event:
            case PositionLanded(runs=runs) if queue is not None:
                entered = (datetime.fromisoformat(queue.entries[run_id].entry.enqueued_at) for run_id in runs)
                metrics.merge_landed((now - at).total_seconds() for at in entered)
            case EntryLeft(code=code):
                metrics.merge_left(code)
            case PositionFailed():
                metrics.merge_position_red()
            case _:
                pass


def measure(metrics: Metrics, position: Position) -> None:
    """Record metrics of a run's last transition. Only the gatekeeper that appended it may call this."""
    trace_id = position.run.trace_id if position.run is not None else ""
    for passage in passages(position.transitions):
        match passage:
            case StateLeft(state, seconds):
                metrics.stage_left(state, seconds, trace_id)
            case LocksWaitedFor():
                metrics.lock_waited_for()
            case LocksHad(seconds):
                metrics.lock_wait_over(seconds)
            case RunOver(state, seconds):
                metrics.run_ended(_OUTCOMES[state], seconds, trace_id)


async def watch_queues(service: Service, queues: Callable[[], Iterable[Consumer]]) -> None:
    """Update queue metrics until shutdown. Unknown values are not shown."""
    if not isinstance(service.bus, JetStreamBus):
        return
    stopping = asyncio.create_task(service.stop.wait())
    while not stopping.done():
        # A bus that does not answer must not block the shutdown.
        looking = asyncio.create_task(look(service.bus, queues(), service.metrics))
        await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if looking.done():
            looking.result()
            await pause_unless(service.stop, LOOK)
        looking.cancel()


async def look(bus: JetStreamBus, queues: Iterable[Consumer], metrics: Metrics) -> None:
    """Read the queues, the streams of publishers and the dead letters once. Unknown values are not shown."""
    connection, queues = bus.connection, tuple(queues)
    depths = await asyncio.gather(*(_or_none(queue_depth(connection, queue)) for queue in queues))
    letters = await _or_none(open_dead_letters(connection))
    metrics.queues(by_label([depth for depth in depths if depth is not None]))
    metrics.dead_letters_open(letters)
    metrics.publisher_rooms(await _rooms(connection, queues))


async def _rooms(connection: Connection, queues: Iterable[Consumer]) -> dict[tuple[str, PublisherRoom], float]:
    """Return how full the publishers' streams are, from 0 to 1; beyond ``MOST_PUBLISHERS`` only the maximum of the others."""
    publishers = [publisher for queue in queues if (publisher := intake_publisher(queue.stream)) is not None]
    named = sorted(publishers)[:MOST_PUBLISHERS]
    rooms: dict[tuple[str, PublisherRoom], float] = {}
    for publisher in publishers:
        label = publisher if publisher in named else OTHER
        streams: dict[PublisherRoom, StreamSpec] = {"intake": intake_stream(publisher), "uploads": upload_stream(publisher)}
        for room, stream in streams.items():
            if publisher != OPERATOR_PUBLISHER or room == "intake":
                full = await _or_none(fullness(connection, stream.name))
                rooms |= {} if full is None else {(label, room): max(full, rooms.get((label, room), 0.0))}
    return rooms


async def _or_none(question: Awaitable[T]) -> T | None:
    """Return a result, or None on a bus error. Other code logs a lost connection or a missing queue."""
    try:
        return await question
    except BusError:
        return None


def by_label(depths: Sequence[QueueDepth]) -> dict[tuple[QueueName, str, QueueClass], QueueLook]:
    """Return the queue depths by label, pool by pool, since each pool is scaled by its own queues.

    The operator chooses the names of pools; those beyond ``MOST_POOLS`` share one label.
    """
    attended = {_pool(depth.queue) for depth in depths if depth.pulls or depth.in_hand or depth.paused}
    named = sorted({_queue_name(depth.queue) for depth in depths if depth.queue.stream == "TASKS"})[:MOST_POOLS]
    looks: dict[tuple[QueueName, str, QueueClass], QueueLook] = {}
    for depth in depths:
        unattended = 0 if _pool(depth.queue) in attended else depth.waiting
        seen = QueueLook(depth.waiting, depth.in_hand, depth.pulls, depth.paused, depth.oldest, unattended)
        label = _label(depth.queue, named)
        looks[label] = looks.get(label, QueueLook()) + seen
    return looks


def _label(queue: Consumer, named: Collection[str]) -> tuple[QueueName, str, QueueClass]:
    if queue.stream == "TASKS" and queue.owner in _ROLES:
        pool = _queue_name(queue) if _queue_name(queue) in named else OTHER
        return _ROLES[queue.owner], pool, _CLASSES.get(queue.subject.rpartition(".")[2], "none")
    own: QueueName = "intake" if intake_publisher(queue.stream) else _OWN_QUEUES.get(queue.stream, "other")
    return own, NO_POOL, "none"


def _queue_name(queue: Consumer) -> str:
    """Return the name of a queue, such as ``gpu`` of ``gw.task.worker.gpu.high``."""
    return _pool(queue).rpartition(".")[2]


def _pool(queue: Consumer) -> str:
    """Return the common part of a pool's queue names. A process that serves one class serves all, the most urgent first."""
    return task_queue(queue.subject) if queue.stream == "TASKS" else queue.durable
