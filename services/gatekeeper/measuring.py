"""What the gatekeeper measures: the times of runs as they pass, and the queues every few seconds. It decides nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence

from gatewright.bus.jetstream import JetStreamBus
from gatewright.bus.queue_depths import QueueDepth, open_dead_letters, queue_depth
from gatewright.bus.topology import Consumer
from gatewright.errors import BusError
from gatewright.ledger.passages import LocksHad, LocksWaitedFor, RunOver, StateLeft, passages
from gatewright.ledger.store import Position
from gatewright.service.process import Service
from gatewright.telemetry.metric_list import QueueClass, QueueName, RunOutcome
from gatewright.telemetry.metrics import Metrics, QueueLook

#: Seconds between two looks at the queues.
LOOK = 5.0

_OUTCOMES: dict[str, RunOutcome] = {"S6": "success", "FAILED": "failed", "ABORTED": "aborted"}
_OWN_QUEUES: dict[str, QueueName] = {"INTAKE": "intake", "RESULTS": "results"}
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
    while not service.stop.is_set():
        await look(service.bus, queues, service.metrics)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(service.stop.wait(), LOOK)


async def look(bus: JetStreamBus, queues: Iterable[Consumer], metrics: Metrics) -> None:
    """One look at the queues and at the dead letters."""
    connection = bus.connection
    try:
        depths = await asyncio.gather(*(queue_depth(connection, queue) for queue in queues))
        letters: int | None = await open_dead_letters(connection)
    except BusError:
        # The loss of the bus is logged where it is noticed, and a queue that is missing where it is needed.
        depths, letters = [], None
    metrics.queues(by_label(depths))
    metrics.dead_letters_open(letters)


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
    if queue.stream in _OWN_QUEUES:
        return _OWN_QUEUES[queue.stream], "none"
    return _ROLES[queue.owner], _CLASSES.get(queue.subject.rpartition(".")[2], "none")


def _pool(queue: Consumer) -> str:
    """What the classes of one pool have in common: who serves one of them serves them all, the most urgent first."""
    return queue.subject.rpartition(".")[0]
