"""What the gatekeeper measures: the times of runs as they pass, and the queues every few seconds. It decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from typing import TypeVar

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.queue_depths import QueueDepth, open_dead_letters, queue_depth
from gatewright.bus.topology import Consumer
from gatewright.errors import BusError
from gatewright.ledger.durations import LocksHad, LocksWaitedFor, RunOver, StateLeft, passages
from gatewright.ledger.store import Position
from gatewright.pause import pause_unless
from gatewright.service.process import Service
from gatewright.telemetry.metric_list import QueueClass, QueueName, RunOutcome
from gatewright.telemetry.metrics import Metrics, QueueLook

#: Seconds between two looks at the queues.
LOOK = 5.0

T = TypeVar("T")

_OUTCOMES: dict[str, RunOutcome] = {"S6": "success", "FAILED": "failed", "ABORTED": "aborted"}
_OWN_QUEUES: dict[str, QueueName] = {"INTAKE": "intake", "RESULTS": "results", "EXHAUSTED": "exhausted"}
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
    for passage in passages(position.transitions):
        match passage:
            case StateLeft(state, seconds):
                metrics.stage_left(state, seconds)
            case LocksWaitedFor():
                metrics.lock_waited_for()
            case LocksHad(seconds):
                metrics.lock_wait_over(seconds)
            case RunOver(state, seconds):
                metrics.run_ended(_OUTCOMES[state], seconds)


async def watch_queues(service: Service, queues: Iterable[Consumer]) -> None:
    """Until the process is told to leave, show how the queues stand; while that is not known, nothing is shown."""
    if not isinstance(service.bus, JetStreamBus):
        return
    queues = tuple(queues)
    stopping = asyncio.create_task(service.stop.wait())
    while not stopping.done():
        # A bus that does not answer must not keep the process from leaving.
        looking = asyncio.create_task(look(service.bus, queues, service.metrics))
        await asyncio.wait({looking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if looking.done():
            looking.result()
            await pause_unless(service.stop, LOOK)
        looking.cancel()


async def look(bus: JetStreamBus, queues: Iterable[Consumer], metrics: Metrics) -> None:
    """One look at the queues and at the dead letters; what cannot be seen now is not shown."""
    connection = bus.connection
    depths = await asyncio.gather(*(_or_none(queue_depth(connection, queue)) for queue in queues))
    letters = await _or_none(open_dead_letters(connection))
    metrics.queues(by_label([depth for depth in depths if depth is not None]))
    metrics.dead_letters_open(letters)


async def _or_none(question: Awaitable[T]) -> T | None:
    """The loss of the bus is logged where it is noticed, and a queue that is missing where it is needed."""
    try:
        return await question
    except BusError:
        return None


def by_label(depths: Sequence[QueueDepth]) -> dict[tuple[QueueName, QueueClass], QueueLook]:
    """The queues as they are shown: pools of a role together, for names of pools are the operator's to invent."""
    attended = {_pool(depth.queue) for depth in depths if depth.pulls or depth.in_hand or depth.paused}
    looks: dict[tuple[QueueName, QueueClass], QueueLook] = {}
    for depth in depths:
        unattended = 0 if _pool(depth.queue) in attended else depth.waiting
        seen = QueueLook(depth.waiting, depth.in_hand, depth.pulls, depth.paused, depth.oldest, unattended)
        label = _label(depth.queue)
        looks[label] = looks.get(label, QueueLook()) + seen
    return looks


def _label(queue: Consumer) -> tuple[QueueName, QueueClass]:
    if queue.stream == "TASKS" and queue.owner in _ROLES:
        return _ROLES[queue.owner], _CLASSES.get(queue.subject.rpartition(".")[2], "none")
    return _OWN_QUEUES.get(queue.stream, "other"), "none"


def _pool(queue: Consumer) -> str:
    """What the classes of one pool have in common: who serves one of them serves them all, the most urgent first."""
    return queue.subject.rpartition(".")[0]
