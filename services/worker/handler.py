"""A shard contract in, a task result out: the patch as an artifact, and the worker's own view of it, which proves nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gatewright.artifacts import uri_of
from gatewright.bus.task_handler import TaskContext
from gatewright.clock import timestamp
from gatewright.contracts import TaskContract, TaskResult, codec
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import ConfigurationError, DeniedError, MalformedError, SandboxError
from gatewright.git.changes import Change
from gatewright.git.mirror import Mirrors
from gatewright.sandbox import Sandbox, make_sandbox
from gatewright.task_inputs import open_baseline, reference
from gatewright.worker_role import answers
from gatewright.workspace import Workspaces
from services.worker.executors.command import CommandExecutor
from services.worker.executors.patch import PatchExecutor
from services.worker.executors.port import Execution, Executor, Failure, Job
from services.worker.executors.reply import ReplyExecutor
from services.worker.report import Outcome, task_result, work_report
from services.worker.settings import Settings


def make_handler(settings: Settings) -> WorkerHandler:
    """The handler of a process with these settings."""
    state = settings.directory("worker")
    sandbox = make_sandbox(settings.sandbox)
    workspaces = Workspaces.for_sandbox(state / "workspaces", sandbox)
    executors: Mapping[str, Executor] = {
        "command": CommandExecutor(workspaces, sandbox, settings.environments),
        "patch": PatchExecutor(),
        "reply": ReplyExecutor(),
    }
    return WorkerHandler(settings.agent_id, Mirrors(state / "mirrors"), executors, sandbox, workspaces)


class WorkerHandler:
    """A worker of id ``agent_id``; ``executors`` by the kind that contracts name."""

    def __init__(
        self,
        agent_id: str,
        mirrors: Mirrors,
        executors: Mapping[str, Executor],
        sandbox: Sandbox,
        workspaces: Workspaces,
    ) -> None:
        self._agent = Agent(role="WORKER", agent_id=agent_id)
        self._mirrors = mirrors
        self._executors = executors
        self._sandbox = sandbox
        self._workspaces = workspaces

    async def probe(self) -> Mapping[str, str]:
        """How commands will run on this host. Raises SandboxError with the cause when they cannot."""
        report = await self._sandbox.probe()
        if not report.available:
            raise SandboxError(report.cause)
        return {"sandbox": self._sandbox.name, "workspaces": await self._workspaces.prepare()}

    async def handle(self, task: TaskContract, context: TaskContext) -> TaskResult:
        """Do the task and say what came of it: SUCCESS, FAILED, or BLOCKED where this host cannot do it.

        Raises UnavailableError for what another try may cure.
        """
        started = timestamp(context.clock.now())
        changes: tuple[Change, ...] = ()
        try:
            execution, changes = await self._execute(task, context)
        except SandboxError as error:
            execution = Execution(failure=Failure(error.reason, error.message, blocked=True))
        except (DeniedError, MalformedError, ConfigurationError) as error:
            execution = Execution(failure=Failure(error.reason, error.message))
        finished = timestamp(context.clock.now())
        logs = {name: data for name, data in execution.logs.items() if data}
        references = tuple(reference(name, data) for name, data in logs.items())
        patch = uri_of(execution.patch) if execution.patch else ""
        outcome = Outcome(task, self._agent, started, finished, execution, changes, patch, references)
        report = codec.encode(work_report(outcome))
        # References are digests, so everything can be stored at once.
        stored = [data for data in (execution.patch, report, *logs.values()) if data]
        await asyncio.gather(*(context.artifacts.put(data) for data in stored))
        result = task_result(outcome, reference("work_report", report))
        context.log.info("worked", status=result.status, changed=len(changes), failure=result.failure)
        return result

    async def _execute(self, task: TaskContract, context: TaskContext) -> tuple[Execution, tuple[Change, ...]]:
        if task.executor is None:
            raise DeniedError("the contract does not say how the change is made", code="executor_missing")
        given = answers(task.executor)
        if task.attempt > len(given):
            words = f"attempt {task.attempt}, and the {task.executor.kind} executor has {len(given)} answer(s)"
            raise DeniedError(words, code="no_further_answer")
        mirror, baseline = await open_baseline(task, self._mirrors)
        job = Job(task, given[task.attempt - 1], mirror, baseline, context.artifacts)
        execution = await self._executors[task.executor.kind].execute(job)
        changes = await mirror.changes(baseline, execution.tree) if execution.tree else ()
        return execution, changes
