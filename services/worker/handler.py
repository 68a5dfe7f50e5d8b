"""A shard contract in, a task result out: the patch as an artifact, and the worker's own view of it, which proves nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from gatewright.artifacts import uri_of
from gatewright.clock import timestamp
from gatewright.contracts import TaskContract, TaskResult, codec
from gatewright.contracts.consultation import MOST_REFUSED
from gatewright.contracts.vocabulary import Agent, ExecutorName, Surroundings
from gatewright.errors import ConfigurationError, DeniedError, MalformedError, SandboxError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.patches.reader import read_patch
from gatewright.git.paths import display
from gatewright.host_facts import surroundings
from gatewright.models.records import CASSETTE
from gatewright.sandbox import Sandbox, SandboxLimits, make_sandbox
from gatewright.secrets.changes import FoundSecret, secrets_brought_in, secrets_in_text
from gatewright.secrets.documents import redact_document
from gatewright.secrets.patch_text import secrets_in_patch_text
from gatewright.secrets.redaction import REDACTIONS, Redacted, Redaction, record_of, redact_output
from gatewright.secrets.rules import CANARY, code_of
from gatewright.secrets.scanner import SecretScanner
from gatewright.service.command_settings import task_limits
from gatewright.services.worker.executors.blocked_file import REFUSED_LOG, read_blocked
from gatewright.services.worker.executors.given_answers import REPLY_LOG
from gatewright.services.worker.executors.port import ChangeExecutor, ExecutionFailure, ExecutionResult, Job
from gatewright.services.worker.executors.table import open_executors, open_researchers
from gatewright.services.worker.report import Outcome, task_result, work_report
from gatewright.services.worker.settings import Settings
from gatewright.tasks.command_host import probe_commands
from gatewright.tasks.earlier_round import AGENT_SESSION
from gatewright.tasks.handler import TaskContext
from gatewright.tasks.inputs import listed_environments, open_baseline, reference, refuse_missing_tools
from gatewright.telemetry.redaction import redact_text
from gatewright.worker_role import answer_of, answers
from gatewright.workspace import Workspaces

#: Logs that are not redacted here. The state of a session with what looks like a secret is not kept at all. A cassette has lost
#: its secrets, call by call, and is none any more once something is cut out of it.
_AS_GIVEN = frozenset({AGENT_SESSION, CASSETTE})
#: Places of secrets that a failure names.
_MAX_PLACES = 10


def make_handler(settings: Settings) -> WorkerHandler:
    """The handler of a process with these settings."""
    state = settings.directory("worker")
    sandbox = make_sandbox(settings.sandbox)
    workspaces = Workspaces.for_sandbox(state / "workspaces", sandbox)
    mirrors, scanner = settings.open_mirrors("worker"), settings.scanner()
    executors = open_executors(settings, workspaces, sandbox, scanner)
    researchers = open_researchers(settings, scanner, state / "research")
    limits = settings.limits()
    return WorkerHandler(
        settings.agent_id, mirrors, executors, sandbox, workspaces, scanner, settings.allowed_environments, limits, researchers
    )


class WorkerHandler:
    """A worker of id ``agent_id``; ``executors`` and, for questions, ``researchers`` by the kind that contracts name."""

    def __init__(
        self,
        agent_id: str,
        mirrors: Mirrors,
        executors: Mapping[ExecutorName, ChangeExecutor],
        sandbox: Sandbox,
        workspaces: Workspaces,
        scanner: SecretScanner | None = None,
        environments: Sequence[Path] = (),
        limits: SandboxLimits | None = None,
        researchers: Mapping[ExecutorName, ChangeExecutor] | None = None,
    ) -> None:
        self._researchers = researchers or {}
        self._agent = Agent(role="WORKER", agent_id=agent_id)
        self._mirrors = mirrors
        self._executors = executors
        self._sandbox = sandbox
        self._workspaces = workspaces
        self._scanner = scanner or SecretScanner()
        self._environments = environments
        self._limits = limits or SandboxLimits()
        self._walls = {"sandbox": sandbox.name, "probe": "not finished", **self._limits.facts()}

    async def probe(self) -> Mapping[str, str]:
        """How commands will run on this host, and what looks for secrets.

        Raises SandboxError or ConfigurationError with the cause when they cannot be had.
        """
        host = await probe_commands(self._sandbox, self._workspaces, self._scanner, self._limits.facts())
        self._walls = host.walls
        return host.summary

    async def handle(self, task: TaskContract, context: TaskContext) -> TaskResult:
        """Execute the task.

        Returns:
            SUCCESS, FAILED, or BLOCKED where this host cannot do it.

        Raises:
            UnavailableError: another attempt may succeed.
        """
        started = timestamp(context.clock.now())
        changes: tuple[TreeChange, ...] = ()
        kept: dict[str, bytes] = {}
        try:
            execution, changes = await context.meter.within(self._execute(task, context, kept))
        except SandboxError as error:
            execution = ExecutionResult(failure=ExecutionFailure(error.reason, redact_text(error.message), blocked=True))
        except (DeniedError, MalformedError, ConfigurationError) as error:
            execution = ExecutionResult(failure=ExecutionFailure(error.reason, redact_text(error.message)))
        except BaseException:
            # Without an answer the model calls are reported anyway.
            logs = await asyncio.to_thread(self._storable, kept, _AS_GIVEN)
            await context.leave(logs.items())
            raise
        finished = timestamp(context.clock.now())
        questions = await asyncio.to_thread(read_blocked, execution.blocked, task.task_id, context.clock.now())
        # A reply that was given is in the store already, and was searched: it is the same artifact.
        given = task.executor is not None and EXECUTOR_KINDS[task.executor.kind].kept_text == REPLY_LOG
        as_given = _AS_GIVEN | {REPLY_LOG} if given else _AS_GIVEN
        if task.task_type == "SEARCH":
            as_given |= set(execution.logs)  # searched for secrets before; quotes have their places in these bytes
        logs = await asyncio.to_thread(self._storable, {**kept, **execution.logs, REFUSED_LOG: questions.log}, as_given)
        references = tuple(reference(name, data) for name, data in logs.items())
        patch = uri_of(execution.patch) if execution.patch else ""
        used = context.meter.usage
        refused = (*questions.refused, *execution.refused)[:MOST_REFUSED]
        agent = (
            self._agent if task.task_type != "SEARCH" else Agent(role=task.assigned_agent.role, agent_id=self._agent.agent_id)
        )
        outcome = Outcome(
            task, agent, started, finished, execution, changes, patch, references, used, questions.blocked, refused
        )
        # Worker messages caused by a patch (a path, a last line) may contain what was redacted in the logs.
        own, _ = redact_document(work_report(outcome), self._scanner)
        report = codec.encode(own)
        # References are digests, so everything can be stored at once.
        stored = [data for data in (execution.patch, report, *logs.values()) if data]
        await asyncio.gather(*(context.artifacts.put(data) for data in stored))
        result, _ = redact_document(task_result(outcome, reference("work_report", report)), self._scanner)
        result = msgspec.structs.replace(result, surroundings=await asyncio.to_thread(self._surroundings, task, execution))
        context.log.info("worked", status=result.status, changed=len(changes), failure=result.failure)
        return result

    async def _execute(
        self, task: TaskContract, context: TaskContext, kept: dict[str, bytes]
    ) -> tuple[ExecutionResult, tuple[TreeChange, ...]]:
        if task.executor is None:
            raise DeniedError("the contract does not state how the change is made", code="executor_missing")
        answer = answer_of(task.executor, task.attempt)
        if answer is None:
            words = f"attempt {task.attempt}, and the {task.executor.kind} executor has {len(answers(task.executor))} answer(s)"
            raise DeniedError(words, code="no_further_answer")
        if EXECUTOR_KINDS[task.executor.kind].runs_commands:
            refuse_missing_tools(task, self._environments)
        mirror, baseline = await open_baseline(task, self._mirrors)
        job = Job(task, answer, mirror, baseline, context.artifacts, context.spend, kept, context.report_activity, context.ask)
        execution = await self._executor_for(task, task.executor.kind).execute(job)
        changes = await mirror.changes(baseline, execution.tree) if execution.tree else ()
        secrets = await secrets_brought_in(changes, mirror, self._scanner)
        places = [_place_of(secret) for secret in secrets]
        places += await self._secrets_beside_files(task.executor.kind, execution, changes, mirror)
        if places:
            # The gatekeeper would refuse the patch all the same; refused here, it is never stored.
            named = ", ".join(dict.fromkeys(places[:_MAX_PLACES]))
            rule = CANARY if any(f"({CANARY})" in place for place in places) else ""
            return replace(execution, tree="", patch=b"", failure=ExecutionFailure(code_of(rule), named)), ()
        return execution, changes

    def _executor_for(self, task: TaskContract, kind: ExecutorName) -> ChangeExecutor:
        executors = self._researchers if task.task_type == "SEARCH" else self._executors
        if kind not in executors:
            raise DeniedError(f"a {kind} executor answers no question: name a model", code="executor_missing")
        return executors[kind]

    async def _secrets_beside_files(
        self, kind: ExecutorName, execution: ExecutionResult, changes: tuple[TreeChange, ...], mirror: Mirror
    ) -> list[str]:
        """What looks like a secret in an answer that is kept as it was given, beside the content of files."""
        kept = EXECUTOR_KINDS[kind].kept_text
        if kept == "patch" and execution.patch:
            reading = await asyncio.to_thread(read_patch, execution.patch)
            found = await secrets_in_patch_text(execution.patch, reading, changes, mirror, self._scanner)
            return [f"line {secret.line} of the patch looks like a secret ({secret.rule})" for secret in found]
        if kept == "reply":
            reply = execution.logs.get(REPLY_LOG, b"")
            hits = await secrets_in_text(reply, changes, mirror, self._scanner)
            return [f"line {line} of the reply looks like a secret ({rule})" for rule, line in hits]
        return []

    def _surroundings(self, task: TaskContract, execution: ExecutionResult) -> Surroundings:
        """What the change was made with; the prefix only where the executor runs commands, and it is listed here."""
        prefix = None
        if task.executor is not None and EXECUTOR_KINDS[task.executor.kind].runs_commands:
            with contextlib.suppress(DeniedError):
                prefix = listed_environments(task, self._environments)
        versions = {"secret_scanner": self._scanner.name}
        walls = dict(self._walls) | task_limits(self._limits, task, 0).facts()
        return surroundings(sandbox=walls, prefix=prefix, versions=versions, environment=execution.environment)

    def _storable(self, logs: Mapping[str, bytes], as_given: frozenset[str]) -> dict[str, bytes]:
        """The logs without secrets but for those that are kept ``as_given``, and the record of what was taken out."""
        kept: dict[str, bytes] = {}
        redactions: list[Redaction] = []
        for name, data in logs.items():
            clean = Redacted(data, ()) if name in as_given else redact_output(name, data, self._scanner)
            redactions += clean.redactions
            kept[name] = clean.data
        kept[REDACTIONS] = record_of(redactions)
        return {name: data for name, data in kept.items() if data}


def _place_of(secret: FoundSecret) -> str:
    where = "a file's name" if secret.path is None else f"{display(secret.path)}:{secret.line}"
    return f"{where} looks like a secret ({secret.rule})"
