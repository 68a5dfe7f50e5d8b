"""A whole worker process that does what the task's spec says: for tests of the life of a process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping

from gatewright.contracts import TaskContract, TaskResult
from gatewright.errors import SandboxError
from gatewright.service.settings import ServiceSettings
from gatewright.service.tasks import run_service
from gatewright.tasks.runner import TaskContext
from tests.tasks.role_at_work import make_result


class Settings(ServiceSettings):
    can_work: bool = True
    starts: bool = True


class Echo:
    def __init__(self, *, can_work: bool) -> None:
        self._can_work = can_work

    async def probe(self) -> Mapping[str, str]:
        if not self._can_work:
            raise SandboxError("no user namespaces here")
        return {}

    async def handle(self, task: TaskContract, context: TaskContext) -> TaskResult:
        match task.inputs.spec.split():
            case ["sleep", seconds]:
                await asyncio.sleep(float(seconds))
            case ["die", "once"] if context.attempts == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            case ["crash"]:
                raise RuntimeError("token=hunter2")
        return make_result(task, summary=str(context.attempts))


def make_handler(settings: Settings) -> Echo:
    if not settings.starts:
        raise RuntimeError("cannot start: password=hunter2")
    return Echo(can_work=settings.can_work)


if __name__ == "__main__":
    raise SystemExit(run_service("worker", make_handler, Settings))
