"""Current waits of an open run, and their start: locked paths, a queue, a process, disk space, a merge queue.

The ledger has the locked paths. Queues need an operator's identity, and the disk is checked on the host of the system. What
this command may not see is omitted.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

import msgspec

from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.queue_control import QueueState, state_of
from gatewright.bus.port import Bus
from gatewright.bus.topology import RESULT_CONSUMER, task_consumers
from gatewright.clock import timestamp
from gatewright.contracts.merge_queue import MergeQueueView
from gatewright.errors import BusError, GatewrightError, UnavailableError
from gatewright.host_errors import check_room
from gatewright.rules.approvals import pending, waited_for
from gatewright.rules.people.delegations import holders
from gatewright.run.states import QUEUED
from gatewright.view.merge_queue import place_words
from gatewright.view.run_view import RunView, moment
from gatewright.view.safe_text import printable


class Wait(msgspec.Struct, frozen=True):
    """One entry of ``waits``. ``kind`` is stable. ``since`` is RFC 3339. ``detail``: text for people, with advice."""

    kind: Literal["approval", "agent_question", "locks", "merge_queue", "queue_paused", "no_process", "disk_full", "no_bus"]
    since: str
    detail: str


class WaitNotice(msgspec.Struct, frozen=True):
    """The line of ``run --json`` and ``watch --json`` with the current waits of the run; empty once it continues."""

    run_id: str
    waits: tuple[Wait, ...]


@dataclass(frozen=True, slots=True)
class WaitFinder:
    """Checks the system of ``bus``. ``home``: home folder of the local system, else None.

    ``merge_queues``: returns the merge queues; None where they cannot be requested.
    """

    bus: Bus
    home: Path | None
    merge_queues: Callable[[], Awaitable[Sequence[MergeQueueView]]] | None = None

    async def waits_of(self, view: RunView) -> tuple[Wait, ...]:
        """Return all current waits of the run, as far as visible; none for an ended run."""
        if view.run.ended:
            return ()
        if isinstance(self.bus, JetStreamBus) and (since := self.bus.connection.away_since):
            return (Wait("no_bus", since, "for the connection to the bus, which is broken; it is tried again all the time"),)
        return (
            *_approval_waits(view),
            *_lock_waits(view),
            *await self._merge_waits(view),
            *await self._queue_waits(view),
            *await asyncio.to_thread(self._disk_waits, view.run.at),
        )

    async def system_waits(self) -> tuple[Wait, ...]:
        """Return the current waits of every open run: a full disk of this host."""
        return await asyncio.to_thread(self._disk_waits, timestamp(datetime.now(UTC)))

    async def _merge_waits(self, view: RunView) -> tuple[Wait, ...]:
        """Return the place in the merge queue of a queued run; without the place where the queues do not answer."""
        if view.run.state != QUEUED:
            return ()
        words = "to land: it is in the merge queue; its place is not known now"
        if self.merge_queues is not None:
            with contextlib.suppress(GatewrightError):
                for queue in await self.merge_queues():
                    if place := place_words(queue, view.run.run_id):
                        words = f"to land on {queue.branch}: {place}; `gatewright merge show {queue.queue_id}`"
        return (Wait("merge_queue", view.run.at, words),)

    async def _queue_waits(self, view: RunView) -> tuple[Wait, ...]:
        if not isinstance(self.bus, JetStreamBus) or self.bus.connection.guest:
            return ()  # a publisher sees no queues
        tasks = [task for task in view.run.tasks.values() if task.status == "RUNNING"]
        pools = sorted({(task.role, task.pool) for task in tasks})
        queues = [RESULT_CONSUMER, *(queue for role, pool in pools for queue in task_consumers(role, pool))]
        try:
            states = await asyncio.gather(*(state_of(self.bus.connection, queue) for queue in queues))
        except BusError:
            return ()  # optional: the caller that needs the bus reports its failure
        return queue_waits([state for state in states if state is not None], datetime.now(UTC))

    def _disk_waits(self, since: str) -> tuple[Wait, ...]:
        if self.home is None:
            return ()
        try:
            check_room(self.home)
        except UnavailableError as error:
            return (Wait("disk_full", since, error.message),)
        return ()


def queue_waits(states: Sequence[QueueState], now: datetime) -> tuple[Wait, ...]:
    """Return waits for paused queues, and for queues that no process serves. Pure."""
    waiting = [state for state in states if state.depth.waiting]
    # A process of a role requests work of all classes of its pool together, so one open request proves that it runs.
    served = {_pool(state) for state in states if state.depth.pulls or state.depth.in_hand}
    unserved = (state for state in waiting if state.paused_until is None and _pool(state) not in served)
    return (
        *(_paused_wait(state, state.paused_until, now) for state in waiting if state.paused_until is not None),
        *(_unserved_wait(state, now) for state in unserved),
    )


def wait_lines(waits: Sequence[Wait]) -> list[str]:
    """Format the waits."""
    return [f"waits since {moment(wait.since).astimezone():%H:%M:%S}: {printable(wait.detail)}" for wait in waits]


def _approval_waits(view: RunView) -> tuple[Wait, ...]:
    if not view.run.parked:
        return tuple(_agent_waits(view))
    return tuple(
        Wait(
            "approval",
            asked.request.created_at,
            f"for {', '.join(holders(asked))} to {'vote on' if voted else 'approve'} {asked.request.rule} "
            f"({'; '.join(filter(None, (asked.request.why, asked.progress)))}), until {asked.request.expires_at}: "
            f"`gatewright approvals show {asked.request.request_id}`, "
            f"then `gatewright {'review vote' if voted else 'approvals approve'} {asked.request.request_id}`",
        )
        for asked in waited_for(view.run)
        for voted in (asked.request.reason == "review",)
    )


def _agent_waits(view: RunView) -> Iterator[Wait]:
    """Yield waits for people's answers to an agent's permission requests; the rest of the run continues."""
    for asked in pending(view.run):
        request = asked.request
        if request.question is not None:
            words = (
                f"for {', '.join(holders(asked))} to answer {request.rule} ({request.why}), until {request.expires_at}; "
                f"its turn waits, and silence refuses: `gatewright approvals show {request.request_id}`, then "
                f"`gatewright approvals approve {request.request_id}` or `reject`"
            )
            yield Wait("agent_question", request.created_at, words)


def _lock_waits(view: RunView) -> tuple[Wait, ...]:
    if not view.run.waiting_for_locks:
        return ()
    return (Wait("locks", view.locks_since, f"for paths that are locked by {', '.join(view.lock_holders)}"),)


def _paused_wait(state: QueueState, until: datetime, now: datetime) -> Wait:
    durable = state.depth.queue.durable
    words = f"the queue {durable} is paused until {timestamp(until)}; `gatewright queue resume {_queue_words(state)}` ends that"
    return Wait("queue_paused", _since(state, now), words)


def _unserved_wait(state: QueueState, now: datetime) -> Wait:
    owner, queue = state.depth.queue.owner, state.depth.queue.durable
    words = f"no process of the {owner} asks for what lies in {queue}: is there one, and does it serve that pool?"
    return Wait("no_process", _since(state, now), words)


def _since(state: QueueState, now: datetime) -> str:
    return timestamp(now - timedelta(seconds=state.depth.oldest))


def _pool(state: QueueState) -> tuple[str, str]:
    return state.depth.queue.owner, state.depth.queue.durable.rpartition("-")[0]


def _queue_words(state: QueueState) -> str:
    """Format the role of a queue with its pool, as ``queue resume`` parses it."""
    queue = state.depth.queue
    pool = queue.durable.removeprefix(f"{queue.owner}-").rpartition("-")[0]
    return queue.owner if pool in ("", "default") else f"{queue.owner} --pool {pool}"
