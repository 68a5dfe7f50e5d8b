"""What the gatekeeper measures: the times of runs as they pass, and the queues every few seconds. It decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TypeVar

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.connection import Connection
from gatewright.bus.jetstream.offered import fullness
from gatewright.bus.jetstream.queue_depths import QueueDepth, open_dead_letters, queue_depth
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

#: Seconds between two looks at the queues.
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


def measure(metrics: Metrics, position: Position) -> None:
    """Count what the last transition of a run brought about; to be called by the gatekeeper that appended it."""
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
    """Until the process is told to leave, show how the queues stand; while that is not known, nothing is shown."""
    if not isinstance(service.bus, JetStreamBus):
        return
    stopping = asyncio.create_task(service.stop.wait())
    while not stopping.done():
        # A bus that does not answer must not keep the process from leaving.
        looking = asyncio.create_task(look(service.bus, queues(), service.metrics))
        await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if looking.done():
            looking.result()
            await pause_unless(service.stop, LOOK)
        looking.cancel()


async def look(bus: JetStreamBus, queues: Iterable[Consumer], metrics: Metrics) -> None:
    """One look at the queues, at the room of publishers and at the dead letters; what cannot be seen now is not shown."""
    connection, queues = bus.connection, tuple(queues)
    depths = await asyncio.gather(*(_or_none(queue_depth(connection, queue)) for queue in queues))
    letters = await _or_none(open_dead_letters(connection))
    metrics.queues(by_label([depth for depth in depths if depth is not None]))
    metrics.dead_letters_open(letters)
    metrics.publisher_rooms(await _rooms(connection, queues))


async def _rooms(connection: Connection, queues: Iterable[Consumer]) -> dict[tuple[str, PublisherRoom], float]:
    """How full the streams of publishers are, of 1; those of the many beyond ``MOST_PUBLISHERS`` as the fullest of them."""
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
    """The loss of the bus is logged where it is noticed, and a queue that is missing where it is needed."""
    try:
        return await question
    except BusError:
        return None


def by_label(depths: Sequence[QueueDepth]) -> dict[tuple[QueueName, str, QueueClass], QueueLook]:
    """The queues as they are shown, pool by pool: each is scaled by what lies in it.

    Names of pools are the operator's to invent: those beyond ``MOST_POOLS`` are shown together.
    """
    attended = {_pool(depth.queue) for depth in depths if depth.pulls or depth.in_hand or depth.paused}
    named = sorted({_name(depth.queue) for depth in depths if depth.queue.stream == "TASKS"})[:MOST_POOLS]
    looks: dict[tuple[QueueName, str, QueueClass], QueueLook] = {}
    for depth in depths:
        unattended = 0 if _pool(depth.queue) in attended else depth.waiting
        seen = QueueLook(depth.waiting, depth.in_hand, depth.pulls, depth.paused, depth.oldest, unattended)
        label = _label(depth.queue, named)
        looks[label] = looks.get(label, QueueLook()) + seen
    return looks


def _label(queue: Consumer, named: Collection[str]) -> tuple[QueueName, str, QueueClass]:
    if queue.stream == "TASKS" and queue.owner in _ROLES:
        pool = _name(queue) if _name(queue) in named else OTHER
        return _ROLES[queue.owner], pool, _CLASSES.get(queue.subject.rpartition(".")[2], "none")
    own: QueueName = "intake" if intake_publisher(queue.stream) else _OWN_QUEUES.get(queue.stream, "other")
    return own, NO_POOL, "none"


def _name(queue: Consumer) -> str:
    """``gpu`` of ``gw.task.worker.gpu.high``."""
    return _pool(queue).rpartition(".")[2]


def _pool(queue: Consumer) -> str:
    """What the classes of one pool have in common: who serves one of them serves them all, the most urgent first."""
    return task_queue(queue.subject) if queue.stream == "TASKS" else queue.durable
