"""How a delivery ends: answered, refused, or given back. What is to be published is published first, so that none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from gatewright.bus.port import NO_ANSWER, Bus, Delivery, Message
from gatewright.bus.topology import Consumer, Role, result_subject, stream_of
from gatewright.bus.versions import written_here
from gatewright.clock import Clock
from gatewright.contracts.vocabulary import Document
from gatewright.errors import BusError, GatewrightError, MalformedError, SandboxError
from gatewright.host_errors import BUS_FULL
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.disposition import Disposition, disposition, waiting_pause
from gatewright.tasks.protocol import DeliveredTask, TaskAnswer, TaskRef, blames_sandbox, carried_headers, make_answer, refusal
from gatewright.tasks.watchdog import SIGNS, keep_alive
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics, TaskOutcome

#: Errors of a reachable bus that cannot store a message.
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
            await self._publish(answer, delivery, log)
        except MalformedError as error:
            return await self.failed(delivery, task.ref, error, log)
        if blames_sandbox(document):
            self._metrics.sandbox_failed("task")
        await settle(delivery.ack(), log)
        log.info("task_answered", schema=answer.schema, size=len(answer.data))
        return "answered"

    async def failed(self, delivery: Delivery, ref: TaskRef | None, error: BaseException, log: Logger) -> TaskOutcome:
        """Refuse or return the delivery, or raise GatewrightError when the process must end, as ``disposition`` decides."""
        why = disposition(error, delivery.attempts, self._consumer.max_deliver)
        if isinstance(error, SandboxError):
            self._metrics.sandbox_failed("task")
        if not isinstance(error, GatewrightError):
            log.error("handler_failed_unexpectedly", exc_info=error)
        if why.action == "refuse":
            await self.refused(delivery, ref, why, log)
            return "refused"
        await settle(delivery.nak(why.delay), log)
        if why.action == "crash":
            raise GatewrightError(why.message) from error
        log.warning("task_retried", code=why.code, cause=why.message, seconds=why.delay)
        return "retried"

    async def refused(self, delivery: Delivery, ref: TaskRef | None, why: Disposition, log: Logger) -> None:
        """Report the refusal to the gatekeeper (if the task is known), dead-letter the message, and take it off the queue."""
        log.error("task_refused", code=why.code, cause=why.message)
        if ref is not None:
            await self._publish(refusal(self._role, ref, why), delivery, log)
        code, reason, message, metrics = why.code, why.message, delivery.message, self._metrics

        async def put() -> None:
            await put_aside(self._bus, self._role, delivery, message, code=code, reason=reason, metrics=metrics, log=log)

        await self._persist(put, delivery, log)

    async def _publish(self, answer: TaskAnswer, delivery: Delivery, log: Logger) -> None:
        carried = {**carried_headers(delivery.message), **written_here()}

        async def publish() -> None:
            await self._bus.publish(
                result_subject(self._role), answer.data, schema=answer.schema, message_id=answer.message_id, headers=carried
            )

        await self._persist(publish, delivery, log)

    async def _persist(self, publish: Callable[[], Awaitable[None]], delivery: Delivery, log: Logger) -> None:
        """Publish despite a temporary loss of the bus: the work is done and should not be repeated.

        A reachable bus without space is waited for until shutdown.
        """
        deadline = self._clock.monotonic() + self._patience
        attempts = 1
        async with keep_alive(delivery, every=self._consumer.ack_wait / SIGNS, log=log):
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


async def settle(call: Awaitable[None], log: Logger) -> None:
    """Await an ack, nak or term. When it gets lost the message comes again, and brings about the same once more."""
    try:
        await call
    except BusError as error:
        log.warning("settlement_lost", cause=error.message)


async def put_aside(
    bus: Bus, role: str, delivery: Delivery, message: Message, *, code: str, reason: str, metrics: Metrics, log: Logger
) -> None:
    """Keep ``message``, the delivery's own or what may be kept of it, for operators; then take it off its queue.

    Raises BusError when it could not be kept: the delivery is not settled then.
    """
    await publish_dead_letter(
        bus,
        role,
        stream_of(message.subject),
        message,
        attempts=delivery.attempts,
        code=code,
        reason=reason,
        altered=message.data != delivery.message.data,
    )
    metrics.dead_letter(code)
    await settle(delivery.term(), log)
