"""A candidate in, a test report out: rebuilt from baseline and patch, its acceptance commands run in the sandbox, in order."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gatewright.bus.task_handler import TaskContext
from gatewright.clock import timestamp
from gatewright.contracts import TaskContract, TestReport
from gatewright.contracts.reports import TestCommand
from gatewright.contracts.vocabulary import Agent, Artifact
from gatewright.errors import ConfigurationError, DeniedError, SandboxError
from gatewright.git.mirror import Mirrors
from gatewright.git.paths import display
from gatewright.sandbox import Limits, Sandbox, make_sandbox
from gatewright.task_inputs import Candidate, command_seconds, environment_prefix, rebuild_candidate, reference
from gatewright.workspace import Workspace, Workspaces
from services.testrunner.commands import AcceptanceCommand, first_failure, read_commands, summarise
from services.testrunner.settings import Settings

#: Paths that the note about edited files lists.
_MAX_LISTED = 1000


def make_handler(settings: Settings) -> TestRunnerHandler:
    """The handler of a process with these settings."""
    state = settings.directory("testrunner")
    sandbox = make_sandbox(settings.sandbox)
    workspaces = Workspaces.for_sandbox(state / "workspaces", sandbox)
    return TestRunnerHandler(settings.agent_id, Mirrors(state / "mirrors"), workspaces, sandbox, settings.environments)


@dataclass
class _Session:
    """What is known so far about one task."""

    started_at: str
    tree: str | None = None
    commands: list[TestCommand] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)


class TestRunnerHandler:
    """The test runner of id ``agent_id``; ``environments`` are the prefixes that the operator lists for it."""

    __test__ = False

    def __init__(
        self, agent_id: str, mirrors: Mirrors, workspaces: Workspaces, sandbox: Sandbox, environments: tuple[Path, ...]
    ) -> None:
        self._agent = Agent(role="TEST_RUNNER", agent_id=agent_id)
        self._mirrors = mirrors
        self._workspaces = workspaces
        self._sandbox = sandbox
        self._environments = environments

    async def probe(self) -> Mapping[str, str]:
        """How commands will run on this host. Raises SandboxError with the cause when they cannot."""
        report = await self._sandbox.probe()
        if not report.available:
            raise SandboxError(report.cause)
        return {"sandbox": self._sandbox.name, "workspaces": await self._workspaces.prepare()}

    async def handle(self, task: TaskContract, context: TaskContext) -> TestReport:
        """PASS when every command that must pass ended with 0; FAIL when one did not; ERROR when they could not be run.

        Raises MalformedError, GitError, ArtifactError, and other UnavailableErrors that another try may cure.
        """
        session = _Session(timestamp(context.clock.now()))
        try:
            await self._run(task, session, context)
        except (DeniedError, ConfigurationError, SandboxError) as error:
            return self._report(task, session, context, failure=f"{error.reason}: {error.message}")
        return self._report(task, session, context)

    async def _run(self, task: TaskContract, session: _Session, context: TaskContext) -> None:
        # First of all, so that an ERROR too says which candidate it is about.
        candidate = await rebuild_candidate(task, self._mirrors, context.artifacts)
        session.tree = candidate.tree
        commands = read_commands(task.acceptance_tests)
        prefix = environment_prefix(task.environment, self._environments)
        limits = Limits(wall_seconds=command_seconds(task))
        async with self._workspaces.open(candidate.mirror, candidate.baseline, candidate.tree) as workspace:
            for command in commands:
                session.commands.append(await self._run_one(command, workspace, prefix, limits, context))
                context.progress()
            session.artifacts += await _edited_files(candidate, workspace, context)

    async def _run_one(
        self, command: AcceptanceCommand, workspace: Workspace, prefix: Path | None, limits: Limits, context: TaskContext
    ) -> TestCommand:
        completed = await self._sandbox.run(command.argv, workspace=workspace, prefix=prefix, limits=limits)
        stdout, stderr = await asyncio.gather(_kept(completed.stdout, context), _kept(completed.stderr, context))
        return TestCommand(
            name=command.test.name,
            cmd_argv=command.argv,
            must_pass=command.test.must_pass,
            timeout_sec=limits.wall_seconds,
            exit_code=completed.exit_code,
            duration_sec=completed.duration_seconds,
            stdout=stdout,
            stderr=stderr,
            timed_out=completed.timed_out,
            truncated=completed.truncated,
        )

    def _report(self, task: TaskContract, session: _Session, context: TaskContext, *, failure: str | None = None) -> TestReport:
        failed = first_failure(session.commands)
        report = TestReport(
            run_id=task.log_refs.run_id,
            task_id=task.task_id,
            runner=self._agent,
            started_at=session.started_at,
            finished_at=timestamp(context.clock.now()),
            status="ERROR" if failure else "FAIL" if failed else "PASS",
            commands=tuple(session.commands),
            artifacts=tuple(session.artifacts),
            summary=summarise(session.commands, len(task.acceptance_tests)),
            tree=session.tree,
            sandbox=self._sandbox.name,
            failure=failure or failed,
        )
        context.log.info("tested", status=report.status, failure=report.failure)
        return report


async def _kept(output: bytes, context: TaskContext) -> str:
    """The URI of stored output; empty when there was none."""
    return await context.artifacts.put(output) if output else ""


async def _edited_files(candidate: Candidate, workspace: Workspace, context: TaskContext) -> list[Artifact]:
    """A note of the candidate's own files that the commands edited: tests that rewrite what they test prove little.

    What lands is the tree that was judged, whatever happened in the workspace.
    """
    try:
        changed = {change.path for change in await workspace.changes()}
    except DeniedError as error:
        note = f"{error.reason}: {error.message}\n".encode()
    else:
        entries = await candidate.mirror.files(candidate.tree) if changed else ()
        edited = sorted(entry.path for entry in entries if entry.path in changed)
        note = "".join(f"{display(path)}\n" for path in edited[:_MAX_LISTED]).encode()
    if not note:
        return []
    await context.artifacts.put(note)
    return [reference("workspace_changes", note)]
