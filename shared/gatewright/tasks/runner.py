"""The one runner of all task roles: pull, decode, handle, validate, publish, acknowledge.

A role gives it a handler; the class of an error alone decides what becomes of a task (``disposition.py``). Delivery is at least
once: a task may be done twice, its answer has the same message id both times. It knows nothing of what tasks are about.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from gatewright.bus.port import LEAVE_HEADER, Bus, Delivery, Message
from gatewright.bus.topology import CANCEL_SUBJECT, Consumer, Role, handled_deliveries, task_consumers, task_queue
from gatewright.bus.versions import read_version
from gatewright.clock import Clock
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Document
from gatewright.errors import BusError, HostError, MalformedError, UnavailableError
from gatewright.host_errors import host_errors
from gatewright.tasks.activity import LiveActivity
from gatewright.tasks.beats.claims import TaskClaims
from gatewright.tasks.budget_meter import BudgetMeter, budget_of, leave_of
from gatewright.tasks.consumer_loop import ConsumerLoop, DeliverySource, LoopOptions
from gatewright.tasks.disposition import Disposition, waiting_pause, waits
from gatewright.tasks.handler import BusArtifacts, TaskContext, TaskHandler
from gatewright.tasks.people_questions import PeopleQuestions
from gatewright.tasks.priority_queue import ClassQueue
from gatewright.tasks.protocol import (
    DeliveredTask,
    has_failed,
    lacked_room,
    read_cancel_notice,
    read_task,
    ref_of,
    trace_context,
    trace_id,
)
from gatewright.tasks.questions import AskPublisher, PublisherQuestions
from gatewright.tasks.settlement import Settlement, settle
from gatewright.tasks.usage_reports import UsageReports
from gatewright.tasks.watchdog import SIGNS, TaskWatch
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics, TaskOutcome
from gatewright.tracing import conventions as c
from gatewright.tracing import spans as tracing
from gatewright.tracing.spans import AttributeValue, NoSpans, OpenSpan, SpanSink
from gatewright.worker_role import asks_models

__all__ = ["Runner", "RunnerOptions", "TaskContext", "TaskHandler"]

#: Aborted runs whose tasks may still lie in the queue.
_REMEMBERED_CANCELLATIONS = 10_000
#: Outcomes that are no errors: the answer is there, or another process does the task.
_FINE: frozenset[TaskOutcome] = frozenset({"answered", "cancelled", "released"})


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """Options in seconds, except ``concurrency``, the number of tasks in progress.

    ``drain``: for tasks in progress at shutdown. ``grace``: beyond a task's own time limit, so that a handler can report a
    time-out itself. ``patience``: for a cancelled handler to end, and for the bus to accept an answer or deliver a task, before
    the process ends. ``pause``: between two attempts to get a task. The disk check raises without free space.
    """

    concurrency: int = 1
    drain: float = 10.0
    grace: float = 15.0
    patience: float = 20.0
    pause: float = 0.5
    room: Callable[[], None] = lambda: None


class Runner:
    """Serves one role's queues. ``consumers`` defaults to those of the role's default pool, the most urgent first."""

    def __init__(
        self,
        role: Role,
        handler: TaskHandler[Any],
        bus: Bus,
        *,
        clock: Clock,
        log: Logger,
        metrics: Metrics,
        options: RunnerOptions | None = None,
        consumers: tuple[Consumer, ...] | None = None,
        spans: SpanSink | None = None,
    ) -> None:
        self._role: Role = role
        self._handler = handler
        self._bus = bus
        self._clock = clock
        self._log = log
        self._metrics = metrics
        self._options = options or RunnerOptions()
        self._spans = spans or NoSpans()
        self._consumers = consumers or task_consumers(role)
        self._consumer = self._consumers[0]  # all consumers have the same delivery settings
        self._artifacts = BusArtifacts(bus)
        self._settlement = Settlement(role, bus, self._consumer, clock=clock, metrics=metrics, patience=self._options.patience)
        self._questions = PublisherQuestions(bus)
        self._watches: dict[TaskWatch, str] = {}
        self._cancelled: dict[str, None] = {}  # run ids, the last named last

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until ``stop`` is set, then finish the tasks in progress or return them.

        Raises:
            GatewrightError: a handler failed unexpectedly.
            BusError: the bus is gone.
        """
        self._settlement.leaving = stop
        await self._bus.listen(CANCEL_SUBJECT, self._on_cancel)
        queue = await ClassQueue.open(self._bus, self._consumers)
        options = LoopOptions(self._options.concurrency, self._options.pause, self._options.drain)
        loop = ConsumerLoop(options, self._log, self._unavailable, release=self._release)
        try:
            await loop.run([DeliverySource(self._role, queue, self._attend)], stop)
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _unavailable(self, error: BusError, failures: int) -> None:
        """A stream or consumer that is gone does not come back by waiting; a new start makes it."""
        if failures * self._options.pause > self._options.patience:
            raise error

    def _release(self, _late: Collection[asyncio.Task[None]]) -> None:
        """End the handlers, and nothing else: an answer that is there already is not to be lost."""
        for watch in self._watches:
            watch.interrupt("released")

    async def _on_cancel(self, message: Message) -> None:
        try:
            run_ids = read_cancel_notice(message.data)
        except MalformedError as error:
            self._log.warning("cancellation_malformed", cause=error.message)
            return
        for run_id in run_ids:
            self._cancelled.pop(run_id, None)
            self._cancelled[run_id] = None
        while len(self._cancelled) > _REMEMBERED_CANCELLATIONS:
            del self._cancelled[next(iter(self._cancelled))]
        for watch, watched in self._watches.items():
            if watched in run_ids:
                watch.interrupt("cancelled")

    async def _attend(self, delivery: Delivery) -> None:
        started = self._clock.monotonic()
        self._metrics.task_taken(redelivered=delivery.attempts > 1)
        outcome: TaskOutcome = "crashed"
        try:
            with self._span(delivery) as span:
                outcome = await self._process(delivery)
                if span is not None:
                    span.attributes[c.OUTCOME] = outcome
                    span.error = span.error or ("" if outcome in _FINE else outcome)
        finally:
            self._metrics.task_ended(outcome, self._clock.monotonic() - started, trace_id(delivery.message))

    def _span(self, delivery: Delivery) -> AbstractContextManager[OpenSpan | None]:
        """What is done with one delivery, as a part of the task that its message names."""
        message, queue = delivery.message, task_queue(delivery.message.subject)
        ref = ref_of(message)
        attributes: dict[str, AttributeValue] = {
            c.MESSAGING_SYSTEM: "nats",
            c.MESSAGING_DESTINATION: queue,
            c.MESSAGING_OPERATION: "process",
            c.MESSAGING_OPERATION_TYPE: "process",
            c.MESSAGING_CONSUMER_GROUP: self._consumer.durable,
            c.DELIVERY: delivery.attempts,
        }
        if ref is not None:
            attributes |= {c.MESSAGING_MESSAGE_ID: ref.task_id, c.RUN_ID: ref.run_id, c.TASK_ID: ref.task_id}
        return tracing.span(self._spans, trace_context(message), f"process {queue}", "consumer", attributes)

    async def _process(self, delivery: Delivery) -> TaskOutcome:
        message, settlement = delivery.message, self._settlement
        log = self._log.bind(delivery=delivery.attempts, trace_id=trace_id(message))
        try:
            task = read_version(message, lambda: read_task(self._role, message))
        except (MalformedError, UnavailableError) as error:
            ref = ref_of(message)
            return await settlement.failed(delivery, ref, error, log.bind(**ref._asdict()) if ref else log)
        log = log.bind(**task.ref._asdict(), attempt=task.attempt)
        if task.ref.run_id in self._cancelled:
            log.info("task_cancelled")
            await settle(delivery.term(), log)
            return "cancelled"
        if delivery.attempts > handled_deliveries(self._consumer.max_deliver):
            why = Disposition("refuse", "attempts_exhausted", f"no answer after {delivery.attempts - 1} attempts")
            await settlement.refused(delivery, task.ref, why, log)
            return "exhausted"
        return await self._handle(delivery, task, log)

    async def _handle(self, delivery: Delivery, task: DeliveredTask, log: Logger) -> TaskOutcome:
        settlement, options = self._settlement, self._options
        beat, limit = self._consumer.ack_wait / SIGNS, task.seconds + options.grace
        watch = TaskWatch(delivery, limit=limit, beat=beat, patience=options.patience, clock=self._clock, log=log)
        leave, number = leave_of(task.document), f"{delivery.message.sequence}.{delivery.attempts}"
        most_sent = leave.most_bytes if leave is not None else None
        meter = BudgetMeter(budget_of(task.document), delivery=number, most_sent=most_sent)
        live = LiveActivity(self._bus, self._role, task.ref)
        claims = TaskClaims(self._bus, self._role, delivery, task.ref, clock=self._clock, log=log)

        def progress() -> None:
            watch.progress()
            claims.count_step()

        ask = self._asking(task, delivery)
        report_activity = claims.heard(live.report)
        context = TaskContext(self._artifacts, self._clock, log, delivery.attempts, progress, meter, report_activity, ask)
        asks = isinstance(task.document, TaskContract) and asks_models(self._role, task.document)
        reports = UsageReports(self._bus, self._role, delivery.message, task.ref, meter, log, left=context.left, asks=asks)
        log.info("task_started")
        self._watches[watch] = task.ref.run_id
        try:
            async with reports.sent(), live.sent(), claims.sent():
                handling = await watch.watch(self._patiently(task, context, claims))
                reports.handled(handling, watch.interruption)
        finally:
            del self._watches[watch]
        if watch.interruption == "cancelled":
            log.info("task_cancelled")
            await settle(delivery.term(), log)
            return "cancelled"
        error = asyncio.CancelledError() if handling.cancelled() else handling.exception()
        if error is None:
            return await settlement.answered(delivery, task, handling.result(), log)
        if watch.interruption == "released":
            log.info("task_released")
            await settle(delivery.nak(), log)
            return "released"
        if watch.interruption == "timed_out":
            why = Disposition("refuse", "task_timeout", f"no progress for {limit:g} seconds")
            await settlement.refused(delivery, task.ref, why, log)
            return "timed_out"
        return await settlement.failed(delivery, task.ref, error, log)

    def _asking(self, task: DeliveredTask, delivery: Delivery) -> AskPublisher:
        """Return whom an agent of the task asks: the people of a rule if the gatekeeper set one, else the run's publisher."""
        message = delivery.message
        if message.headers.get(LEAVE_HEADER):
            return PeopleQuestions(self._bus, task.ref, message, delivery=delivery.attempts, seconds=task.seconds).ask
        return self._questions.of(task.ref, message)

    async def _patiently(self, task: DeliveredTask, context: TaskContext, claims: TaskClaims) -> Document:
        """Execute the task; repeat it while this host has no disk space or the bus is full, since then it has not failed.

        A full disk does not always cause an error of ours: a command or a test fails with its own message. So a failure is
        accepted only when there is disk space. If a command was ended for lack of it, the failure is accepted only when it
        repeats: another process may have filled the disk, and freed it by now.
        """
        rounds, believed = 0, False
        while True:
            try:
                with host_errors():
                    self._options.room()
                    document = await self._handler.handle(task.document, context)
                    if has_failed(document):
                        self._options.room()
                    if lacked_room(document) and not believed:
                        believed = True
                        raise HostError("a command was ended by a full disk; it is done again", code="disk_full")
            except UnavailableError as error:
                if not waits(error):
                    raise
                rounds += 1
                context.log.warning("task_waits", code=error.reason, cause=error.message)
            else:
                return document
            claims.phase = "waiting"
            await asyncio.sleep(waiting_pause(rounds))
            claims.phase = "working"
            context.progress()
