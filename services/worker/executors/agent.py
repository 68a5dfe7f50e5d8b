"""Lets a coding agent make the change, in a sandbox connected only to the model gateway, and reads the result from the files.

1. Select agent, model and permissions. The agent must have been probed, and the key must exist, before anything starts.
2. Prepare a workspace without configuration that agents obey: of the baseline, in a further round with the previous round's
   change. If the agent's entry permits that, the agent continues its session.
3. The agent receives the contract as text, and the contract decides its permission requests. It gets one message about writes
   outside the scope.
4. The sandbox is killed, regardless of the agent's own report. Only then the files are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from gatewright import scope
from gatewright.agents.installation import InstalledAgent, usable_agent
from gatewright.agents.policy import AgentEntry, AgentsPolicy, server_of
from gatewright.budgets import command_seconds
from gatewright.contracts.vocabulary import Shell
from gatewright.environment_state import refuse_changed, see_environment
from gatewright.errors import AgentWireError, GatewrightError, UnavailableError
from gatewright.models.cassettes import Playback
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import LoadedModels
from gatewright.order_artifacts.canonical_memory import read_memory
from gatewright.prompts.library import PromptLibrary
from gatewright.prompts.worker_brief import RepositoryAccess
from gatewright.sandbox import SandboxLimits, TalkingSandbox
from gatewright.sandbox.environments import Shown
from gatewright.secrets.scanner import SecretScanner
from gatewright.service.command_settings import task_limits
from gatewright.services.worker.agents.box import BASE_URL, Box, Place, open_box
from gatewright.services.worker.agents.brief import brief, earlier_results, out_of_scope
from gatewright.services.worker.agents.carried_session import CarriedSession
from gatewright.services.worker.agents.conventions import (
    Conventions,
    masking,
    read_conventions,
    restore_conventions,
    restored_block,
    without_masked,
)
from gatewright.services.worker.agents.earlier import EarlierRound, begin_at, earlier_round
from gatewright.services.worker.agents.live_usage import emit_usage
from gatewright.services.worker.agents.permission import REFUSED_COMMANDS
from gatewright.services.worker.agents.port import (
    AgentEnd,
    AgentEvent,
    AgentOrder,
    AgentProblem,
    AgentProtocol,
    AgentText,
    EmitEvent,
)
from gatewright.services.worker.agents.protocols import launch_of, protocol_of
from gatewright.services.worker.agents.record import AgentRecord, event_name, in_words
from gatewright.services.worker.agents.tool_servers import UNAVAILABLE, ToolServers, open_tool_servers
from gatewright.services.worker.executors.agent_choice import NOT_INSTALLED, AgentChoice
from gatewright.services.worker.executors.blocked_file import may_ask, take_blocked
from gatewright.services.worker.executors.model_calls import gateway_for, kept_calls, model_for
from gatewright.services.worker.executors.port import ExecutionFailure, ExecutionResult, Job
from gatewright.services.worker.executors.tool_files import LEFT_OUT_LOG, ToolFiles, tool_files
from gatewright.tasks.activity import ReportActivity
from gatewright.tasks.earlier_round import AGENT_SESSION
from gatewright.tasks.inputs import usable_environment
from gatewright.tasks.provided import provided_files
from gatewright.telemetry.redaction import redact_text
from gatewright.tracing import conventions as c
from gatewright.tracing.spans import OpenSpan, child
from gatewright.worker_role import server_tools
from gatewright.workspace import Workspaces
from gatewright.workspace.history import HistoryRules, WantedHistory, history_length
from gatewright.workspace.workspace import PATH_INSIDE, Workspace

#: The exit code of a program that the box has killed.
_KILLED: Final = 137
#: Beyond the time limit of the agent, for the start and end of its tool servers.
_SERVER_SECONDS: Final = 120.0
#: Beyond the time limit, for an agent that is asked to stop.
_STOP_SECONDS: Final = 5.0
#: Of an unfinished message, the last characters are shown.
_TEXT_SHOWN: Final = 400
#: Characters of the agent's own words that a failure quotes.
_QUOTED: Final = 300


@dataclass(frozen=True, slots=True)
class AgentHost:
    """A worker's data about agents: the operator's policies, the installation folders, the sandbox, and each agent's probe
    result (``admissions``). With ``playback`` no model is called: recorded answers are replayed.
    """

    agents: AgentsPolicy
    models: LoadedModels
    installations: tuple[Path, ...]
    sandbox: TalkingSandbox | None
    admissions: Path
    pool: str | None = None
    library: PromptLibrary = field(default_factory=PromptLibrary)
    playback: Playback | None = None


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
        self._choice = AgentChoice(
            host.agents,
            host.models.policy,
            host.installations,
            host.admissions,
            host.pool,
            plays=host.playback is not None,
        )
        self._workspaces = workspaces
        self._environments = environments
        self._limits = limits
        self._scanner = scanner

    async def execute(self, job: Job) -> ExecutionResult:
        """See ``ChangeExecutor``. The agent's messages are kept in ``job.kept``, however it ends.

        Raises what ``AgentChoice.choose`` does, and DeniedError (``special_file``), MalformedError (``model_unknown``),
        ConfigurationError (``model_key_missing``), BudgetError, SandboxError.
        """
        sandbox = self._host.sandbox
        if sandbox is None:
            words = "agents are not started without a sandbox; set sandbox: bubblewrap in the policy"
            return ExecutionResult(failure=ExecutionFailure("sandbox_unavailable", words, blocked=True))
        tree, earlier = await begin_at(job.mirror, job.baseline, await earlier_round(job.contract, job.artifacts))
        try:
            agent, shell = await self._choice.choose(job, tree)
        except UnavailableError as error:
            return _not_here(error)
        if server_tools(job.contract) and (agent.entry.protocol == "command" or not agent.entry.calls_tools):
            words = f"{agent.entry.name} calls no tools of servers: choose another agent"
            return ExecutionResult(failure=ExecutionFailure(UNAVAILABLE, words))
        model = model_for(self._host.models.policy, job.contract, agent.entry, pool=self._host.pool)
        gateway = await asyncio.to_thread(
            gateway_for, self._host.models, job, model, pool=self._host.pool, playback=self._host.playback
        )
        start = await self._start(job, tree, earlier, (agent.entry, shell), gateway.recording.brief)
        record = AgentRecord(start.prompt)
        emit = _event_emitter(record, job.live)
        if start.restored:
            emit(AgentProblem(message=f"put back as the baseline has them: {', '.join(start.restored)[:_QUOTED]}"))
        session = CarriedSession(agent, self._scanner, emit)
        try:
            await session.find(job.contract, job.artifacts)
            tools = await tool_files(job.mirror, job.baseline, job.contract)
            work = _Work(agent, protocol_of(agent), gateway, record, emit, session, model, sandbox, start, shell, tools)
            return replace(await self._work(job, work), refused=record.refused(), attempts=record.attempts)
        except UnavailableError as error:
            return _not_here(error)
        except BaseException:
            gateway.recording.incomplete = True
            raise
        finally:
            job.kept.update(record.logs())
            job.kept.update(await asyncio.to_thread(kept_calls, gateway, self._scanner))

    async def _start(
        self, job: Job, tree: str, earlier: EarlierRound | None, choice: tuple[AgentEntry, Shell], version: int
    ) -> _Start:
        """What the agent begins with: the tree, and the order in the ``version`` of the recording, where one is played."""
        entry, shell = choice
        memory = await read_memory(job.contract.inputs.artifacts, job.artifacts)
        asks = await may_ask(job.contract, job.mirror, job.baseline)
        restored: tuple[str, ...] = ()
        conventions, commits = Conventions(), 0
        if version > 1:
            # The manifest of a transfer names the baseline's tree, and nothing of its past.
            if (most := self._host.agents.history) and self._host.models.transfers is None:
                commits = await asyncio.to_thread(history_length, job.mirror.path, job.baseline, most)
            tree, restored = await restore_conventions(job.mirror, job.baseline, tree, job.contract)
            if self._host.agents.conventions == "given":
                conventions = await read_conventions(job.mirror, job.baseline, job.contract.allowed_paths, self._scanner)
        order = brief(
            self._host.library,
            job.contract,
            earlier,
            version=version,
            access=RepositoryAccess(directory=PATH_INSIDE, shell=shell, history=commits, conventions=conventions.blocks()),
            data=(*restored_block(restored), *await earlier_results(job.contract, job.artifacts)),
            memory=memory,
            asks=asks,
        )
        return _Start(tree, order.in_one, restored, self._history(commits, entry))

    def _history(self, commits: int, entry: AgentEntry) -> WantedHistory | None:
        """The history of a workspace with so many commits, without what is masked and what looks like a secret."""
        if not commits:
            return None
        masked = self._host.agents.masked_for(entry)
        rules = HistoryRules(commits, masking(masked), lambda content: any(True for _ in self._scanner.find(content)))
        return WantedHistory(rules, f"{commits} {sorted(masked)} {self._scanner.name}")

    async def _work(self, job: Job, work: _Work) -> ExecutionResult:
        prefix = await usable_environment(job.contract, self._environments, job.mirror, job.baseline)
        planted = await provided_files(job.contract, job.artifacts)
        shown = await without_masked(job.mirror, work.start.tree, self._host.agents.masked_for(work.agent.entry))
        history = work.start.history
        hidden = masking(self._host.agents.masked_for(work.agent.entry))
        async with self._workspaces.open(
            job.mirror, job.baseline, shown, planted=planted, history=history, is_hidden=hidden
        ) as workspace:
            seen = await asyncio.to_thread(see_environment, prefix)
            async with self._tool_servers(job, work, shown, prefix, hidden):
                end, failure = await self._converse(job, work, workspace, prefix)
            if stood_in := work.gateway.records.stand_ins(work.model):
                work.emit(AgentProblem(message=stood_in))
            work.gateway.check()
            work.gateway.check_refused()
            await asyncio.to_thread(refuse_changed, seen)
            if failure is not None or end is None:
                return ExecutionResult(failure=failure, environment=seen)
            found = await workspace.changes(work.tools.leave_out)
            changes, blocked = await take_blocked(found, job.mirror, job.baseline)
            state = await work.session.kept(work.record.session)
        left_out = work.tools.left_out
        job.kept[LEFT_OUT_LOG] = work.tools.log
        if failure := _nothing_done(job, end, work.shell, changed=bool(changes or work.start.restored)):
            return ExecutionResult(failure=failure, environment=seen, left_out=left_out)
        tree = await job.mirror.write_tree(work.start.tree, changes)
        patch = await job.mirror.diff(job.baseline, tree)
        if not patch and not job.contract.audit_only:
            words = f"the agent took back what the round before had changed, and changed nothing else: {_agent_words(end.text)}"
            return ExecutionResult(failure=ExecutionFailure("no_change", words), environment=seen)
        if state is not None:
            job.kept[AGENT_SESSION] = state
        summary = f"{work.agent.entry.name} {work.agent.version} with {work.model} reports: {_agent_words(end.text) or end.how}"
        if stood_in:
            summary += f" ({stood_in})"
        return ExecutionResult(tree, patch, {}, summary, environment=seen, blocked=blocked, left_out=left_out)

    @asynccontextmanager
    async def _tool_servers(
        self, job: Job, work: _Work, tree: str, prefix: Shown, hidden: Callable[[bytes], bool]
    ) -> AsyncIterator[None]:
        """Run the tool servers that the contract names, each on a workspace of its own with ``tree``.

        Raises:
            UnavailableError: ``agent_not_installed``, ``tool_server_unavailable``.
        """
        tools = server_tools(job.contract)
        if not tools:
            yield
            return
        named = {server_of(tool) for tool in tools}
        entries = [entry for entry in self._host.agents.tool_servers if entry.name in named]
        if missing := named - {entry.name for entry in entries}:
            raise UnavailableError(f"agents.json has no tool server {', '.join(sorted(missing))}", code=UNAVAILABLE)
        async with AsyncExitStack() as opened:
            programs = [
                (
                    usable_agent(entry, self._host.installations),
                    await opened.enter_async_context(self._workspaces.open(job.mirror, job.baseline, tree, is_hidden=hidden)),
                )
                for entry in entries
            ]
            limits = task_limits(self._limits, job.contract, command_seconds(job.contract) + _SERVER_SECONDS)
            servers = ToolServers(tools, work.emit, work.gateway.limits)
            await opened.enter_async_context(open_tool_servers(programs, servers, work.sandbox, prefix, limits))
            work.gateway.tools = servers.answer
            yield

    async def _converse(
        self, job: Job, work: _Work, workspace: Workspace, prefix: Shown
    ) -> tuple[AgentEnd | None, ExecutionFailure | None]:
        """How the conversation ended, or why there was none. The box is gone afterwards.

        An agent that ends before the session stands that it was to go on with is started once more, with a fresh one.
        """
        deadline = asyncio.get_running_loop().time() + command_seconds(job.contract)
        end, failure = await self._talk(job, work, workspace, prefix, deadline)
        unheard = not work.record.session and failure is not None and failure.code in {"agent_failed", "agent_silent"}
        if work.session.resumed is None or not unheard or failure is None:
            return end, failure
        work.session.give_up(failure.message)
        return await self._talk(job, work, workspace, prefix, deadline)

    async def _talk(
        self, job: Job, work: _Work, workspace: Workspace, prefix: Shown, deadline: float
    ) -> tuple[AgentEnd | None, ExecutionFailure | None]:
        """One conversation in a box of its own."""
        seconds = max(0.0, deadline - asyncio.get_running_loop().time())
        limits = task_limits(self._limits, job.contract, seconds + 2 * _STOP_SECONDS)
        kept = await work.session.folders(workspace.scratch)
        place = Place(workspace, prefix, limits, (work.agent.folder,), kept)
        order = AgentOrder(
            prompt=work.record.prompt,
            directory=workspace.path_inside,
            model=work.model,
            base_url=BASE_URL,
            shell=work.shell,
            read_only=job.contract.audit_only,
            resume=work.session.resumed,
            standing_approval=work.agent.entry.standing_approval,
            follow_up=_OutOfScope(job, workspace, work).warn_once,
            written=work.session.written if work.agent.entry.kept_places else None,
            recorded_catalogue=work.gateway.recording.brief == 1,
            ask=partial(job.ask, work.agent.entry.name) if job.contract.interactive else None,
            tools=server_tools(job.contract),
        )
        launch = launch_of(work.agent, work.protocol, order)
        budget = job.contract.budget
        box: Box | None = None
        end: AgentEnd | None = None
        failure: ExecutionFailure | None = None
        try:
            with _turn(work) as turn:
                async with open_box(work.sandbox, place, launch, work.gateway) as box:
                    try:
                        async with asyncio.timeout(seconds), emit_usage(lambda: work.gateway.usage, budget, seconds, job.live):
                            end = await _unless_refused(work.gateway, work.protocol.converse(box.wire, order, work.emit))
                    except TimeoutError:
                        work.gateway.recording.incomplete = True
                        failure = ExecutionFailure("task_timeout", f"the agent was ended after {seconds:g} s")
                    except AgentWireError as error:
                        failure = ExecutionFailure(error.reason, _agent_words(error.message))
                if turn is not None and failure is not None:
                    turn.error = failure.code
        finally:
            if box is not None:
                for line in box.wire.banners:
                    work.emit(AgentProblem(message=f"a line of the agent that is no message was passed over: {line}"))
                work.record.complaints = box.session.complaints
                work.record.attempts = box.session.attempts
        return end, _failure_of(work.record, box, end, failure)


def _not_here(error: UnavailableError) -> ExecutionResult:
    """Return the result where a program is not installed, or does not work. Raises ``error`` for anything else."""
    if error.reason not in {NOT_INSTALLED, UNAVAILABLE}:
        raise error
    return ExecutionResult(failure=ExecutionFailure(error.reason, error.message, blocked=True))


def _turn(work: _Work) -> AbstractContextManager[OpenSpan | None]:
    """The conversation as a span, of which the agent's model calls are parts."""
    return child(
        f"invoke_agent {work.agent.entry.name}",
        "internal",
        {
            c.GEN_AI_OPERATION: "invoke_agent",
            c.GEN_AI_AGENT_NAME: work.agent.entry.name,
            c.GEN_AI_AGENT_VERSION: work.agent.version,
            c.GEN_AI_REQUEST_MODEL: work.model,
        },
    )


async def _unless_refused(gateway: ModelGateway, talk: Coroutine[Any, Any, AgentEnd]) -> AgentEnd:
    """How the talk ended. Raises DeniedError at once when a call was refused for good, where some agents would ask again for
    minutes."""
    talking, refused = asyncio.ensure_future(talk), asyncio.ensure_future(gateway.refused.wait())
    try:
        await asyncio.wait({talking, refused}, return_when=asyncio.FIRST_COMPLETED)
        gateway.check_refused()
        return await talking
    finally:
        talking.cancel()
        refused.cancel()
        await asyncio.gather(talking, refused, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Start:
    """What an attempt begins at. ``restored`` are files of the refused change that are again as the baseline has them."""

    tree: str
    prompt: str
    restored: tuple[str, ...] = ()
    history: WantedHistory | None = None


@dataclass(frozen=True, slots=True)
class _Work:
    """``tools`` decides what is left out of the change."""

    agent: InstalledAgent
    protocol: AgentProtocol
    gateway: ModelGateway
    record: AgentRecord
    emit: EmitEvent
    session: CarriedSession
    model: str
    sandbox: TalkingSandbox
    start: _Start
    shell: Shell
    tools: ToolFiles


class _OutOfScope:
    """Sends the agent one message about writes outside the scope. The gate refuses them."""

    def __init__(self, job: Job, workspace: Workspace, work: _Work) -> None:
        self._job = job
        self._workspace = workspace
        self._tools = work.tools
        self._version = work.gateway.recording.brief
        self._sent = False

    async def warn_once(self) -> str | None:
        """Return the message, None when it was sent already."""
        if self._sent:
            return None
        self._sent = True
        try:
            found = await self._workspace.changes(self._tools.anew().leave_out)
            changes, _ = await take_blocked(found, self._job.mirror, self._job.baseline)
        except (GatewrightError, OSError):
            # The agent lives and its files may move; what counts is read when it is dead.
            return None
        outside = scope.outside(self._job.contract.allowed_paths, [change.path for change in changes])
        return out_of_scope(outside, self._version) if outside else None


def _failure_of(
    record: AgentRecord, box: Box, end: AgentEnd | None, failure: ExecutionFailure | None
) -> ExecutionFailure | None:
    """Why a conversation that is over is no success; ``failure`` is what ended it."""
    if box.session.stopped and box.session.stopped != "time":
        failure = ExecutionFailure("agent_failed", f"the agent was ended at its limit of {box.session.stopped}")
    if failure is not None and failure.code == "agent_failed" and (last := _last_line(box.session.complaints)):
        failure = replace(failure, message=f"{failure.message}: {last}")
    if failure is not None and failure.code == "agent_failed" and not box.session.stopped:
        failure = replace(failure, message=f"{failure.message}{_exit(box.session.exit_code)}")
    if end is not None and end.how in {"failed", "interrupted"} and failure is None:
        failure = ExecutionFailure("agent_failed", _agent_words(record.last_problem or end.text) or "it gave no reason")
    return failure


def _exit(code: int | None) -> str:
    """How the agent's program ended by itself; empty where the box ended it."""
    if code is None or code == _KILLED:
        return ""
    if code == 0:
        return " (its program ended normally, exit 0)"
    return f" (its program crashed, signal {code - 128})" if code > 128 else f" (its program failed, exit {code})"


def _nothing_done(job: Job, end: AgentEnd, shell: Shell, *, changed: bool) -> ExecutionFailure | None:
    if changed or job.contract.audit_only:
        return None
    if end.how == "declined":
        message = _agent_words(end.text) or "the agent gave up after what it asked for was refused"
        why = REFUSED_COMMANDS.get(shell, "")
        return ExecutionFailure("agent_declined", f"{message}; {why}" if why else message)
    return ExecutionFailure("no_change", f"the agent reports that it is done, and changed nothing: {_agent_words(end.text)}")


def _event_emitter(record: AgentRecord, live: ReportActivity) -> EmitEvent:
    """Return a function that records an event and shows it to observers without secrets."""

    def emit(event: AgentEvent) -> None:
        record.add(event)
        if words := in_words(event).strip():
            plain = redact_text(words)
            live(event_name(event), plain[-_TEXT_SHOWN:] if isinstance(event, AgentText) else plain)

    return emit


def _last_line(complaints: bytes) -> str:
    lines = [line for line in complaints.decode("utf-8", "replace").splitlines() if line.strip()]
    return _agent_words(lines[-1]) if lines else ""


def _agent_words(text: str) -> str:
    """The agent's own words on one line, short, without secrets."""
    plain = redact_text(" ".join(text.split()))[:_QUOTED]
    return "".join(character if character.isprintable() else "?" for character in plain)
