"""A candidate in, a test report out: rebuilt from baseline and patch, its acceptance commands run in the sandbox, in order."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gatewright.artifacts import ArtifactPort, stored_digest
from gatewright.budgets import command_seconds
from gatewright.clock import timestamp
from gatewright.contracts import TaskContract, TestReport
from gatewright.contracts.reports import TestCommand
from gatewright.contracts.vocabulary import Agent, Artifact, InventorySummary, MutationBounds, Surroundings
from gatewright.ecosystems.detection import builds
from gatewright.environment_inventory.pulls import ARTIFACT as EGRESS_LOG
from gatewright.environment_inventory.summary import ARTIFACT, summary_of
from gatewright.environment_state import EnvironmentSnapshot
from gatewright.errors import ConfigurationError, DeniedError, SandboxError
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirrors
from gatewright.git.modes import FILE
from gatewright.host_facts import surroundings
from gatewright.order_artifacts.hidden_acceptance import CHANGES as HIDDEN_CHANGES
from gatewright.queue.commands import read_run_id_of_test
from gatewright.rules import transfers
from gatewright.rules.reports.tests import passed
from gatewright.sandbox import Sandbox, SandboxLimits, make_sandbox
from gatewright.sandbox.environments import Environments
from gatewright.secrets.documents import redact_document
from gatewright.secrets.redaction import REDACTIONS, Redaction, record_of, redact_output
from gatewright.secrets.scanner import SecretScanner
from gatewright.service.command_settings import task_limits
from gatewright.services.testrunner.build_cache import BuildCache
from gatewright.services.testrunner.bytecode_cache import BytecodeCache
from gatewright.services.testrunner.commands import (
    AcceptanceCommand,
    BaselineEnvironment,
    BuiltBefore,
    CommandPlace,
    first_failure,
    read_commands,
    summarise,
)
from gatewright.services.testrunner.edits import find_edits
from gatewright.services.testrunner.hiding import refuse_shadowing
from gatewright.services.testrunner.inventories import list_environment
from gatewright.services.testrunner.known_environments import KnownEnvironments, SeenEnvironment
from gatewright.services.testrunner.proving import Prover
from gatewright.services.testrunner.settings import Settings
from gatewright.services.testrunner.tables import Tables
from gatewright.tasks.command_host import probe_commands, reported_attempts
from gatewright.tasks.handler import TaskContext
from gatewright.tasks.inputs import (
    RebuiltCandidate,
    listed_environments,
    rebuild_candidate,
    reference,
    refuse_missing_tools,
    usable_environment,
)
from gatewright.tasks.provided import hidden_contents, provided_files
from gatewright.telemetry.redaction import redact_text
from gatewright.workspace import Workspace, Workspaces
from gatewright.workspace.border import met_border
from gatewright.workspace.bytecode import Bytecode
from gatewright.workspace.history import HistoryRules, WantedHistory

#: Commits that tests see: as many as most projects make between two tags.
_COMMITS: Final = 1_000


def make_handler(settings: Settings) -> TestRunnerHandler:
    """The handler of a process with these settings."""
    state = settings.directory("testrunner")
    sandbox = make_sandbox(settings.sandbox)
    mirrors, scanner = settings.open_mirrors("testrunner"), settings.scanner()
    rules = HistoryRules(
        _COMMITS, lambda _path: False, lambda content: any(True for _ in scanner.find(content)), has_past=False
    )
    # The manifest of a transfer names no history, and a test's output may reach a model.
    history = None if (settings.policies / transfers.FILE).exists() else WantedHistory(rules, scanner.name)
    workspaces = Workspaces.for_sandbox(state / "workspaces", sandbox, history)
    limits = settings.limits()
    kept = KeptResults(
        Tables(state / "tables"),
        BytecodeCache(state / "bytecode", sandbox, workspaces),
        BuildCache(state / "builds", sandbox, workspaces),
    )
    return TestRunnerHandler(
        settings.agent_id, mirrors, workspaces, sandbox, settings.allowed_environments, scanner, limits, kept
    )


@dataclass(frozen=True, slots=True)
class KeptResults:
    """What a test runner has found out, for the tasks that come."""

    tables: Tables
    bytecode: BytecodeCache
    builds: BuildCache


@dataclass
class _Session:
    """What is known so far about one task."""

    started_at: str
    tree: str | None = None
    commands: list[TestCommand] = field(default_factory=list)
    test_files: dict[int, frozenset[str]] = field(default_factory=dict)
    artifacts: list[Artifact] = field(default_factory=list)
    redactions: list[Redaction] = field(default_factory=list)
    prefix: Environments | None = None
    environment: EnvironmentSnapshot | None = None
    inventory: InventorySummary | None = None

    def begin_again(self) -> None:
        """Discard the commands' results in an overlay, except the record of a command that reached its border, as evidence."""
        self.artifacts = [
            Artifact(name=f"overlay.{self.commands[-1].name}.{name}", uri=uri, sha256=stored_digest(uri))
            for name, uri in (("stdout", self.commands[-1].stdout), ("stderr", self.commands[-1].stderr))
            if uri
        ]
        self.commands, self.inventory = [], None
        self.test_files = {}

    def go_back_to(self, earlier: _Session, environment: EnvironmentSnapshot | None) -> None:
        """What was known before commands were shown ``environment``: they may begin again in another."""
        self.commands, self.test_files = [], {}
        self.artifacts, self.redactions = [*earlier.artifacts], [*earlier.redactions]
        self.environment, self.inventory = environment, None


@dataclass(frozen=True, slots=True)
class _Shown:
    """What all commands of a task are shown."""

    candidate: RebuiltCandidate
    prefix: Environments | None
    limits: SandboxLimits
    given: Mapping[bytes, bytes]
    until: float | None
    compiled: Mapping[bytes, Bytecode]
    built: tuple[BuiltBefore, ...]
    environment: SeenEnvironment
    tests_base: bool
    before: BaselineEnvironment | None = None

    def in_workspace(self, candidate: RebuiltCandidate, workspace: Workspace) -> CommandPlace:
        """The place of commands in a ``workspace`` of ``candidate``, which may have hidden files besides."""
        digest, confirmed = _digest_surroundings(self.environment.snapshot, self.given), self.environment.confirmed
        return CommandPlace(
            candidate,
            workspace,
            self.prefix,
            self.limits,
            digest,
            self.given,
            until=self.until,
            compiled=self.compiled,
            built=self.built,
            confirmed=confirmed,
            tests_base=self.tests_base,
            before=self.before,
        )


class _BorderMetError(Exception):
    """A command failed at the border of an overlay, and would not in a plain copy."""


class TestRunnerHandler:
    """The test runner of id ``agent_id``; ``environments`` are the prefixes that the operator lists for it."""

    __test__ = False

    def __init__(
        self,
        agent_id: str,
        mirrors: Mirrors,
        workspaces: Workspaces,
        sandbox: Sandbox,
        environments: Sequence[Path],
        scanner: SecretScanner | None = None,
        limits: SandboxLimits | None = None,
        kept: KeptResults | None = None,
    ) -> None:
        self._agent = Agent(role="TEST_RUNNER", agent_id=agent_id)
        self._mirrors = mirrors
        self._workspaces = workspaces
        self._sandbox = sandbox
        self._environments = environments
        self._scanner = scanner or SecretScanner()
        self._limits = limits or SandboxLimits()
        kept = kept or KeptResults(
            Tables(None), BytecodeCache(None, sandbox, workspaces), BuildCache(None, sandbox, workspaces)
        )
        self._bytecode = kept.bytecode
        self._builds = kept.builds
        self._tables = kept.tables
        self._known = KnownEnvironments(confined=sandbox.name != "none")
        self._prover = Prover(sandbox, workspaces, kept.tables)
        self._walls = {"sandbox": sandbox.name, "probe": "not finished", **self._limits.facts()}

    async def probe(self) -> Mapping[str, str]:
        """How commands will run on this host, and what looks for secrets.

        Raises SandboxError or ConfigurationError with the cause when they cannot be had.
        """
        host = await probe_commands(self._sandbox, self._workspaces, self._scanner, self._limits.facts())
        self._walls = host.walls
        return host.summary

    async def handle(self, task: TaskContract, context: TaskContext) -> TestReport:
        """PASS when every command that must pass ended with 0; FAIL when one did not; ERROR when they could not be run.

        Raises MalformedError, GitError, ArtifactError, and other UnavailableErrors that another try may cure.
        """
        session = _Session(timestamp(context.clock.now()))
        failure = None
        try:
            try:
                await self._run_commands(task, session, context)
            except _BorderMetError:
                session.begin_again()
                await self._run_commands(task, session, context, plain=True)
        except (DeniedError, ConfigurationError, SandboxError) as error:
            failure = redact_text(f"{error.reason}: {error.message}")
        report, _ = redact_document(self._build_report(task, session, context, failure=failure), self._scanner)
        return replace(report, surroundings=await asyncio.to_thread(self._surroundings, task, session))

    def _surroundings(self, task: TaskContract, session: _Session) -> Surroundings:
        """What the commands were run with; the prefix only where it is listed here."""
        prefix = None
        with contextlib.suppress(DeniedError):
            prefix = listed_environments(task, self._environments)
        versions = {"secret_scanner": self._scanner.name}
        walls = dict(self._walls) | task_limits(self._limits, task, command_seconds(task)).facts()
        found = surroundings(sandbox=walls, prefix=prefix, versions=versions, environment=session.environment)
        return replace(found, inventory=session.inventory)

    async def _run_commands(self, task: TaskContract, session: _Session, context: TaskContext, *, plain: bool = False) -> None:
        seconds = task.budget.wall_sec if task.budget is not None else None
        until = None if seconds is None else time.monotonic() + seconds
        # First, so that an ERROR report names its candidate too.
        candidate = await rebuild_candidate(task, self._mirrors, context.artifacts)
        session.tree = candidate.tree
        commands = read_commands(task.acceptance_tests)
        prefix = await usable_environment(task, self._environments, candidate.mirror, candidate.baseline)
        refuse_missing_tools(task, self._environments)
        session.prefix = prefix
        await refuse_shadowing(prefix, candidate.mirror, candidate.tree)
        limits = task_limits(self._limits, task, command_seconds(task))
        given = await provided_files(task, context.artifacts)
        argvs = [command.argv for command in commands]
        tests_base = read_run_id_of_test(task.log_refs.run_id) is not None
        earlier = dataclasses.replace(session, artifacts=[*session.artifacts], redactions=[*session.redactions])

        async def use(seen: SeenEnvironment, before: BaselineEnvironment | None = None) -> None:
            session.go_back_to(earlier, seen.snapshot)
            environment = _digest_surroundings(seen.snapshot, {})
            compiled = await self._bytecode.of(candidate, argvs, prefix, environment, limits, seen.confirmed)
            made = (candidate, () if plain or before is not None else argvs, prefix, environment, limits, seen.confirmed)
            listing = asyncio.ensure_future(list_environment(seen, self._tables, self._scanner))
            try:
                async with self._builds.use(*made) as built:
                    shown = _Shown(candidate, prefix, limits, given, until, compiled, built, seen, tests_base, before)
                    await self._run_all(commands, shown, task, session, context, plain=plain)
                if (listed := await listing) is not None:
                    session.inventory = summary_of(listed.inventory, listed.content)
                    notes = [(ARTIFACT, listed.content), *((EGRESS_LOG, log) for log in listed.logs)]
                    for name, note in notes:
                        session.artifacts += await _note_artifacts(name, note, context)
            finally:
                listing.cancel()

        if task.baseline_environment is None:
            await self._known.during(prefix, use)
            return
        ordered = replace(task, environment=task.baseline_environment)
        shown_before = await usable_environment(ordered, self._environments, candidate.mirror, candidate.baseline)

        async def use_both(seen: SeenEnvironment) -> None:
            await seen.confirmed()
            before = BaselineEnvironment(shown_before, _digest_surroundings(seen.snapshot, given))
            await self._known.during(prefix, partial(use, before=before))

        await self._known.during(shown_before, use_both)

    async def _run_all(
        self,
        commands: Sequence[AcceptanceCommand],
        shown: _Shown,
        task: TaskContract,
        session: _Session,
        context: TaskContext,
        *,
        plain: bool,
    ) -> None:
        """In the contract's order. Hidden ones never run where others have, which could have prepared the place for them."""
        for hidden, group in groupby(enumerate(commands), key=lambda numbered: numbered[1].test.hidden):
            numbered = tuple(group)
            candidate = await _with_hidden_files(task, shown.candidate, context.artifacts) if hidden else shown.candidate
            async with self._workspaces.open(
                candidate.mirror, candidate.baseline, candidate.tree, plain=plain, planted=shown.given, compiled=shown.compiled
            ) as workspace:
                place = shown.in_workspace(candidate, workspace)
                for argv in _build_commands(commands[: numbered[0][0]]):
                    await self._sandbox.run(argv, workspace=workspace, prefix=shown.prefix, limits=shown.limits)
                placed = [
                    (command, dataclasses.replace(place, earlier=_build_commands(commands[:number])))
                    for number, command in numbered
                ]
                await self._run_group(placed, session, context, task.mutation)
        session.artifacts += await _note_artifacts(REDACTIONS, record_of(session.redactions), context)

    async def _run_group(
        self,
        placed: Sequence[tuple[AcceptanceCommand, CommandPlace]],
        session: _Session,
        context: TaskContext,
        mutation: MutationBounds | None,
    ) -> None:
        """Run commands one after another in one place, then look at what they changed there."""
        first = len(session.commands)
        for command, place in placed:
            await self._run_and_rerun(command, place, session, context, mutation)
        command, place = placed[0]
        edits = await find_edits(place.candidate, place.workspace)
        files = {number - first: names for number, names in session.test_files.items() if number >= first}
        session.commands[first:] = edits.in_proofs(session.commands[first:], files)
        name = HIDDEN_CHANGES if command.test.hidden else "workspace_changes"
        session.artifacts += await _note_artifacts(name, edits.note, context)

    async def _run_and_rerun(
        self,
        command: AcceptanceCommand,
        place: CommandPlace,
        session: _Session,
        context: TaskContext,
        mutation: MutationBounds | None,
    ) -> None:
        """Every run is reported; whether a second one may count is the contract's word, and the gatekeeper's to judge."""
        first = await self._run_one(command, place, session, context, mutation)
        if command.test.may_rerun and not passed(first):
            await self._run_one(command, place, session, context, mutation, run=2)

    async def _run_one(
        self,
        command: AcceptanceCommand,
        place: CommandPlace,
        session: _Session,
        context: TaskContext,
        mutation: MutationBounds | None,
        *,
        run: int = 1,
    ) -> TestCommand:
        limits = place.limits
        proved = await self._prover.run(command, place, context.progress, mutation)
        completed, name = proved.completed, command.test.name
        environment = _digest_surroundings(session.environment, {})
        await place.confirmed()
        await self._bytecode.remember(command.argv, environment, proved.proof.framework, proved.loaded)
        stdout, stderr, table = await asyncio.gather(
            self._store_output(f"{name}.stdout", completed.stdout, session, context),
            self._store_output(f"{name}.stderr", completed.stderr, session, context),
            self._store_output(f"{name}.tests", proved.table, session, context),
        )
        done = TestCommand(
            name=name,
            cmd_argv=command.argv,
            must_pass=command.test.must_pass,
            timeout_sec=limits.wall_seconds,
            exit_code=completed.exit_code,
            duration_sec=completed.duration_seconds,
            stdout=stdout,
            stderr=stderr,
            timed_out=completed.timed_out,
            truncated=completed.truncated,
            stopped=completed.stopped,
            run=run,
            attempts=reported_attempts(completed.attempts),
            proof=replace(proved.proof, table=table),
        )
        session.test_files[len(session.commands)] = proved.files
        session.commands.append(done)
        context.progress()
        if met_border(place.workspace, proved.completed):
            raise _BorderMetError
        return done

    async def _store_output(self, place: str, output: bytes, session: _Session, context: TaskContext) -> str:
        """The URI of output as it may be stored, without secrets; empty when there was none."""
        if not output:
            return ""
        clean = await asyncio.to_thread(redact_output, place, output, self._scanner)
        session.redactions += clean.redactions
        return await context.artifacts.put(clean.data)

    def _build_report(self, task: TaskContract, session: _Session, context: TaskContext, *, failure: str | None) -> TestReport:
        failed = first_failure(session.commands, session.prefix)
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


async def _with_hidden_files(task: TaskContract, candidate: RebuiltCandidate, artifacts: ArtifactPort) -> RebuiltCandidate:
    """The same change between two trees that both have the hidden files.

    Raises DeniedError (``git_path``), MalformedError (``provided_too_large``, ...), ArtifactError, GitError.
    """
    changes = [FileChange(path, FILE, content) for path, content in (await hidden_contents(task, artifacts)).items()]
    if not changes:
        return candidate
    tree = await candidate.mirror.write_tree(candidate.tree, changes)
    return dataclasses.replace(
        candidate, tree=tree, baseline_tree=await candidate.mirror.write_tree(candidate.baseline_tree, changes)
    )


def _build_commands(commands: Sequence[AcceptanceCommand]) -> tuple[tuple[str, ...], ...]:
    """Those that build something, which every further workspace needs."""
    return tuple(command.argv for command in commands if builds(command.argv))


def _digest_surroundings(environment: EnvironmentSnapshot | None, provided: Mapping[bytes, bytes]) -> str:
    """Return a digest of everything that commands see beside the tree; empty for the system alone."""
    facts = [hashlib.sha256(path + b"\0" + content).hexdigest() for path, content in sorted(provided.items())]
    if environment is not None:
        state = environment.document()
        facts += [state.place_sha256, state.files_sha256]
    return " ".join(facts)


async def _note_artifacts(name: str, note: bytes, context: TaskContext) -> list[Artifact]:
    if not note:
        return []
    await context.artifacts.put(note)
    return [reference(name, note)]
