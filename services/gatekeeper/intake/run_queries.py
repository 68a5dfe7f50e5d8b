"""Queries of publishers about runs: status, events, bundle, context and list. A publisher sees only what its rule allows.

To a publisher, a run that it may not see does not exist. Nothing is decided or written here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gatewright.bus.port import SCHEMA_HEADER, Bus, Handler, Message, Reply
from gatewright.bus.topology import BUNDLE_SUBJECT, CONTEXT_SUBJECT, EVENTS_SUBJECT, RUNS_SUBJECT, STATUS_SUBJECT
from gatewright.client.refusals import error_document, reply
from gatewright.clock import Clock, timestamp
from gatewright.contracts import (
    BudgetsRequest,
    BudgetStates,
    BundleRequest,
    ContextRequest,
    EventsRequest,
    FlakyTest,
    FlakyTests,
    FlakyTestsRequest,
    MemoryRequest,
    OrchestratorEvent,
    RunEvents,
    RunList,
    RunsRequest,
    RunStatus,
    StatusRequest,
    codec,
)
from gatewright.contracts.run_status import MOST_CLAIMED, ClaimedTask, LandedChange, ListedRun, SealedBundle, TaskStanding
from gatewright.contracts.vocabulary import Document
from gatewright.errors import GatewrightError, MalformedError
from gatewright.evidence.projection.progress import repository_digest
from gatewright.git.host.identity import repository_identity
from gatewright.git.process import in_thread
from gatewright.host_errors import host_errors
from gatewright.ledger.store import NOWHERE, Ledger, Position
from gatewright.order_artifacts.canonical_memory import memory_of
from gatewright.rules.reports.flakes import flaky_tests
from gatewright.run.history import FollowedRun
from gatewright.services.gatekeeper.intake import publishers
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.publishers import Publisher
from gatewright.services.gatekeeper.projections.approval_index import ApprovalIndex
from gatewright.services.gatekeeper.projections.bundle_archives import BundleArchives
from gatewright.services.gatekeeper.projections.played_index import PlayedIndex
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.services.gatekeeper.projections.silent_runs import SilentRuns, TaskLife
from gatewright.telemetry.logs import Logger
from gatewright.work_documents.context import context_of, wants_patch
from gatewright.work_documents.request_summary import gate_standing

#: Maximum number of event queries that one publisher may keep open in this process; further ones are answered immediately.
MOST_WAITING = 200
#: Maximum bytes of events in one answer, which has at least one event.
ANSWER_BYTES = 1 << 20

#: Queries about a repository use the same subject as queries about a run.
_MEMORY, _FLAKY, _BUDGETS = (codec.schema_name(each) for each in (MemoryRequest, FlakyTestsRequest, BudgetsRequest))

_Listed = TypeVar("_Listed", OrchestratorEvent, FlakyTest)
QueryHandler = Callable[[Message, Publisher], Awaitable[Document]]


@dataclass(frozen=True)
class RunQueries:
    """The endpoints ``gw.status``, ``gw.events``, ``gw.runs``, ``gw.bundle`` and ``gw.context``."""

    bus: Bus
    orchestrator: Orchestrator
    limits: PublisherLimits
    index: RunIndex
    archives: BundleArchives
    log: Logger
    silent: SilentRuns = field(default_factory=SilentRuns)
    asked: ApprovalIndex = field(default_factory=ApprovalIndex)
    played: PlayedIndex = field(default_factory=PlayedIndex)
    waiting: Counter[str] = field(default_factory=Counter)

    def endpoints(self) -> dict[str, Handler]:
        """Return the handlers by plain subject."""
        return {
            STATUS_SUBJECT: self._endpoint(self._status),
            EVENTS_SUBJECT: self._endpoint(self._events),
            RUNS_SUBJECT: self._endpoint(self._runs),
            BUNDLE_SUBJECT: self._endpoint(self._bundle),
            CONTEXT_SUBJECT: self._endpoint(self._context),
        }

    def _endpoint(self, answer: QueryHandler) -> Handler:
        async def ask(message: Message) -> Reply:
            try:
                _, rule = publishers.sender(message, self.orchestrator.policies.publishers)
                self.limits.take(rule, "questions")
                with host_errors():
                    return reply(await answer(message, rule))
            except GatewrightError as error:
                self.log.info("question_refused", subject=message.subject, code=error.reason, cause=error.message)
                return reply(error_document(error))

        return ask

    async def _status(self, message: Message, rule: Publisher) -> Document:
        run_id = codec.decode(message.data, StatusRequest).run_id
        position = await self._load_run(run_id, rule)
        if position.run is None:
            raise _unknown(run_id)
        status = status_of(position.history())
        return self._silence.in_status(status)

    @property
    def _silence(self) -> Silence:
        return Silence(self.silent, self.orchestrator.clock)

    async def _events(self, message: Message, rule: Publisher) -> Document:
        """Return the events after ``after``, or wait for the first within the time limit; the run need not exist yet."""
        request = codec.decode(message.data, EventsRequest)
        with self.index.watching(request.run_id) as news:
            position = self._known_position(request, rule) or await self._load_run(request.run_id, rule)
            if not _beyond(position, request.after) and not _over(position) and self.waiting[rule.name] < MOST_WAITING:
                self.waiting[rule.name] += 1
                try:
                    await news(request.wait_seconds)
                finally:
                    self.waiting[rule.name] -= 1
                position = await self._load_run(request.run_id, rule)
        if position.run is None:
            raise _unknown(request.run_id)
        events = _fitting_records(_beyond(position, request.after))
        last = events[-1].seq if events else request.after
        return RunEvents(run_id=request.run_id, events=events, more=not (_over(position) and last >= position.run.seq))

    async def _runs(self, message: Message, rule: Publisher) -> Document:
        request = codec.decode(message.data, RunsRequest)
        await self.index.complete()
        listed = self.index.page(request, lambda name: rule.may_see == "any" or name == rule.name)
        return await self._with_targets(self._silence.in_list(listed))

    async def _with_targets(self, listed: RunList) -> RunList:
        """Add known moved targets to ``listed``. The answer waits for no lookup: the next answer has its result."""
        asked = self.asked.runs(open_only=True)
        positions = [await self.orchestrator.ledger.get(each.run_id) for each in listed.runs if each.run_id in asked]
        moved = await self.orchestrator.gates.targets.moved(each.run for each in positions if each.run is not None)
        return replace(listed, runs=tuple(replace(each, moved=moved.get(each.run_id)) for each in listed.runs))

    async def _bundle(self, message: Message, rule: Publisher) -> Document:
        request = codec.decode(message.data, BundleRequest)
        position = await self._load_run(request.run_id, rule)
        if position.run is None:
            raise _unknown(request.run_id)
        if position.run.sealed is None:
            raise MalformedError(f"the bundle of {request.run_id} is not sealed yet", code="run_not_ended")
        return await self.archives.part(request.run_id, position.run.sealed, request.offset)

    async def _context(self, message: Message, rule: Publisher) -> Document:
        """Return the context of a run or, by schema name, memory or flaky tests of a repository, or budgets."""
        if message.headers.get(SCHEMA_HEADER) == _MEMORY:
            return await self._memory(codec.decode(message.data, MemoryRequest).repository, rule)
        if message.headers.get(SCHEMA_HEADER) == _FLAKY:
            return await self._flaky_tests(codec.decode(message.data, FlakyTestsRequest), rule)
        if message.headers.get(SCHEMA_HEADER) == _BUDGETS:
            codec.decode(message.data, BudgetsRequest)
            accounts = self.orchestrator.accounts
            shown = "" if rule.may_see == "any" else rule.name
            return BudgetStates(budgets=await accounts.states(shown) if accounts is not None else ())
        request = codec.decode(message.data, ContextRequest)
        position = await self._load_run(request.run_id, rule)
        run = position.run
        if run is None:
            raise _unknown(request.run_id)
        patch = b""
        if wants_patch(request) and run.candidate is not None and run.candidate.patch:
            patch = await self.orchestrator.gates.artifacts.get_artifact(run.candidate.patch)
        records = tuple(record for step in position.transitions for record in step.events)
        return await asyncio.to_thread(context_of, run, records, request, patch)

    async def _memory(self, repository: str, rule: Publisher) -> Document:
        """Return the memory that a new run of this publisher would receive, which comes from its own runs alone."""
        gates = self.orchestrator.gates
        key = await in_thread(repository_identity, repository)
        known = await gates.memories.entries(key, rule.name) if gates.memories is not None else ()
        bounds = gates.policies.memory
        memory = memory_of(repository_digest(key), rule.name, known, bounds) if bounds is not None else None
        if memory is None:
            raise MalformedError(f"nothing is known of earlier runs on {repository[:200]}", code="memory_unknown")
        return memory

    async def _flaky_tests(self, request: FlakyTestsRequest, rule: Publisher) -> FlakyTests:
        """Return the flaky tests in runs that the publisher may see."""
        await self.index.complete()
        key = await in_thread(repository_identity, request.repository) if request.repository else ""
        since = self.orchestrator.clock.now() - timedelta(seconds=request.since_sec)
        records = self.played.records(key, since, lambda name: rule.may_see == "any" or name == rule.name)
        found = await asyncio.to_thread(flaky_tests, records)
        shown = _fitting_records(found)
        return FlakyTests(tests=shown, reports=len(records), more=len(shown) < len(found))

    def _known_position(self, request: EventsRequest, rule: Publisher) -> Position | None:
        """Return the cached position if it suffices for an answer; another gatekeeper may have moved the run since."""
        known = self.orchestrator.ledger.known(request.run_id)
        if known is None or known.run is None or not publishers.may_see(known.run, rule):
            return None
        return known if _beyond(known, request.after) else None

    async def _load_run(self, run_id: str, rule: Publisher) -> Position:
        """Load the run from the ledger; None when the publisher may not see it."""
        position = await Ledger(self.bus).load(run_id)
        return position if position.run is not None and publishers.may_see(position.run, rule) else NOWHERE


def _unknown(run_id: str) -> MalformedError:
    return MalformedError(f"there is no run {run_id}", code="run_unknown")


def _over(position: Position) -> bool:
    return position.run is not None and position.run.sealed is not None


def _beyond(position: Position, after: int) -> tuple[OrchestratorEvent, ...]:
    if position.run is None or position.run.seq <= after:
        return ()
    return tuple(record for step in position.transitions for record in step.events if record.seq > after)


def _fitting_records(records: Sequence[_Listed]) -> tuple[_Listed, ...]:
    """Return as many records as fit into one answer, and at least one."""
    room, kept = ANSWER_BYTES, 0
    for record in records:
        room -= len(codec.encode(record))
        if room < 0 and kept:
            break
        kept += 1
    return tuple(records[:kept])


# Adds received claims to answers about runs: the last claim of each task, and since when a run is silent. Pure.
class Silence:
    """Claims at one moment. ``silent`` has monotonic times; ``clock`` converts them to times of day."""

    def __init__(self, silent: SilentRuns, clock: Clock) -> None:
        self._silent = silent
        self._now: datetime = clock.now()
        self._tick = clock.monotonic()

    def in_status(self, status: RunStatus) -> RunStatus:
        """Add claims to the tasks in progress of ``status``; finished tasks stay unchanged."""
        known = self._silent.tasks(status.run_id, self._tick)
        tasks = tuple(
            self._in_task(task, known[task.task_id]) if task.status == "RUNNING" and task.task_id in known else task
            for task in status.tasks
        )
        since = self._silent.silent_since(status.run_id, self._tick)
        return msgspec.structs.replace(status, tasks=tasks, silent_since=self._when(since) if since is not None else None)

    def in_list(self, listed: RunList) -> RunList:
        """Mark silent runs in ``listed``, and add the claiming process to claimed tasks."""
        return msgspec.structs.replace(listed, runs=tuple(map(self._in_entry, listed.runs)))

    def _in_entry(self, run: ListedRun) -> ListedRun:
        if run.status != "RUNNING":
            return run
        since = self._silent.silent_since(run.run_id, self._tick)
        silent_since = self._when(since) if since is not None else None
        return msgspec.structs.replace(run, silent_since=silent_since, claimed=self._claimed_tasks(run.run_id))

    def _claimed_tasks(self, run_id: str) -> tuple[ClaimedTask, ...]:
        claims = (life.claim for life in self._silent.tasks(run_id, self._tick).values() if life.claim is not None)
        named = (ClaimedTask(task_id=claim.task_id, process=claim.process) for claim in claims if claim.process)
        return tuple(islice(named, MOST_CLAIMED))

    def _in_task(self, task: TaskStanding, life: TaskLife) -> TaskStanding:
        claim = life.claim
        return msgspec.structs.replace(
            task,
            claimed_at=self._when(life.last) if claim is not None else None,
            phase=claim.phase if claim is not None else None,
            activity=claim.activity if claim is not None else None,
            process=claim.process if claim is not None else None,
            beat=claim.beat if claim is not None else None,
            window=claim.window if claim is not None else None,
            silent_since=self._when(life.last) if life.silent else None,
        )

    def _when(self, tick: float) -> str:
        return timestamp(self._now - timedelta(seconds=self._tick - tick))


def status_of(past: FollowedRun) -> RunStatus:
    """Return the status of a run."""
    run, ending = past.run, past.finished
    landed, sealed = run.landed, run.sealed
    return RunStatus(
        run_id=run.run_id,
        publisher=run.publisher,
        requested_by=run.accepted.requested_by,
        status=run.status,
        state=run.state,
        since=past.state_since,
        created_at=run.created_at,
        attempt=run.attempt,
        task_type=run.accepted.task_type,
        tasks=tuple(
            TaskStanding(task_id=t.task_id, role=t.role, status=t.status, attempt=t.attempt) for t in run.tasks.values()
        ),
        gates=tuple(map(gate_standing, past.gates)),
        waiting_for_locks=run.waiting_for_locks,
        finished_at=run.finished_at or None,
        code=ending.code if ending else None,
        message=ending.message if ending else None,
        family=past.failure_family,
        landed=LandedChange(mode=landed.mode, ref=landed.ref, commit=landed.commit, tree=landed.tree) if landed else None,
        bundle=SealedBundle(manifest_sha256=sealed.manifest_sha256, signer=sealed.signer, location=sealed.location)
        if sealed
        else None,
    )
