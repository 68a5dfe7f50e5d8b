"""A role's runner on an in-memory bus, with short times, and the gatekeeper's side of that bus."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import (
    DEFAULT_CLASS,
    STREAMS,
    TASK_CLASSES,
    Role,
    dead_subject,
    result_subject,
    task_consumers,
    task_subject,
)
from gatewright.clock import SystemClock
from gatewright.contracts import Error, TaskContract, TaskResult, codec
from gatewright.contracts.reports import GateOutcome, GateOutcomes, GitOutcome, NextSteps
from gatewright.contracts.vocabulary import Agent, Document
from gatewright.tasks.runner import Runner, RunnerOptions, TaskContext
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.waiting import PATIENCE

ACK_WAIT = 0.3
QUICK = RunnerOptions(drain=0.2, grace=0.0, patience=0.5, pause=0.01)

Work = Callable[[Any, TaskContext], Awaitable[Document]]


def make_result(contract: TaskContract, **changes: object) -> TaskResult:
    """The result of a worker that changed nothing."""
    passed = GateOutcome(passed=True, violations=())
    result = TaskResult(
        run_id=contract.log_refs.run_id,
        task_id=contract.task_id,
        producer=Agent(role="WORKER", agent_id="worker-1"),
        status="SUCCESS",
        started_at="2026-01-01T00:00:00.000Z",
        finished_at="2026-01-01T00:00:01.000Z",
        summary="nothing to do",
        artifacts=(),
        git=GitOutcome(baseline_ref="1" * 40, head_ref="2" * 40, changed_files=(), patch=""),
        gates=GateOutcomes(diff_gate=passed, policy_gate=passed, review_gate=passed, tests_gate=passed),
        next_steps=NextSteps(suggested_action="", notes=""),
    )
    return msgspec.structs.replace(result, **changes)


async def do_nothing(task: TaskContract, _context: TaskContext) -> Document:
    return make_result(task)


class Handler:
    """Does what ``work`` says and remembers which deliveries it saw."""

    def __init__(self, work: Work = do_nothing) -> None:
        self._work = work
        self.seen: list[tuple[str, int]] = []
        self.started = asyncio.Event()

    async def handle(self, task: Any, context: TaskContext) -> Document:
        self.seen.append((task.task_id, context.attempts))
        self.started.set()
        return await self._work(task, context)


@dataclass
class RoleAtWork:
    """Both sides of the bus. ``server`` outlives the runners that are started on it."""

    role: Role = "worker"
    max_deliver: int = 4
    server: MemoryServer = field(default_factory=MemoryServer)
    log: io.BytesIO = field(default_factory=io.BytesIO)
    metrics: Metrics = field(default_factory=lambda: Metrics("worker"))

    def __post_init__(self) -> None:
        self.consumers = tuple(
            replace(plain, ack_wait=ACK_WAIT, max_deliver=self.max_deliver) for plain in task_consumers(self.role)
        )
        self.consumer = self.consumers[TASK_CLASSES.index(DEFAULT_CLASS)]
        self.server.ensure(STREAMS, self.consumers)
        self.bus = MemoryBus(self.server)

    def runner(self, handler: Handler, options: RunnerOptions = QUICK, bus: Bus | None = None) -> Runner:
        return Runner(
            self.role,
            handler,
            bus or MemoryBus(self.server),
            clock=SystemClock(),
            log=make_logger(self.log),
            metrics=self.metrics,
            options=options,
            consumers=self.consumers,
        )

    @contextlib.asynccontextmanager
    async def working(self, handler: Handler, options: RunnerOptions = QUICK, bus: Bus | None = None) -> AsyncIterator[None]:
        """A runner that serves while the body runs, and then leaves cleanly."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.runner(handler, options, bus).run(stop))
        try:
            yield
            stop.set()
            await asyncio.wait_for(running, PATIENCE)
        finally:
            running.cancel()
            await asyncio.wait({running})

    async def give(self, contract: TaskContract, **headers: str) -> None:
        await self.give_bytes(
            codec.encode(contract), message_id=f"give:{contract.log_refs.run_id}:{contract.task_id}", **headers
        )

    async def give_bytes(self, data: bytes, *, schema: str = "task_contract.v1", message_id: str = "x", **headers: str) -> None:
        subject = task_subject(self.role)
        await self.bus.publish(subject, data, schema=schema, message_id=message_id, headers=headers)

    async def stored(self, subject: str) -> list[Message]:
        return [message async for message in self.bus.replay(subject)]

    async def results(self) -> list[Document]:
        return [
            codec.decode_named(message.data, message.headers["Gw-Schema"])
            for message in await self.stored(result_subject(self.role))
        ]

    async def result(self) -> Document:
        """The one answer, once it is there."""
        async with asyncio.timeout(PATIENCE):
            while not (found := await self.results()):
                await self.server.wait(0.01)
        assert len(found) == 1
        return found[0]

    async def error(self) -> Error:
        answer = await self.result()
        assert isinstance(answer, Error)
        return answer

    async def dead(self) -> list[Message]:
        return await self.stored(dead_subject(self.role))

    async def queue_empties(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while await self.stored(task_subject(self.role)):
                await self.server.wait(0.01)

    def tasks(self, outcome: str) -> float:
        """How often a task has ended like this."""
        return self.metrics.registry.get_sample_value("gatewright_tasks_total", {"role": "worker", "outcome": outcome}) or 0

    def events(self) -> list[str]:
        return [msgspec.json.decode(line)["event"] for line in self.log.getvalue().splitlines()]
