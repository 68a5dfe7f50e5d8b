"""A whole worker process whose executor uses tokens and money: all that is not real about it.

The contract's words say what it does: ``spend 10 tokens 0.01 USD every 0.02 s, 20 times``. It tells by the public hook alone.
Before it tells, it writes down in a file what it uses, so that a test knows it although the process is killed.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

from gatewright.contracts.vocabulary import ExecutorName
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirrors
from gatewright.sandbox import make_sandbox
from gatewright.service.tasks import run_service
from gatewright.services.worker.executors.port import ChangeExecutor, ExecutionResult, Job
from gatewright.services.worker.handler import WorkerHandler
from gatewright.services.worker.settings import Settings
from gatewright.workspace import Workspaces

ORDER = re.compile(r"spend (\d+) tokens ([0-9.]+) USD every ([0-9.]+) s, (\d+) times")
USED = "used.txt"


class SpendingExecutor:
    """``book`` is the file in which it writes what it uses."""

    def __init__(self, book: Path) -> None:
        self._book = book

    async def execute(self, job: Job) -> ExecutionResult:
        order = ORDER.search(job.contract.inputs.spec)
        assert order is not None
        tokens, dollars, pause, times = int(order[1]), float(order[2]), float(order[3]), int(order[4])
        for _ in range(times):
            self._write_down(f"{job.contract.task_id} {tokens} {dollars}\n")
            job.spend(tokens=tokens, cost_usd=dollars)
            await asyncio.sleep(pause)
        path = f"{job.contract.allowed_paths[0]}/spent.py".encode()
        tree = await job.mirror.write_tree(job.baseline, [FileChange(path, "100644", b"edited = True\n")])
        return ExecutionResult(tree, await job.mirror.diff(job.baseline, tree), {}, "spent")

    def _write_down(self, line: str) -> None:
        book = os.open(self._book, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(book, line.encode())
        finally:
            os.close(book)


def make_handler(settings: Settings) -> WorkerHandler:
    state = settings.directory("worker")
    sandbox = make_sandbox(settings.sandbox)
    executors: dict[ExecutorName, ChangeExecutor] = {"command": SpendingExecutor(settings.home / USED)}
    workspaces = Workspaces.for_sandbox(state / "workspaces", sandbox)
    return WorkerHandler(settings.agent_id, Mirrors(state / "mirrors"), executors, sandbox, workspaces)


if __name__ == "__main__":
    raise SystemExit(run_service("worker", make_handler, Settings))
