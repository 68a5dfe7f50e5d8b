"""A reviewer that waits for two seconds before it judges, as one that asks a model does; all else of it is the real one."""

from __future__ import annotations

import asyncio

from gatewright.contracts import Error, ReviewReport, TaskContract
from gatewright.service.tasks import run_service
from gatewright.services.reviewer import handler
from gatewright.services.reviewer.handler import Settings
from gatewright.tasks.handler import TaskContext

SECONDS = 2.0


class WaitingReviewer:
    """The real reviewer, later."""

    def __init__(self, real: handler.ReviewerHandler) -> None:
        self._real = real

    async def handle(self, task: TaskContract, context: TaskContext) -> ReviewReport | Error:
        await asyncio.sleep(SECONDS)
        return await self._real.handle(task, context)


def make_handler(settings: Settings) -> WaitingReviewer:
    return WaitingReviewer(handler.make_handler(settings))


if __name__ == "__main__":
    raise SystemExit(run_service("reviewer", make_handler, Settings, before=handler.confine))
