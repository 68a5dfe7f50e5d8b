"""Tells the gatekeeper what a task uses up while it is being done, so that its run can be stopped in time.

Stored like an answer, on the role's result subject: what was told is not lost with the worker, nor with the gatekeeper.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from gatewright.bus.meter import Meter
from gatewright.bus.port import Bus
from gatewright.bus.task_protocol import TaskRef
from gatewright.bus.topology import Role, result_subject
from gatewright.contracts import UsageReport, codec
from gatewright.errors import BusError
from gatewright.telemetry.logs import Logger

#: Seconds for the last report of a task; its answer says the same once more.
_LAST = 2.0


@contextlib.asynccontextmanager
async def usage_reports(bus: Bus, role: Role, ref: TaskRef, meter: Meter, log: Logger) -> AsyncIterator[None]:
    """While the body runs, report every step of ``meter``; what is left is reported at the end, however the body ends."""
    if not meter.metered:
        yield
        return
    numbers = iter(range(1, 1 << 62))

    async def report() -> None:
        usage = meter.unreported()
        if usage is None:
            return
        document = UsageReport(run_id=ref.run_id, task_id=ref.task_id, usage=usage)
        try:
            await bus.publish(
                result_subject(role),
                codec.encode(document),
                schema=codec.schema_of(document),
                message_id=f"{ref.run_id}:{ref.task_id}:usage:{usage.delivery}:{next(numbers)}",
            )
        except BusError as error:
            # The next report says all of it again, and so does the answer.
            log.warning("usage_report_failed", cause=error.message)
        else:
            meter.reported(usage)

    async def keep_reporting() -> None:
        while True:
            await meter.report_due.wait()
            meter.report_due.clear()
            await report()

    reporting = asyncio.create_task(keep_reporting())
    try:
        yield
    finally:
        reporting.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST):
                await report()
