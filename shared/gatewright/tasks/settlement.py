"""How a delivery ends: answered, refused, or given back. What is to be published is published first, so that none is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from gatewright.bus.jetstream.api import NO_ANSWER
from gatewright.bus.port import Bus, Delivery
from gatewright.bus.topology import Consumer, Role, result_subject
from gatewright.clock import Clock
from gatewright.contracts.vocabulary import Document
from gatewright.errors import BusError, GatewrightError, MalformedError, SandboxError
from gatewright.host_errors import BUS_FULL
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.disposition import Disposition, disposition, waiting_pause
from gatewright.tasks.protocol import DeliveredTask, TaskAnswer, TaskRef, blames_sandbox, carried_headers, make_answer, refusal
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics, TaskOutcome

#: What a bus says that is there and does not store a message.
_TAKES_NOTHING = frozenset({NO_ANSWER, BUS_FULL})


class Settlement:
    """Ends the deliveries of one role's queue. ``patience``: seconds that the bus is given to take an answer."""

    def __init__(self, role: Role, bus: Bus, consumer: Consumer, *, clock: Clock, metrics: Metrics, patience: float) -> None:
        self._role: Role = role
        self._bus = bus
        self._consumer = consumer
        self._clock = clock
        self._metrics = metrics
        self._patience = patience
        #: Set when the process is to end: then nothing is waited for any longer than ``patience``.
        self.leaving = asyncio.Event()

    async def answered(self, delivery: Delivery, task: DeliveredTask, document: Document, log: Logger) -> TaskOutcome:
        """Publish the role's document, then acknowledge. A document that is not a valid answer ends the task instead."""
        try:
            answer = make_answer(self._role, task, document)
            await self._publish(answer, delivery)
        except MalformedError as error:
            return await self.failed(delivery, task.ref, error, log)
        if blames_sandbox(document):
            self._metrics.sandbox_failed("task")
        await self.settle(delivery.ack(), log)
        log.info("task_answered", schema=answer.schema, size=len(answer.data))
        return "answered"

    async def failed(self, delivery: Delivery, ref: TaskRef | None, error: BaseException, log: Logger) -> TaskOutcome:
        """Refuse, give back for later, or raise GatewrightError when the process is to end, as ``disposition`` says."""
        why = disposition(error, delivery.attempts, self._consumer.max_deliver)
        if isinstance(error, SandboxError):
            self._metrics.sandbox_failed("task")
        if not isinstance(error, GatewrightError):
            log.error("handler_failed_unexpectedly", exc_info=error)
        if why.action == "refuse":
            await self.refused(delivery, ref, why, log)
            return "refused"
        await self.settle(delivery.nak(why.delay), log)
        if why.action == "crash":
            raise GatewrightError(why.message) from error
        log.warning("task_retried", code=why.code, cause=why.message, seconds=why.delay)
        return "retried"

    async def refused(self, delivery: Delivery, ref: TaskRef | None, why: Disposition, log: Logger) -> None:
        """Tell the gatekeeper (when it is known whose task it was), keep the message for operators, take it off the queue."""
        log.error("task_refused", code=why.code, cause=why.message)
        if ref is not None:
            await self._publish(refusal(self._role, ref, why), delivery)
        await self._persist(
            lambda: publish_dead_letter(
                self._bus,
                self._role,
                self._consumer.stream,
                delivery.message,
                attempts=delivery.attempts,
                code=why.code,
                reason=why.message,
            ),
            delivery,
        )
        self._metrics.dead_letter(why.code)
        await self.settle(delivery.term(), log)

    async def settle(self, call: Awaitable[None], log: Logger) -> None:
        """Await an ack, nak or term. When it gets lost the task comes back, and is answered under the same message id."""
        try:
            await call
        except BusError as error:
            log.warning("settlement_lost", cause=error.message)

    async def _publish(self, answer: TaskAnswer, delivery: Delivery) -> None:
        carried = carried_headers(delivery.message)

        async def publish() -> None:
            await self._bus.publish(
                result_subject(self._role),
                answer.data,
                schema=answer.schema,
                message_id=answer.message_id,
                headers=carried,
            )

        await self._persist(publish, delivery)

    async def _persist(self, publish: Callable[[], Awaitable[None]], delivery: Delivery) -> None:
        """Publish although the bus is away for a while: the work is done and should not be done again for that.

        A bus that is there and takes nothing, for want of room, is waited for until the process is to end.
        """
        beating = asyncio.create_task(self._beat(delivery))
        deadline = self._clock.monotonic() + self._patience
        attempts = 1
        try:
            while True:
                try:
                    return await publish()
                except BusError as error:
                    pause = waiting_pause(attempts)
                    without_end = error.reason in _TAKES_NOTHING and not self.leaving.is_set()
                    if not without_end and self._clock.monotonic() + pause > deadline:
                        raise
                attempts += 1
                await asyncio.sleep(pause)
        finally:
            beating.cancel()

    async def _beat(self, delivery: Delivery) -> None:
        while True:
            await asyncio.sleep(self._consumer.ack_wait / 3)
            with contextlib.suppress(BusError):
                await delivery.in_progress()
