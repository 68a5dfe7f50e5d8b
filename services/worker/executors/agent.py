"""Lets a coding agent make the change, in a box whose only door is the model gateway, and reads what it did from the files.

1. Which agent, which model, what it may use; it must have been probed, and the key be there, before anything is started.
2. A workspace of the baseline without the configuration that agents obey.
3. The agent is told the contract in words, and its questions are answered by the contract. What it wrote outside the scope
   it is told once.
4. The box is killed, whatever the agent says of its work. Only then the files are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import msgspec

from gatewright import scope
from gatewright.agents.installation import InstalledAgent, usable_agent
from gatewright.agents.policy import LoadedAgents
from gatewright.environment_state import refuse_changed, see_environment
from gatewright.errors import AgentWireError, GatewrightError, UnavailableError
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import LoadedModels
from gatewright.prompts.library import PromptLibrary
from gatewright.sandbox import SandboxLimits, TalkingSandbox
from gatewright.sandbox.environments import Shown
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.worker.agents.box import BASE_URL, Box, Place, open_box
from gatewright.services.worker.agents.brief import brief, out_of_scope, what_failed
from gatewright.services.worker.agents.masking import without_masked
from gatewright.services.worker.agents.port import AgentEnd, AgentEvent, AgentOrder, AgentProtocol, Tell
from gatewright.services.worker.agents.probe.admission import admitted, check_permitted
from gatewright.services.worker.agents.protocols import launch_of, protocol_of
from gatewright.services.worker.agents.record import AgentRecord, event_name, in_words
from gatewright.services.worker.executors.model_calls import gateway_for, kept_calls, model_for
from gatewright.services.worker.executors.port import ExecutionFailure, ExecutionResult, Job
from gatewright.tasks.activity import TellLive
from gatewright.tasks.inputs import command_seconds, usable_environment
from gatewright.tasks.provided import provided_files
from gatewright.telemetry.redaction import redact_text
from gatewright.workspace import Workspaces
from gatewright.workspace.workspace import Workspace

#: Beyond the time limit, for an agent that is asked to stop.
_STOP_SECONDS: Final = 5.0
#: The artifact that says what the probe found of the agent.
ADMISSION: Final = "agent_admission"
#: Characters of the agent's own words that a failure quotes.
_QUOTED: Final = 300


@dataclass(frozen=True, slots=True)
class AgentHost:
    """What a worker knows of agents: the operator's policies, the folders of the installations, the walls, and what the probe
    found of each agent (``admissions``)."""

    agents: LoadedAgents
    models: LoadedModels
    installations: tuple[Path, ...]
    sandbox: TalkingSandbox | None
    admissions: Path
    pool: str | None = None
    library: PromptLibrary = field(default_factory=PromptLibrary)


class AgentExecutor:
    """``environments`` and ``limits`` are those of commands: an agent's commands are commands."""

    def __init__(
        self,
        host: AgentHost,
        workspaces: Workspaces,
        environments: Sequence[Path],
        limits: SandboxLimits,
        scanner: SecretScanner,
    ) -> None:
        self._host = host
        self._workspaces = workspaces
        self._environments = tuple(environments)
        self._limits = limits
        self._scanner = scanner

    async def execute(self, job: Job) -> ExecutionResult:
        """See ``ChangeExecutor``. What the agent said is kept in ``job.kept``, however it ends.

        Raises DeniedError (``model_not_allowed``, ``special_file``), MalformedError (``agent_unknown``, ``model_unknown``),
        ConfigurationError (``model_key_missing``), BudgetError, SandboxError.
        """
        try:
            agent = self._agent(job)
        except UnavailableError as error:
            return ExecutionResult(failure=ExecutionFailure(error.reason, error.message, blocked=True))
        sandbox = self._host.sandbox
        if sandbox is None:
            words = "agents are not started without walls; let the policy say sandbox: bubblewrap"
            return ExecutionResult(failure=ExecutionFailure("sandbox_unavailable", words, blocked=True))
        await self._admit(job, agent)
        model = model_for(self._host.models.policy, job.contract, agent.entry, pool=self._host.pool)
        gateway = gateway_for(self._host.models.policy, job, model, pool=self._host.pool)
        failed = await what_failed(job.contract, job.artifacts)
        prompt = brief(self._host.library, job.contract, failed, directory="/workspace")
        record = AgentRecord(prompt.in_one)
        try:
            return await self._work(job, _Work(agent, protocol_of(agent), gateway, record, model, sandbox))
        finally:
            job.kept.update(record.logs())
            job.kept.update(await asyncio.to_thread(kept_calls, gateway, self._scanner))

    def _agent(self, job: Job) -> InstalledAgent:
        """The agent that the contract names, or the first that is here. Raises UnavailableError, MalformedError."""
        policy, folders = self._host.agents.policy, self._host.installations
        named = job.contract.executor.agent if job.contract.executor is not None else None
        if named is not None:
            return usable_agent(policy.agent(named), folders)
        faults = []
        for entry in policy.agents:
            try:
                return usable_agent(entry, folders)
            except UnavailableError as error:
                faults.append(error.message)
        raise UnavailableError("; ".join(faults) or "agents.json lists no agent", code="agent_not_installed")

    async def _admit(self, job: Job, agent: InstalledAgent) -> None:
        """Raises DeniedError (``agent_not_admitted``, ``agent_not_permitted``)."""
        admission = await asyncio.to_thread(admitted, self._host.admissions, agent)
        job.kept[ADMISSION] = msgspec.json.encode(admission)
        masked = self._host.agents.policy.masked
        names: set[str] = set()
        if not admission.permitted.own_settings:
            entries = await job.mirror.files(await job.mirror.tree_of(job.baseline), ())
            names = {part.decode("utf-8", "replace") for entry in entries for part in entry.path.split(b"/")} - set(masked)
        shell = job.contract.tool_permissions.shell
        check_permitted(admission, shell=shell, read_only=job.contract.audit_only, names=names)

    async def _work(self, job: Job, work: _Work) -> ExecutionResult:
        prefix = await usable_environment(job.contract.environment, self._environments, job.mirror, job.baseline)
        planted = await provided_files(job.contract, job.artifacts)
        shown = await without_masked(job.mirror, job.baseline, self._host.agents.policy.masked)
        async with self._workspaces.open(job.mirror, job.baseline, shown, planted=planted) as workspace:
            seen = await asyncio.to_thread(see_environment, prefix)
            end, failure = await self._converse(job, work, workspace, prefix)
            work.gateway.check()
            await asyncio.to_thread(refuse_changed, seen)
            if failure is not None or end is None:
                return ExecutionResult(failure=failure, environment=seen)
            changes = await workspace.changes()
        if failure := _nothing_done(job, end, changed=bool(changes)):
            return ExecutionResult(failure=failure, environment=seen)
        tree = await job.mirror.write_tree(job.baseline, changes)
        patch = await job.mirror.diff(job.baseline, tree)
        summary = f"{work.agent.entry.name} {work.agent.version} with {work.model} says: {_words(end.text) or end.how}"
        return ExecutionResult(tree, patch, {}, summary, environment=seen)

    async def _converse(
        self, job: Job, work: _Work, workspace: Workspace, prefix: Shown
    ) -> tuple[AgentEnd | None, ExecutionFailure | None]:
        """How the conversation ended, or why there was none. The box is gone afterwards."""
        seconds = command_seconds(job.contract)
        limits = replace(self._limits, wall_seconds=seconds + 2 * _STOP_SECONDS)
        place = Place(workspace, prefix, limits, (work.agent.folder,))
        order = AgentOrder(
            prompt=work.record.prompt,
            directory=workspace.path_inside,
            model=work.model,
            base_url=BASE_URL,
            shell=job.contract.tool_permissions.shell,
            read_only=job.contract.audit_only,
            standing_approval=work.agent.entry.standing_approval,
            follow_up=_OutOfScope(job, workspace).told_once,
        )
        launch = launch_of(work.agent, work.protocol, order)
        box: Box | None = None
        end: AgentEnd | None = None
        failure: ExecutionFailure | None = None
        try:
            async with open_box(work.sandbox, place, launch, work.gateway) as box:
                try:
                    async with asyncio.timeout(seconds):
                        end = await work.protocol.converse(box.wire, order, _told(work.record, job.tell))
                except TimeoutError:
                    failure = ExecutionFailure("task_timeout", f"the agent was ended after {seconds:g} s")
                except AgentWireError as error:
                    failure = ExecutionFailure(error.reason, _words(error.message))
        finally:
            if box is not None:
                work.record.complaints = box.session.complaints
        if box.session.stopped and box.session.stopped != "time":
            failure = ExecutionFailure("agent_failed", f"the agent was ended at its limit of {box.session.stopped}")
        if failure is not None and failure.code == "agent_failed" and (last := _last_line(box.session.complaints)):
            failure = replace(failure, message=f"{failure.message}: {last}")
        if end is not None and end.how in {"failed", "interrupted"} and failure is None:
            failure = ExecutionFailure("agent_failed", _words(work.record.last_problem or end.text) or "it did not say why")
        return end, failure


@dataclass(frozen=True, slots=True)
class _Work:
    agent: InstalledAgent
    protocol: AgentProtocol
    gateway: ModelGateway
    record: AgentRecord
    model: str
    sandbox: TalkingSandbox


class _OutOfScope:
    """Says to the agent, once, what it wrote outside the scope. The gate is what refuses it."""

    def __init__(self, job: Job, workspace: Workspace) -> None:
        self._job = job
        self._workspace = workspace
        self._told = False

    async def told_once(self) -> str | None:
        """The words, None when there is nothing to say any more."""
        if self._told:
            return None
        self._told = True
        try:
            changes = await self._workspace.changes()
        except (GatewrightError, OSError):
            # The agent lives and its files may move; what counts is read when it is dead.
            return None
        outside = scope.outside(self._job.contract.allowed_paths, [change.path for change in changes])
        return out_of_scope(outside) if outside else None


def _nothing_done(job: Job, end: AgentEnd, *, changed: bool) -> ExecutionFailure | None:
    if changed or job.contract.audit_only:
        return None
    if end.how == "declined":
        return ExecutionFailure("agent_declined", _words(end.text) or "it was not allowed what it asked for, and gave up")
    return ExecutionFailure("no_change", f"the agent says that it is done, and changed nothing: {_words(end.text)}")


def _told(record: AgentRecord, live: TellLive) -> Tell:
    """Into the record, and in words without secrets to those who look on."""

    def tell(event: AgentEvent) -> None:
        record.tell(event)
        if words := in_words(event).strip():
            live(event_name(event), redact_text(words))

    return tell


def _last_line(complaints: bytes) -> str:
    lines = [line for line in complaints.decode("utf-8", "replace").splitlines() if line.strip()]
    return _words(lines[-1]) if lines else ""


def _words(text: str) -> str:
    """The agent's own words on one line, short, without secrets."""
    plain = redact_text(" ".join(text.split()))[:_QUOTED]
    return "".join(character if character.isprintable() else "?" for character in plain)
