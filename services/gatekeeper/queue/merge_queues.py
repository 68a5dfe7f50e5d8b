"""The merge queues of all branches: feeds inputs to the model, and carries out the commands that follow from its state.

No process leads. Every gatekeeper follows the stream of the queues, so each has the same state and the same commands. The one
that appended a step carries its commands out at once. The others do what is still open some seconds after the step was stored.
Every command may be carried out twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from gatewright.bus.port import Bus, Message
from gatewright.clock import Clock
from gatewright.contracts import Error, QueueRules, TestReport, codec
from gatewright.contracts.queue_policy import MOST_REQUEUES, QueuePolicy
from gatewright.contracts.queue_receipt import QueueReceipt, Tip
from gatewright.errors import BusError, ConflictError, GatewrightError, MalformedError, UnavailableError
from gatewright.git.mirror import Mirror
from gatewright.host_errors import host_errors
from gatewright.ledger.store import Ledger
from gatewright.pause import pause_unless
from gatewright.queue.commands import (
    Command,
    Compose,
    Land,
    Test,
    commands,
    queue_id_of,
    read_run_id_of_test,
    read_task_id_of_part,
)
from gatewright.queue.decide import decide
from gatewright.queue.events import EntryLeft, LandingRefused, PolicyChanged, PositionComposed, TestPartReported
from gatewright.queue.inputs import ConflictFound, Create, Enqueue, Input, Landed, PolicyMissing, Tick
from gatewright.queue.receipt import receipt
from gatewright.queue.state import Entry, Queue
from gatewright.rules.landing import landing_ref
from gatewright.run.state import Run
from gatewright.services.gatekeeper.dispatch.priority import priority_of
from gatewright.services.gatekeeper.gates.context import Artifacts
from gatewright.services.gatekeeper.gates.landing.queued import LeftQueue, QueueOutcome, StillQueued
from gatewright.services.gatekeeper.policies.queues import queue_policy, queue_policy_sha256
from gatewright.services.gatekeeper.queue.composing import ComposedPosition, Composer
from gatewright.services.gatekeeper.queue.pushing import base_moved, left_queue, push_position, tip_of
from gatewright.services.gatekeeper.queue.receipts import ReceiptWriter
from gatewright.services.gatekeeper.queue.store import KnownQueue, QueueStore, queue_id_in
from gatewright.services.gatekeeper.queue.testing import TestPart, parts_of, publish_part, with_packages
from gatewright.services.gatekeeper.run_metrics import count_merge_events
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

#: Attempts to decide an input again after another gatekeeper appended first.
_TRIES: Final = 50
#: Seconds between two checks of a queue with entries, and between two checks of its branch.
_LOOK: Final = 0.5
_LOOK_AT_BRANCH: Final = 5.0
#: Seconds after a step until other gatekeepers do what follows from it, times 1 to 2.
_TAKEOVER: Final = 1.5
#: Seconds until a failed command is tried again: the first pause, doubled each time, and the longest one.
_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
#: Seconds for which a gatekeeper sees to runs that left a queue, beside the look at stalled runs.
_RECENT: Final = 60.0
#: Maximum bytes of a queued change, as a list of paths and ids.
_MOST_ENTRY_BYTES: Final = 1 << 20


@dataclass(slots=True)
class _Attempts:
    """When a command is due here, in monotonic seconds, and how often it failed."""

    due: float
    failures: int = 0


@dataclass(slots=True)
class _Work:
    """What this process knows of one queue, and its work on it."""

    known: KnownQueue
    #: Command id -> when to carry it out here.
    attempts: dict[str, _Attempts] = field(default_factory=dict)
    #: Parts that this process has published, by number and runs of the test.
    parts: dict[tuple[int, tuple[str, ...]], tuple[TestPart, ...]] = field(default_factory=dict)
    #: Monotonic time of the last look at the branch.
    looked: float = 0.0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    driver: asyncio.Task[None] | None = None


@dataclass
class MergeQueues:
    """All merge queues. One per gatekeeper.

    ``lapsed``: returns why a run's approvals no longer hold. ``wake``: continues a run that left its queue.
    """

    bus: Bus
    ledger: Ledger
    composer: Composer
    artifacts: Artifacts
    rules: QueueRules
    clock: Clock
    log: Logger
    metrics: Metrics
    receipts: ReceiptWriter
    lapsed: Callable[[Run], Awaitable[str]]
    wake: Callable[[str], Awaitable[None]]
    _work: dict[str, _Work] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self._store = QueueStore(self.bus, self.clock)

    # What the gates ask.

    def has_queue(self, url: str, ref: str) -> bool:
        """See ``MergeQueue``."""
        return queue_policy(self.rules, url, ref) is not None

    async def check_entry(self, run: Run) -> str:
        """See ``MergeQueue``."""
        if not self.has_queue(run.accepted.repository_url, _branch_of(run)):
            return f"queues.json has no queue for {_branch_of(run)}"
        queue_id = _queue_id_of(run)
        queue = (await self._work_on(queue_id)).known.queue
        if queue is not None and (queue.identity, queue.branch) != (run.accepted.repository_key, _branch_of(run)):
            return f"the queue {queue_id} is that of another branch: {queue.branch} of {queue.identity}"
        try:
            entry = await self._entry_of(run, self.clock.now().isoformat())
        except MalformedError as error:
            return error.message
        size = len(codec.encode(entry))
        return (
            f"the change has {size} bytes as a list of paths, and {_MOST_ENTRY_BYTES} are allowed"
            if size > _MOST_ENTRY_BYTES
            else ""
        )

    def waits(self, run_id: str) -> bool:
        """See ``MergeQueue``."""
        return any(work.known.queue is not None and run_id in work.known.queue.entries for work in self._work.values())

    async def outcome(self, run: Run) -> QueueOutcome:
        """See ``MergeQueue``."""
        queue_id = _queue_id_of(run)
        work = await self._work_on(queue_id)
        queue = work.known.queue
        if queue is None or not (run.run_id in queue.entries or run.run_id in queue.ended):
            work = await self._reload(queue_id)
            queue = work.known.queue
        if queue is not None and run.run_id in queue.ended:
            return await self._ending(work.known, run)
        if queue is None or run.run_id not in queue.entries:
            left = await self._enqueue(queue_id, run)
            if left is not None:
                return left
        self._drive(queue_id)
        return StillQueued()

    async def withdraw(self, run: Run) -> bool:
        """See ``MergeQueue``."""
        queue_id = _queue_id_of(run)
        await self.apply(queue_id, EntryLeft(run_id=run.run_id, code="aborted"))
        queue = (await self._reload(queue_id)).known.queue
        return queue is None or (run.run_id not in queue.entries and queue.ended.get(run.run_id) != "landed")

    # What people ask, and what test runners answer.

    async def known(self) -> Mapping[str, Queue]:
        """Return all queues, by id."""
        found = {queue_id: work.known.queue for queue_id, work in self._work.items()}
        return {queue_id: queue for queue_id, queue in found.items() if queue is not None}

    def policy_of(self, queue: Queue) -> QueuePolicy:
        """Return the policy in force. A queue whose branch has lost its policy finishes its push with the defaults."""
        return self._policy_at(queue.repository, queue.branch)

    async def apply(self, queue_id: str, item: Input) -> bool:
        """Give an input to the model, and store what follows.

        Returns:
            False when it had no effect.

        Raises:
            BusError: the stream cannot be read or written.
        """
        work = await self._work_on(queue_id)
        async with work.turn:
            fresh = False
            for _ in range(_TRIES):
                known = work.known
                place = known.queue or (item if isinstance(item, Create) else None)
                policy = self._policy_at(place.repository, place.branch) if place is not None else QueuePolicy()
                events = decide(known.queue, item, policy, self.clock.now())
                if not events and (fresh or isinstance(item, Tick)):
                    return False
                with contextlib.suppress(ConflictError):
                    if events:
                        stored = await self._store.append(known, events)
                        self.log.info("merge_queue", queue=queue_id, events=[event.event_type for event in events])
                        count_merge_events(self.metrics, known.queue, events, self.clock.now())
                        self._advance(work, stored, own=True)
                        return True
                await self._reload(queue_id)
                fresh = True
        raise BusError(f"queue {queue_id}: {_TRIES} conflicts in a row")

    async def take_answer(self, document: TestReport | Error) -> None:
        """Record a test runner's answer to a part of a test.

        Raises:
            BusError: deliver it again.
            MalformedError: it names no part (``bad_document``).
        """
        name, part = read_run_id_of_test(document.run_id or ""), read_task_id_of_part(document.task_id or "")
        if name is None or part is None:
            raise MalformedError("the answer is about no part of a test", code="unexpected_document")
        uri = await self.artifacts.put_artifact(codec.encode(document))
        await self.apply(name.queue_id, TestPartReported(number=name.number, part=part, report=uri))

    async def keep(self, stop: asyncio.Event) -> None:
        """Follow the stream until shutdown. An unreadable stream is read again."""
        self._stop = stop
        try:
            while not stop.is_set():
                await self._follow_until(stop)
        finally:
            for task in (*self._tasks, *(work.driver for work in self._work.values() if work.driver is not None)):
                task.cancel()

    async def _follow_until(self, stop: asyncio.Event) -> None:
        """Follow the stream until shutdown, or until it cannot be read."""
        following = asyncio.ensure_future(self._read_messages(follow=True))
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            try:
                await following
            except UnavailableError as error:
                self.log.warning("merge_queues_unavailable", code=error.reason, cause=error.message)
                await pause_unless(stop, _PAUSE)

    async def catch_up(self) -> None:
        """Read all queues to their ends.

        Raises:
            BusError: the stream cannot be read.
        """
        await self._read_messages(follow=False)

    async def _read_messages(self, *, follow: bool) -> None:
        async with contextlib.aclosing(self._store.messages(follow=follow)) as messages:
            async for message in messages:
                await self._saw(message)

    async def _saw(self, message: Message) -> None:
        queue_id = queue_id_in(message)
        work = self._work.setdefault(queue_id, _Work(KnownQueue(queue_id)))
        async with work.turn:  # a message of this process may arrive before the answer to its own append
            try:
                if not work.known.number:  # nothing may be done in an earlier state of the queue: read it to its end
                    with contextlib.suppress(MalformedError):
                        await self._reload(queue_id)
                if message.sequence > work.known.sequence:
                    self._advance(work, self._store.after(work.known, message), own=False)
            except MalformedError as error:
                self.log.error("merge_queue_unreadable", queue=queue_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named

    def _advance(self, work: _Work, known: KnownQueue, *, own: bool) -> None:
        """Take a later state of a queue, continue the runs that left it, and see to its commands.

        Runs that left long ago are found by the look at stalled runs.
        """
        if known.sequence <= work.known.sequence:
            return
        work.known = known
        age = max(0.0, self.clock.now().timestamp() - known.stored_at)
        wait = 0.0 if own else max(0.0, _TAKEOVER * _jitter() - age)
        if known.queue is not None:
            due = {each.command_id for each in commands(known.queue, self.policy_of(known.queue))}
            at = self.clock.monotonic() + wait
            work.attempts = {command_id: work.attempts.get(command_id, _Attempts(at)) for command_id in due}
        for run_id in known.ended if age < _RECENT else ():
            self._background(self._wake(run_id, wait))
        queues = [each.known.queue for each in self._work.values() if each.known.queue is not None]
        held = sum(queue.held is not None for queue in queues)
        self.metrics.merge_queues(entries=sum(len(queue.entries) for queue in queues), held=held)
        work.changed.set()
        if known.queue is not None and known.queue.entries:
            self._drive(known.queue_id)

    async def _wake(self, run_id: str, wait: float) -> None:
        await asyncio.sleep(wait)
        try:
            await self.wake(run_id)
        except GatewrightError as error:
            self.log.warning("run_left_for_later", run_id=run_id, code=error.reason, cause=error.message)

    # How a queue is driven.

    def _drive(self, queue_id: str) -> None:
        work = self._work[queue_id]
        if (work.driver is None or work.driver.done()) and not self._stop.is_set():
            work.driver = asyncio.get_running_loop().create_task(self._run_queue(queue_id, work))

    async def _run_queue(self, queue_id: str, work: _Work) -> None:
        """Carry out the commands of a queue until it is empty."""
        while not self._stop.is_set():
            work.changed.clear()
            queue = work.known.queue
            if queue is None or not (queue.entries or queue.tests or queue.landing):
                return
            try:
                with host_errors():
                    await self._inspect_queue(queue_id, work, queue)
                    await self._carry_out(queue_id, work)
            except GatewrightError as error:
                self.log.warning("merge_queue_waits", queue=queue_id, code=error.reason, cause=error.message)
                await pause_unless(self._stop, _PAUSE)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK):
                    await work.changed.wait()

    async def _inspect_queue(self, queue_id: str, work: _Work, queue: Queue) -> None:
        """Report a changed or missing policy, overdue tests, and a branch that was moved outside the queue."""
        policy = queue_policy(self.rules, queue.repository, queue.branch)
        if policy is None:
            if not all(queue.is_landing(run_id) for run_id in queue.entries):
                await self.apply(queue_id, PolicyMissing())
        elif (digest := queue_policy_sha256(policy)) != queue.policy_sha256:
            await self.apply(queue_id, PolicyChanged(policy_sha256=digest, window=policy.window.start))
        await self.apply(queue_id, Tick())
        now = self.clock.monotonic()
        if queue.landing or now - work.looked < _LOOK_AT_BRANCH:
            return
        work.looked = now
        await self._look_at_branch(queue_id, queue)

    async def _look_at_branch(self, queue_id: str, queue: Queue) -> None:
        mirror = await self.composer.mirrors.open(queue.repository)
        commit = await mirror.current(queue.branch)
        if commit is None or commit == queue.base.commit:
            return  # the push finds out about a missing branch
        tip = await tip_of(mirror, queue.branch)
        if tip is not None:
            await self.apply(queue_id, await base_moved(mirror, queue, tip))

    async def _carry_out(self, queue_id: str, work: _Work) -> None:
        queue = work.known.queue
        if queue is None:
            return
        for command in commands(queue, self.policy_of(queue)):
            attempts = work.attempts.setdefault(command.command_id, _Attempts(self.clock.monotonic()))
            if self.clock.monotonic() < attempts.due:
                continue
            try:
                await self._do(queue_id, work, queue, command)
            except GatewrightError as error:
                attempts.failures += 1
                attempts.due = self.clock.monotonic() + min(_LONGEST_PAUSE, _PAUSE * 2.0**attempts.failures)
                words = {"queue": queue_id, "command": command.command_id, "code": error.reason, "cause": error.message}
                self.log.warning("merge_command_failed", **words)
            if work.known.queue is not queue:
                return  # the commands follow from the new state

    async def _do(self, queue_id: str, work: _Work, queue: Queue, command: Command) -> None:
        match command:
            case Compose():
                await self._compose(queue_id, queue, command)
            case Test():
                await self._test(queue_id, work, queue, command)
            case Land():
                await self._land(queue_id, queue, command)

    async def _compose(self, queue_id: str, queue: Queue, command: Compose) -> None:
        await self.composer.bring(queue, command.onto.tree)
        made = await self.composer.compose(queue.repository, command.onto, command.entries, sign=True)
        if isinstance(made, ComposedPosition):
            event = PositionComposed(number=command.position, tree=made.tree, commits=made.commits, signed=made.signed)
            await self.apply(queue_id, event)
        elif made.code == "conflict_with_ahead":
            await self.apply(queue_id, ConflictFound(command.position, made.run_id, made.paths))
        else:
            await self.apply(queue_id, EntryLeft(run_id=made.run_id, code=made.code, paths=made.paths))

    async def _test(self, queue_id: str, work: _Work, queue: Queue, command: Test) -> None:
        """Publish the parts that have no answer, or conclude the test when all have one."""
        test = queue.test_of(command.number)
        if test is None:
            return
        key = (command.number, command.runs)
        if key not in work.parts:
            await self._look_at_branch(queue_id, queue)  # a test on an old base would be useless
            if work.known.queue is not queue:
                return
            parts = await self._parts_of(queue_id, queue, command)
            if parts is None:
                return
            for part in parts:
                if part.number not in test.parts:
                    await publish_part(self.bus, part)
            work.parts = {each: work.parts[each] for each in work.parts if queue.test_of(each[0]) is not None} | {key: parts}
        parts = work.parts[key]
        if all(part.number in test.parts for part in parts):
            await self.apply(queue_id, await self.receipts.conclude(queue, command, parts, test.parts))

    async def _parts_of(self, queue_id: str, queue: Queue, command: Test) -> tuple[TestPart, ...] | None:
        """Return the parts of a test; None without an entry, whose environment they need."""
        first = next(iter(command.runs), None) or next(iter(queue.entries), None)
        if first is None:
            return None
        mirror = await self.composer.bring(queue, command.tree)
        patch = await mirror.diff(queue.base.tree, command.tree) if command.tree != queue.base.tree else b""
        uri = await self.artifacts.put_artifact(patch)
        runs = await with_packages([await self.composer.run_of(run_id) for run_id in command.runs], mirror, command.tree)
        template = next((run for run in reversed(runs) if run.pulled), replace(await self.composer.run_of(first), pulled=None))
        return parts_of(queue_id, command, runs, template, queue.base.commit, uri)

    async def _land(self, queue_id: str, queue: Queue, command: Land) -> None:
        for run_id in command.runs:
            run = await self.composer.run_of(run_id)
            if await self.lapsed(run):
                await self.apply(queue_id, LandingRefused(number=command.position, code="approval_void", run_id=run_id))
                return
        last = queue.until(queue.landing)[-1]
        mirror = await self.composer.bring(queue, last.tree)
        try:
            await self.receipts.complete(receipt(queue, command.position), mirror)
        except MalformedError as error:
            if error.reason != "receipt_too_large":
                raise
            self.log.error("merge_receipt_too_large", queue=queue_id, cause=error.message)  # noqa: TRY400 - the cause is named
            await self.apply(queue_id, LandingRefused(number=command.position, code="denied", detail=error.message))
            return
        happened = await push_position(mirror, queue, command)
        if not isinstance(happened, Landed):
            self.log.warning("merge_push_refused", queue=queue_id, refused=type(happened).__name__)
        await self.apply(queue_id, happened)

    # How runs come and go.

    async def _enqueue(self, queue_id: str, run: Run) -> LeftQueue | None:
        """Add the entry of a queued run. Return why it cannot be added; None when it is in the queue."""
        if run.queued is None:
            raise MalformedError(f"{run.run_id} was never queued", code="run_unknown")
        ref, url = _branch_of(run), run.accepted.repository_url
        if not self.has_queue(url, ref):
            return left_queue(EntryLeft(run_id=run.run_id, code="policy_changed"), ref)
        mirror = await self.composer.mirrors.open(url)
        tip = await tip_of(mirror, ref)
        if tip is None:
            return left_queue(EntryLeft(run_id=run.run_id, code="target_missing"), ref)
        await self._at_tip(queue_id, run, tip, mirror)
        await self.apply(queue_id, Enqueue(await self._entry_of(run, run.queued.at)))
        return None

    async def _at_tip(self, queue_id: str, run: Run, tip: Tip, mirror: Mirror) -> None:
        """Create the queue, or move the base of one that is empty to where the branch is now."""
        url, ref = run.accepted.repository_url, _branch_of(run)
        digest = queue_policy_sha256(self._policy_at(url, ref))
        await self.apply(queue_id, Create(url, run.accepted.repository_key, ref, tip, digest))
        queue = (await self._work_on(queue_id)).known.queue
        if queue is not None and not queue.entries and queue.base != tip:
            await self.apply(queue_id, await base_moved(mirror, queue, tip))

    async def _entry_of(self, run: Run, at: str) -> Entry:
        base = Tip(commit=run.accepted.baseline_commit, tree=run.accepted.baseline_tree)
        return Entry(
            run_id=run.run_id,
            publisher=run.publisher,
            enqueued_at=at,
            base=base,
            changes=await self.composer.changes_of(run),
            asked=priority_of(run),
            requeues=await self.composer.queued_before(run, MOST_REQUEUES + 1),
            repeats=(run.contract.again if run.contract is not None else None) or "",
        )

    async def _ending(self, known: KnownQueue, run: Run) -> QueueOutcome:
        ending = known.endings.get(run.run_id) or await self._store.ending(known.queue_id, run.run_id)
        match ending:
            case QueueReceipt():
                return await self.receipts.landed(run, ending)
            case EntryLeft():
                return left_queue(ending, _branch_of(run))
            case None:
                raise MalformedError(f"{run.run_id} left its queue, and no event records how", code="bad_event")

    async def _work_on(self, queue_id: str) -> _Work:
        """Return what is known of a queue; it is read from the stream the first time."""
        work = self._work.get(queue_id)
        if work is None or not work.known.number:
            work = await self._reload(queue_id)
        return work

    async def _reload(self, queue_id: str) -> _Work:
        known = await self._store.load(queue_id)
        work = self._work.setdefault(queue_id, _Work(KnownQueue(queue_id)))
        self._advance(work, known, own=False)
        return work

    def _policy_at(self, url: str, ref: str) -> QueuePolicy:
        return queue_policy(self.rules, url, ref) or QueuePolicy()

    def _background(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _branch_of(run: Run) -> str:
    repository = run.contract.repository if run.contract is not None else None
    return landing_ref(run.run_id, repository) if repository is not None else ""


def _queue_id_of(run: Run) -> str:
    return queue_id_of(run.accepted.repository_key, _branch_of(run))


def _jitter() -> float:
    return random.uniform(1.0, 2.0)  # noqa: S311 - it keeps gatekeepers apart, it keeps no secret
