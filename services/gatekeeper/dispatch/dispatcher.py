"""Gives tasks to roles: what a transition orders goes on the bus, once, whichever gatekeeper puts it there, and however often.

The id of a task is the id of its message, so that a second publish within the stream's window changes nothing. Beyond the
window the queues are looked into first: a task that still lies there, or whose answer does, is not given out again.
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
from gatewright.ledger.spans import task_context
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

#: Within this time of its order a task may be published again without a look: well inside the stream's window of 120 seconds.
CERTAIN = timedelta(seconds=60)
TASKS = "TASKS"
TASK_QUEUES = "gw.task.>"
RESULT_QUEUES = "gw.result.>"
#: In the place of a sequence: the task is in no queue any more.
_TAKEN_BACK = -1


class _LogRefs(msgspec.Struct):
    run_id: str = ""


class _Envelope(msgspec.Struct):
    """What tells whose a task or an answer is, in whatever document."""

    task_id: str = ""
    run_id: str = ""
    log_refs: _LogRefs = msgspec.field(default_factory=_LogRefs)


class UnderWay:
    """What lies in the queues: looked up once, at the first question."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._found: tuple[frozenset[str], frozenset[str]] | None = None
        self._turn = asyncio.Lock()

    async def holds(self, run_id: str, task_id: str) -> bool:
        """Whether the task waits to be done or is in hand, or any answer of its run waits to be read. Raises BusError."""
        async with self._turn:
            if self._found is None:
                # Tasks first: one that is answered in between is then found among the answers.
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
                continue  # it is put aside by the process that reads the queue


class Dispatcher:
    """Publishes tasks. Remembers which ones the bus has surely taken, and where in the stream they lie."""

    def __init__(self, bus: Bus, shares: SharesPolicy = NO_SHARES, beats: BeatsPolicy = QUARTER_HOURS) -> None:
        self._beats = beats
        self.shares = FairShares(shares)
        self._bus = bus
        #: Runs of which a task waits for its share, as they were last seen.
        self._runs: dict[str, Run] = {}
        self._given: dict[str, dict[str, int]] = {}
        self._in_flight = InFlight()

    async def give(self, run: Run, commands: Iterable[CommandRef]) -> None:
        """Put tasks of ``run`` on the bus, and those of others for which it has made room. Raises BusError.

        What has to wait for its share is given out by a later call, for whichever run.
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
        """Put on the bus what waited for its share and has room now. Raises BusError; what was not taken waits again."""
        tasks = self.shares.next_ones()
        given = (self._publish(self._runs[task.run_id], task.command) for task in tasks)
        results = await asyncio.gather(*given, return_exceptions=True)
        failures = [(task, result) for task, result in zip(tasks, results, strict=True) if isinstance(result, BaseException)]
        for task, _ in failures:
            if task.run_id in self._runs:  # it may have ended and been forgotten while the bus was asked
                self.shares.give_back(task)
        if failures:
            raise failures[0][1]

    async def give_missing(self, run: Run, transitions: Sequence[Transition], now: datetime, under_way: UnderWay) -> None:
        """Give out what the ledger ordered, is not done, and may never have reached the bus. Raises BusError."""
        given = self._given.get(run.run_id, {})
        missing: list[CommandRef] = []
        for task in run.tasks.values():
            if task.status != "RUNNING" or task.task_id in given or self.shares.waits(run.run_id, task.task_id):
                continue
            # An order from the future was stamped by a clock that was wrong, or set back since: nothing is certain about it.
            fresh = timedelta(0) <= now - ordered_at(transitions, task.task_id) < CERTAIN
            if fresh or not await under_way.holds(run.run_id, task.task_id):
                missing.append(CommandRef(role=task.role, pool=task.pool, task_id=task.task_id))
            else:
                self.shares.take(run, task.task_id)
        for asked in open_summonses(run):
            task_id = asked.task.task_id
            if task_id not in given and not await under_way.holds(run.run_id, task_id):
                missing.append(CommandRef(role=asked.task.item.role, pool=asked.pool, task_id=task_id))
        # All at once, and with the run: while the bus is asked, other runs give out whatever waits.
        await self.give(run, missing)

    async def withdraw(self, run: Run) -> None:
        """Take the tasks of a run that has ended off their queues, in hand or not: no role is given one again. Raises BusError.

        A task that another process gave out is looked for; one that was found, or is gone, is not looked for again.
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
        """Where in the stream a task lies; 0 when it is there no more. Task ids from outside are unique within a run only."""
        every_class = task_queue(task_subject(role, pool)) + ".*"
        async for message in self._bus.unsettled(every_class):
            if ref_of(message) == ref:
                return message.sequence
        return 0

    def forget(self, run_id: str) -> None:
        """A run has ended: what was given out for it need not be remembered."""
        self._given.pop(run_id, None)
        self._in_flight.forget(run_id)
        self.shares.forget(run_id)
        self._runs.pop(run_id, None)

    async def _publish(self, run: Run, command: CommandRef) -> None:
        await self._put(
            run, command, class_of(run, command.task_id, self._in_flight.of_others(run, command.role, command.pool))
        )

    async def _summon(self, run: Run, command: CommandRef) -> None:
        """A question takes no share of the work, of which there are eight at most, and waits for it behind its urgent part."""
        await self._put(run, command, DEFAULT_CLASS)

    async def _put(self, run: Run, command: CommandRef, task_class: Priority) -> None:
        document = task_document(run, command)
        # Taken before the bus is asked: a run that is forgotten meanwhile is not remembered again.
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
    """Names the rule whose people agents ask, where there is one."""
    rule = asking_rule(run)
    return {LEAVE_HEADER: rule.name} if rule is not None else {}


def ordered_at(transitions: Sequence[Transition], task_id: str) -> datetime:
    """When a task was last ordered, by the clock of the gatekeeper that did; long ago when it never was."""
    for transition in reversed(transitions):
        if any(command.task_id == task_id for command in transition.commands):
            return datetime.fromisoformat(transition.events[-1].ts)
    return datetime.min.replace(tzinfo=UTC)


def task_document(run: Run, command: CommandRef) -> Document:
    """What a command of the ledger puts on the bus: the contract of the task with its leave; for the pm the request."""
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
