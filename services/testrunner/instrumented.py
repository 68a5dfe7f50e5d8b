"""Runs one command with a reporter, in one workspace, and collects its reports."""

from __future__ import annotations

import asyncio
import secrets
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from gatewright.ecosystems.pipe import PIPE, ReportPipe, report_pipe
from gatewright.ecosystems.port import Framework, Purpose, RecordedCall, ReporterOrder, TreeFiles, write_instruments
from gatewright.ecosystems.records import LONGEST, RunnerReport, read_records
from gatewright.sandbox import Additions, Completed, Sandbox, SandboxLimits
from gatewright.sandbox.environments import Shown
from gatewright.sandbox.port import ADDITIONS_INSIDE
from gatewright.services.testrunner.commands import BuiltBefore, CommandPlace
from gatewright.workspace import Workspace


async def build_earlier(place: CommandPlace, workspace: Workspace, sandbox: Sandbox) -> bool:
    """Build in ``workspace`` what the contract's earlier commands built in that of ``place``. Return whether all of it
    succeeded.

    A failure here makes the next command fail, or report no tests.

    Raises:
        SandboxError: the sandbox failed.
        ConfigurationError: it is not available.
    """
    is_built = True
    for argv in place.earlier:
        completed = await sandbox.run(argv, workspace=workspace, prefix=place.prefix, limits=place.limits)
        is_built = is_built and completed.exit_code == 0
    return is_built


@dataclass(frozen=True, slots=True)
class AskedRun:
    """Why a command is run, and what its reporter is asked for: see ``ReporterOrder``."""

    purpose: Purpose
    only: tuple[str, ...] = ()
    planted: tuple[str, ...] = ()
    lines: Mapping[str, Sequence[int]] = field(default_factory=dict)
    took: Mapping[str, int] = field(default_factory=dict)
    checks: bool = False
    recorded: tuple[str, ...] = ()
    calls: tuple[RecordedCall, ...] = ()


#: The contract's own run; every other one is about its tests alone.
THE_COMMAND: Final = AskedRun(Purpose.ALL, checks=True)


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A command, the framework that it starts, and how it is run; the same for each of its workspaces."""

    argv: tuple[str, ...]
    framework: Framework
    sandbox: Sandbox
    prefix: Shown
    limits: SandboxLimits
    built: tuple[BuiltBefore, ...] = ()

    @property
    def additions_inside(self) -> str:
        """Return the folder of our files inside the sandbox; empty without one, where it changes."""
        return ADDITIONS_INSIDE if self.sandbox.name != "none" else ""

    async def run(self, workspace: Workspace, tree: TreeFiles, asked: AskedRun) -> tuple[Completed, RunnerReport]:
        """Run the command.

        Args:
            workspace: the workspace.
            tree: the files that it shows.
            asked: the run's parameters.

        Returns:
            How it ended, and its reports.

        Raises:
            SandboxError: the sandbox failed.
            ConfigurationError: it is not available.
            GitError: the tree cannot be read.
        """
        order, additions = await self._additions(workspace, tree, asked)
        with report_pipe(additions.folder) as pipe:
            completed = await self._start(workspace, additions)
            return completed, await _read_pipe(pipe, order)

    async def run_until_failure(
        self, workspace: Workspace, tree: TreeFiles, *, only: Sequence[str] = ()
    ) -> tuple[Completed | None, RunnerReport]:
        """Run all tests, or ``only`` these, and stop at the first failure; the result is None then."""
        asked = AskedRun(Purpose.COLLECT if only else Purpose.ALL, tuple(only))
        order, additions = await self._additions(workspace, tree, asked)
        first = _FirstFailure(order.token)
        with report_pipe(additions.folder, first.hear) as pipe:
            running = asyncio.create_task(self._start(workspace, additions))
            failing = asyncio.create_task(first.failed.wait())
            try:
                await asyncio.wait((running, failing), return_when=asyncio.FIRST_COMPLETED)
                completed = running.result() if running.done() else None
            finally:
                for task in (running, failing):
                    task.cancel()
                await asyncio.wait((running, failing))
            return completed, await _read_pipe(pipe, order)

    async def _start(self, workspace: Workspace, additions: Additions) -> Completed:
        return await self.sandbox.run(
            self.argv, workspace=workspace, prefix=self.prefix, limits=self.limits, additions=additions
        )

    async def _additions(self, workspace: Workspace, tree: TreeFiles, asked: AskedRun) -> tuple[ReporterOrder, Additions]:
        folder = workspace.task / f"additions-{uuid.uuid4().hex}"
        folder.mkdir(mode=0o755)
        folder.chmod(0o755)  # independent of the umask
        confined = self.sandbox.name != "none"
        pipe_inside = f"{ADDITIONS_INSIDE if confined else folder}/{PIPE}"
        files_inside = workspace.path_inside if confined or workspace.path is None else str(workspace.path)
        token = secrets.token_hex(16)
        asked_for = {each.name: getattr(asked, each.name) for each in fields(asked)}
        order = ReporterOrder(token=token, pipe=pipe_inside, workspace=files_inside, **asked_for)
        instruments = await self.framework.instruments(self.argv, tree, order)
        await asyncio.to_thread(write_instruments, folder, instruments)
        caches = tuple(each.for_run(workspace) for each in self.built) if workspace.overlay else ()
        return order, Additions(folder, instruments.variables, caches)


class _FirstFailure:
    """Reads a reporter's output until a test has failed."""

    def __init__(self, token: str) -> None:
        self.failed = asyncio.Event()
        self._token = token
        self._rest = b""

    def hear(self, piece: bytes) -> None:
        """Process the next piece of output."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        # More than any record has: it is none of ours.
        self._rest = self._rest if len(self._rest) <= LONGEST else b""
        if not self.failed.is_set() and "failed" in read_records(lines, self._token).outcomes.values():
            self.failed.set()


async def _read_pipe(pipe: ReportPipe, order: ReporterOrder) -> RunnerReport:
    lines, overflow = pipe.lines(), pipe.overflow
    report = await asyncio.to_thread(read_records, lines, order.token)
    report.overflow |= overflow
    return report
