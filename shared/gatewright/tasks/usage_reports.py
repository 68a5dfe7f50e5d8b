"""Tells the gatekeeper what a task uses up while it is being done, so that its run can be stopped in time.

Stored like an answer, on the role's result subject: what was told is not lost with the worker, nor with the gatekeeper.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import Role, result_subject
from gatewright.contracts import TaskResult, UsageReport, codec
from gatewright.contracts.vocabulary import Document
from gatewright.errors import BusError
from gatewright.tasks.budget_meter import BudgetMeter
from gatewright.tasks.protocol import TaskRef, carried_headers
from gatewright.telemetry.logs import Logger

#: Seconds for the last report of a task.
_LAST = 2.0


class UsageReports:
    """Of one delivery of a task. Nothing is reported of a task that has no budget but time."""

    def __init__(self, bus: Bus, role: Role, task: Message, ref: TaskRef, meter: BudgetMeter, log: Logger) -> None:
        self._bus = bus
        self._subject = result_subject(role)
        self._ref = ref
        self._headers = carried_headers(task)
        self._meter = meter
        self._log = log
        self._number = 0
        self._in_answer = False

    @contextlib.asynccontextmanager
    async def sent(self) -> AsyncIterator[None]:
        """While the body runs, report every step of the meter; what is left is reported at the end, however the body ends."""
        if not self._meter.metered:
            yield
            return
        reporting = asyncio.create_task(self._keep_reporting())
        try:
            yield
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            if not self._in_answer:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LAST):
                        await self._report()

    def told_by(self, handling: asyncio.Task[Document]) -> None:
        """The task was handled: an answer that says itself what was used needs no last report beside it."""
        if not handling.cancelled() and handling.exception() is None:
            answer = handling.result()
            self._in_answer = isinstance(answer, TaskResult) and answer.usage == self._meter.usage

    async def _keep_reporting(self) -> None:
        while True:
            await self._meter.report_due.wait()
            self._meter.report_due.clear()
            await self._report()

    async def _report(self) -> None:
        usage = self._meter.unreported()
        if usage is None:
            return
        self._number += 1
        document = UsageReport(run_id=self._ref.run_id, task_id=self._ref.task_id, usage=usage)
        try:
            await self._bus.publish(
                self._subject,
                codec.encode(document),
                schema=codec.schema_of(document),
                message_id=f"{self._ref.run_id}:{self._ref.task_id}:usage:{usage.delivery}:{self._number}",
                headers=self._headers,
            )
        except BusError as error:
            # The next report says all of it again, and so does the answer.
            self._log.warning("usage_report_failed", cause=error.message)
        else:
            self._meter.reported(usage)
