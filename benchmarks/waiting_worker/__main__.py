"""A worker whose executor waits for a second and changes nothing; all else of it is the real one, the bus and git included.

It shows what the system adds to work that costs nothing. It has no sandbox, because there is nothing to contain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gatewright.git.mirror import Mirrors
from gatewright.sandbox import make_sandbox
from gatewright.service.tasks import run_service
from gatewright.services.worker.executors.port import ExecutionResult, Job
from gatewright.services.worker.handler import WorkerHandler
from gatewright.services.worker.settings import Settings
from gatewright.workspace import Workspaces

SECONDS = 1.0


class WaitingExecutor:
    """Takes ``SECONDS`` of time and none of the processor's."""

    async def execute(self, job: Job) -> ExecutionResult:
        await asyncio.sleep(SECONDS)
        return ExecutionResult(await job.mirror.tree_of(job.baseline), b"", {}, "waited")


class WaitingWorker(WorkerHandler):
    """Ready at once: there is nothing on the host that it needs."""

    async def probe(self) -> Mapping[str, str]:
        return {"executor": "waits"}


def make_handler(settings: Settings) -> WaitingWorker:
    state = settings.directory("worker")
    sandbox = make_sandbox("none")
    return WaitingWorker(
        settings.agent_id,
        Mirrors(state / "mirrors"),
        {"command": WaitingExecutor()},
        sandbox,
        Workspaces.for_sandbox(state / "workspaces", sandbox),
        settings.scanner(),
    )


if __name__ == "__main__":
    raise SystemExit(run_service("worker", make_handler, Settings))
