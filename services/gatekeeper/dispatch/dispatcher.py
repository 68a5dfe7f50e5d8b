"""Publishes the tasks that transitions order, once, whichever gatekeeper publishes them and however often.

The task id is the message id, so a second publish within the stream's deduplication window has no effect. After that window the
dispatcher looks into the queues first: a task that is still queued, or whose answer is queued, is not published again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec.structs import replace

from gatewright.bus.port import BEAT_HEADER, LEAVE_HEADER, PUBLISHER_HEADER, TASK_TOKEN_HEADER, TRACE_HEADER, Bus
from gatewright.bus.topology import DEFAULT_CLASS, task_queue, task_subject
from gatewright.bus.versions import written_here
from gatewright.contracts import RequestTask, Transition, codec
from gatewright.contracts.records import CommandRef
from gatewright.contracts.vocabulary import Document, Priority
from gatewright.errors import BusError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.blocked.agent_questions import asking_rule
from gatewright.rules.blocked.asking import may_ask, operator_words, task_questions
from gatewright.rules.summons import open_summonses, summons_leave
from gatewright.rules.transfers import task_leave
from gatewright.run.state import Run
from gatewright.services.gatekeeper.dispatch.priority import InFlight, class_of
from gatewright.services.gatekeeper.dispatch.shares import FairShares
from gatewright.services.gatekeeper.dispatch.task_tokens import task_token
from gatewright.services.gatekeeper.policies.dispatch import NO_SHARES, QUARTER_HOURS, BeatsPolicy, SharesPolicy
from gatewright.tasks.protocol import TaskRef, ref_of
from gatewright.view.spans import task_context

#: Within this time after its order a task may be published again without a lookup. It is well inside the deduplication window
#: of 120 seconds.
CERTAIN = timedelta(seconds=60)
TASKS = "TASKS"
TASK_QUEUES = "gw.task.>"
RESULT_QUEUES = "gw.result.>"
#: Marker instead of a stream sequence: the task is in no queue any more.
_TAKEN_BACK = -1


class _LogRefs(msgspec.Struct):
    run_id: str = ""


class _Envelope(msgspec.Struct):
    """The fields that identify the run and task of any task or answer document."""

    task_id: str = ""
    run_id: str = ""
    log_refs: _LogRefs = msgspec.field(default_factory=_LogRefs)


class UnderWay:
    """Content of the queues, looked up once, on the first query."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._found: tuple[frozenset[str], frozenset[str]] | None = None
        self._turn = asyncio.Lock()

    async def holds(self, run_id: str, task_id: str) -> bool:
        """Return whether the task is queued or in progress, or any answer of its run is queued.

        Raises:
            BusError: the queues cannot be read.
        """
        async with self._turn:
            if self._found is None:
                # Tasks first: a task that is answered between the two lookups is then found among the answers.
                tasks = frozenset([found.task_id async for found in self._envelopes(TASK_QUEUES)])
                answered = frozenset([found.run_id or found.log_refs.run_id async for found in self._envelopes(RESULT_QUEUES)])
                self._found = tasks, answered
        tasks, answered = self._found
        return task_id in tasks or run_id in answered

    async def _envelopes(self, pattern: str) -> AsyncGenerator[_Envelope, None]:
        async for message in self._bus.unsettled(pattern):
            try:
                yield read_json(message.data, _Envelope)
            except UnreadableDocumentError:
                continue  # the reader of the queue dead-letters it


class Dispatcher:
    """Publisher of tasks. Remembers which tasks the bus has accepted, and their stream sequences."""

    def __init__(self, bus: Bus, shares: SharesPolicy = NO_SHARES, beats: BeatsPolicy = QUARTER_HOURS) -> None:
        self._beats = beats
        self.shares = FairShares(shares)
        self._bus = bus
        #: Last known state of runs with a task that waits for its share.
        self._runs: dict[str, Run] = {}
        self._given: dict[str, dict[str, int]] = {}
        self._in_flight = InFlight()

    async def give(self, run: Run, commands: Iterable[CommandRef]) -> None:
        """Publish tasks of ``run``, and waiting tasks of other runs that now have a free slot.

        A task without a free slot is published by a later call, for any run.

        Raises:
            BusError: the bus did not accept a task.
        """
        self._in_flight.saw(run)
        self.shares.saw(run)
        for command in commands:
            if command.task_id in run.summonses:
                await self._summon(run, command)
            else:
                self.shares.ask(run, command)
        if self.shares.knows(run.run_id):
            self._runs[run.run_id] = run
        await self.give_waiting()

    async def give_waiting(self) -> None:
        """Publish waiting tasks that have a free slot now.

        Raises:
            BusError: the bus did not accept a task; it waits again.
        """
        tasks = self.shares.next_ones()
        given = (self._publish(self._runs[task.run_id], task.command) for task in tasks)
        results = await asyncio.gather(*given, return_exceptions=True)
        failures = [(task, result) for task, result in zip(tasks, results, strict=True) if isinstance(result, BaseException)]
        for task, _ in failures:
            if task.run_id in self._runs:  # the run may have ended during the publish
                self.shares.give_back(task)
        if failures:
            raise failures[0][1]

    async def give_missing(self, run: Run, transitions: Sequence[Transition], now: datetime, under_way: UnderWay) -> None:
        """Publish unfinished tasks of the ledger that may never have reached the bus.

        Raises:
            BusError: the bus did not answer or did not accept a task.
        """
        given = self._given.get(run.run_id, {})
        missing: list[CommandRef] = []
        for task in run.tasks.values():
            if task.status != "RUNNING" or task.task_id in given or self.shares.waits(run.run_id, task.task_id):
                continue
            # An order from the future has a wrong timestamp (a wrong clock, or one set back since), so nothing is certain.
            fresh = timedelta(0) <= now - ordered_at(transitions, task.task_id) < CERTAIN
            if fresh or not await under_way.holds(run.run_id, task.task_id):
                missing.append(CommandRef(role=task.role, pool=task.pool, task_id=task.task_id))
            else:
                self.shares.take(run, task.task_id)
        for asked in open_summonses(run):
            task_id = asked.task.task_id
            if task_id not in given and not await under_way.holds(run.run_id, task_id):
                missing.append(CommandRef(role=asked.task.item.role, pool=asked.pool, task_id=task_id))
        # All together and with the run: during the publish, calls for other runs publish waiting tasks.
        await self.give(run, missing)

    async def withdraw(self, run: Run) -> None:
        """Remove the tasks of an ended run from their queues, in progress or not, so that no role receives one again.

        Tasks that another process published are looked up. The result of a lookup is kept.

        Raises:
            BusError: a queue cannot be read or changed.
        """
        given = self._given.setdefault(run.run_id, {})
        running = [(task.task_id, task.role, task.pool) for task in run.tasks.values() if task.status == "RUNNING"]
        running += [(asked.task.task_id, asked.task.item.role, asked.pool) for asked in open_summonses(run)]
        for task_id, role, pool in running:
            if given.get(task_id) == _TAKEN_BACK:
                continue
            sequence = given.get(task_id) or await self._place_of(TaskRef(run.run_id, task_id), role, pool)
            if sequence:
                await self._bus.remove(TASKS, sequence)
            given[task_id] = _TAKEN_BACK

    async def _place_of(self, ref: TaskRef, role: str, pool: str) -> int:
        """Return the stream sequence of a task; 0 when it is gone. Task ids from outside are unique only within a run."""
        every_class = task_queue(task_subject(role, pool)) + ".*"
        async for message in self._bus.unsettled(every_class):
            if ref_of(message) == ref:
                return message.sequence
        return 0

    def forget(self, run_id: str) -> None:
        """Drop all memory of an ended run."""
        self._given.pop(run_id, None)
        self._in_flight.forget(run_id)
        self.shares.forget(run_id)
        self._runs.pop(run_id, None)

    async def _publish(self, run: Run, command: CommandRef) -> None:
        await self._put(
            run, command, class_of(run, command.task_id, self._in_flight.of_others(run, command.role, command.pool))
        )

    async def _summon(self, run: Run, command: CommandRef) -> None:
        """Publish a question. It takes none of the shares of tasks (at most eight exist) and queues behind urgent tasks."""
        await self._put(run, command, DEFAULT_CLASS)

    async def _put(self, run: Run, command: CommandRef, task_class: Priority) -> None:
        document = task_document(run, command)
        # Read before the publish: a run that is forgotten meanwhile is not remembered again.
        given = self._given.setdefault(run.run_id, {})
        stored = await self._bus.publish(
            task_subject(command.role, command.pool, task_class),
            codec.encode(document),
            schema=codec.schema_of(document),
            message_id=command.task_id,
            headers={
                TRACE_HEADER: task_context(run.trace_id, command.task_id).traceparent,
                PUBLISHER_HEADER: run.publisher,
                **_people_asked(run),
                BEAT_HEADER: str(self._beats.seconds),
                TASK_TOKEN_HEADER: task_token(self._bus, run.run_id, command.task_id),
                **written_here(),
            },
        )
        given[command.task_id] = stored.sequence


def _people_asked(run: Run) -> dict[str, str]:
    """Return the header that names the rule for agents' permission requests; empty without such a rule."""
    rule = asking_rule(run)
    return {LEAVE_HEADER: rule.name} if rule is not None else {}


def ordered_at(transitions: Sequence[Transition], task_id: str) -> datetime:
    """Return when a task was last ordered, by the clock of the ordering gatekeeper; a time long ago if it never was."""
    for transition in reversed(transitions):
        if any(command.task_id == task_id for command in transition.commands):
            return datetime.fromisoformat(transition.events[-1].ts)
    return datetime.min.replace(tzinfo=UTC)


def task_document(run: Run, command: CommandRef) -> Document:
    """Return the document to publish for a command: the contract of the task with its permissions; for the pm the request."""
    asked = run.summonses.get(command.task_id)
    if asked is not None:
        return replace(asked.task, transfer=summons_leave(run, command.role))
    task = run.tasks[command.task_id]
    if task.contract is not None:
        return replace(
            task.contract,
            transfer=task_leave(run, task),
            questions=task_questions(run, task.role),
            operator_words=operator_words(run, task.role),
        )
    if run.request is None:
        raise BusError(f"{command.task_id} has no document", code="internal_error")
    return RequestTask(
        run_id=run.run_id,
        task_id=task.task_id,
        baseline_commit=run.accepted.baseline_commit,
        request=visible(run.request),
        may_ask=may_ask(run),
    )
