"""Handlers and buses that do what a test of the runner wants of them."""

from __future__ import annotations

import asyncio

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import PublishAck
from gatewright.contracts import TaskContract
from gatewright.contracts.vocabulary import Document, TimeoutRetry
from gatewright.errors import BusError
from gatewright.tasks.runner import TaskContext
from tests.factories import make_contract
from tests.tasks.role_at_work import Work, make_result


def sleeping(seconds: float) -> Work:
    async def work(task: TaskContract, _context: TaskContext) -> Document:
        await asyncio.sleep(seconds)
        return make_result(task)

    return work


def raising(*errors: BaseException) -> Work:
    """Raises these one after the other, then does its work."""
    left = list(errors)

    async def work(task: TaskContract, _context: TaskContext) -> Document:
        if left:
            raise left.pop(0)
        return make_result(task)

    return work


def make_short_contract(seconds: float) -> TaskContract:
    limit = TimeoutRetry(timeout_sec=seconds, max_retries=0, retry_backoff_sec=0)
    return make_contract(timeout_retry=limit)


class BrokenBus(MemoryBus):
    """Publishing fails ``faults`` times."""

    faults = 0

    async def publish(self, *arguments: object, **options: object) -> PublishAck:
        if self.faults:
            self.faults -= 1
            raise BusError("the server is away")
        return await super().publish(*arguments, **options)  # type: ignore[arg-type]  # handed on as they came
