"""Reports the usage of a task in progress to the gatekeeper, so that its run can be stopped in time.

Stored like an answer, on the role's result subject, so that a crash of worker or gatekeeper loses no report.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Literal

from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import Role, result_subject
from gatewright.contracts import TaskResult, UsageReport, codec
from gatewright.contracts.activity import MOST_LEFT, InterruptedWork
from gatewright.contracts.vocabulary import Artifact, Document
from gatewright.errors import BusError
from gatewright.tasks.budget_meter import BudgetMeter
from gatewright.tasks.protocol import TaskRef, carried_headers
from gatewright.tasks.watchdog import Interruption
from gatewright.telemetry.logs import Logger

#: Seconds for the last report of a task.
_LAST = 5.0

Why = Literal["cancelled", "timed_out", "released", "failed"]


class UsageReports:
    """Of one delivery of a task: the first turn of a model, every step of its budget, and the account of interrupted work.

    ``left`` names the artifacts of work that ends without an answer. ``asks``: a model may have been asked, so that the
    gatekeeper waits for that account even where nothing was used.
    """

    def __init__(
        self,
        bus: Bus,
        role: Role,
        task: Message,
        ref: TaskRef,
        meter: BudgetMeter,
        log: Logger,
        *,
        left: Sequence[Artifact] = (),
        asks: bool = False,
    ) -> None:
        self._bus = bus
        self._subject = result_subject(role)
        self._ref = ref
        self._headers = carried_headers(task)
        self._meter = meter
        self._log = log
        self._left = left
        self._asks = asks
        self._number = 0
        self._in_answer = False
        self._interrupted: Why | None = None

    @contextlib.asynccontextmanager
    async def sent(self) -> AsyncIterator[None]:
        """While the body runs, report every step of the meter; what is left is reported at the end, however the body ends."""
        reporting = asyncio.create_task(self._keep_reporting())
        try:
            yield
        finally:
            reporting.cancel()
            await asyncio.gather(reporting, return_exceptions=True)
            if not self._in_answer:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LAST):
                        await self._send_usage(self._account())

    def handled(self, handling: asyncio.Task[Document], interruption: Interruption | None) -> None:
        """The work has ended. An answer that names what was used needs no last report; work without an answer needs one."""
        if handling.cancelled() or handling.exception() is not None:
            self._interrupted = interruption or "failed"
            return
        answer = handling.result()
        self._in_answer = isinstance(answer, TaskResult) and answer.usage == self._meter.usage
        if interruption == "cancelled":  # the answer is not published: its run has ended
            self._interrupted, self._in_answer = interruption, False
            self._left = answer.artifacts[:MOST_LEFT] if isinstance(answer, TaskResult) else self._left

    def _account(self) -> InterruptedWork | None:
        """Return the last report's content on interrupted work that may have called a model."""
        if self._interrupted is None or not (self._asks or self._left or self._meter.usage is not None):
            return None
        return InterruptedWork(why=self._interrupted, artifacts=tuple(self._left))

    async def _keep_reporting(self) -> None:
        while True:
            await self._meter.report_due.wait()
            self._meter.report_due.clear()
            await self._send_usage()

    async def _send_usage(self, account: InterruptedWork | None = None) -> None:
        usage = self._meter.account if account is not None else self._meter.unreported_usage()
        if usage is None:
            return
        self._number += 1
        document = UsageReport(run_id=self._ref.run_id, task_id=self._ref.task_id, usage=usage, interrupted=account)
        try:
            await self._bus.publish(
                self._subject,
                codec.encode(document),
                schema=codec.schema_of(document),
                message_id=f"{self._ref.run_id}:{self._ref.task_id}:usage:{usage.delivery}:{self._number}",
                headers=self._headers,
            )
        except BusError as error:
            # The next report repeats all of it, and so does the answer.
            self._log.warning("usage_report_failed", cause=error.message)
        else:
            self._meter.reported(usage)
