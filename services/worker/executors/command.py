"""Runs the contract's command in the sandbox, and takes what it changed in the workspace as the change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gatewright import scope
from gatewright.budgets import command_seconds
from gatewright.environment_state import EnvironmentSnapshot, refuse_changed, see_environment
from gatewright.errors import DeniedError
from gatewright.git.changes import FileChange
from gatewright.sandbox import Completed, Sandbox, SandboxLimits, parse_command
from gatewright.sandbox.environments import Shown
from gatewright.sandbox.programs import NOT_FOUND, not_found
from gatewright.service.command_settings import task_limits
from gatewright.services.worker.executors.blocked_file import take_blocked
from gatewright.services.worker.executors.port import ExecutionFailure, ExecutionResult, Job
from gatewright.services.worker.executors.tool_files import LEFT_OUT_LOG, ToolFiles, tool_files
from gatewright.tasks.inputs import usable_environment
from gatewright.tasks.provided import provided_files
from gatewright.telemetry.redaction import redact_text
from gatewright.workspace import Workspaces
from gatewright.workspace.border import met_border

#: Characters of the last line that a failure quotes.
_QUOTED = 300


class CommandExecutor:
    """``environments`` are the prefixes that the operator lists for this worker, ``limits`` what one command may use."""

    def __init__(
        self, workspaces: Workspaces, sandbox: Sandbox, environments: Sequence[Path], limits: SandboxLimits | None = None
    ) -> None:
        self._workspaces = workspaces
        self._sandbox = sandbox
        self._environments = environments
        self._limits = limits or SandboxLimits()

    async def execute(self, job: Job) -> ExecutionResult:
        """The workspace after the command, compared with the baseline: by looking at files, never by running git there.

        Raises CommandRefusedError, ScopeError, DeniedError (``environment_not_allowed``, ``environment_tracked``,
        ``special_file``, ``git_path``, ``place_not_free``), SandboxError.
        """
        argv = scope.expand_paths(parse_command(job.answer), job.contract.allowed_paths)
        prefix = await usable_environment(job.contract, self._environments, job.mirror, job.baseline)
        limits = task_limits(self._limits, job.contract, command_seconds(job.contract))
        done = await self._run_argv(job, argv, prefix, limits, plain=False)
        how = ""
        if done.met_border:
            # Once more from the beginning, on the same files without a border, and in what is left of the time.
            rest = replace(limits, wall_seconds=max(1.0, limits.wall_seconds - done.completed.duration_seconds))
            done, how = await self._run_argv(job, argv, prefix, rest, plain=True), " in a plain copy of the repository"
        logs = {"stdout": done.completed.stdout, "stderr": done.completed.stderr}
        if done.failure is not None:
            seen, attempts = done.environment, done.completed.attempts
            return ExecutionResult(logs=logs, failure=done.failure, environment=seen, attempts=attempts)
        changes, blocked = await take_blocked(done.changes, job.mirror, job.baseline)
        job.kept[LEFT_OUT_LOG] = done.tools.log
        tree = await job.mirror.write_tree(job.baseline, changes)
        patch = await job.mirror.diff(job.baseline, tree)
        summary = f"the command ended with 0 after {done.completed.duration_seconds:.1f} s{how}"
        return ExecutionResult(
            tree,
            patch,
            logs,
            summary,
            environment=done.environment,
            blocked=blocked,
            left_out=done.tools.left_out,
            attempts=done.completed.attempts,
        )

    async def _run_argv(self, job: Job, argv: Sequence[str], prefix: Shown, limits: SandboxLimits, *, plain: bool) -> _Done:
        planted = await provided_files(job.contract, job.artifacts)
        tools = await tool_files(job.mirror, job.baseline, job.contract)
        async with self._workspaces.open(job.mirror, job.baseline, plain=plain, planted=planted) as workspace:
            seen = await asyncio.to_thread(see_environment, prefix)
            completed = await self._sandbox.run(argv, workspace=workspace, prefix=prefix, limits=limits)
            changed = await asyncio.to_thread(_changed, seen)
            failure = changed or _failure(completed, limits, not_found(argv[0], prefix))
            if failure is not None:
                met = changed is None and met_border(workspace, completed)
                return _Done(completed, failure, (), seen, tools, met_border=met)
            return _Done(completed, None, await workspace.changes(tools.leave_out), seen, tools, met_border=False)


@dataclass(frozen=True, slots=True)
class _Done:
    """One run of the command. ``met_border``: it failed at the border of an overlay, and would not in a plain copy."""

    completed: Completed
    failure: ExecutionFailure | None
    changes: tuple[FileChange, ...]
    environment: EnvironmentSnapshot | None
    tools: ToolFiles
    met_border: bool


def _changed(seen: EnvironmentSnapshot | None) -> ExecutionFailure | None:
    try:
        refuse_changed(seen)
    except DeniedError as error:
        return ExecutionFailure(error.reason, error.message)
    return None


def _failure(completed: Completed, limits: SandboxLimits, missing: str | None) -> ExecutionFailure | None:
    """Why there is no change; ``missing`` are words for a program that does not exist."""
    if completed.timed_out:
        return ExecutionFailure("task_timeout", f"the command was killed after {limits.wall_seconds:g} s")
    if completed.stopped:
        return ExecutionFailure("executor_failed", f"the command was killed at its limit of {completed.stopped}")
    if completed.exit_code == NOT_FOUND and missing:
        return ExecutionFailure("executor_failed", f"exit {NOT_FOUND}: {missing}")
    if completed.exit_code != 0:
        return ExecutionFailure("executor_failed", f"exit {completed.exit_code}: {_last_line(completed)}")
    return None


def _last_line(completed: Completed) -> str:
    lines = [line for line in (completed.stderr or completed.stdout).decode("utf-8", "replace").splitlines() if line.strip()]
    text = redact_text(lines[-1].strip())[:_QUOTED] if lines else "it printed nothing"
    return "".join(character if character.isprintable() else "?" for character in text)
