"""Looks after runs that no process moves: what a process before this one left, and what one left that is gone or stuck.

It reads the ledger once, quickly, from where a checkpoint says that it was read before, and then follows it. What is open and
stands still is handed to the orchestrator, which finds out for itself what there is to do. It decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from gatewright.bus.port import Message
from gatewright.bus.topology import LEDGER, run_subject
from gatewright.bus.versions import OTHER_VERSION
from gatewright.errors import GatewrightError, MalformedError, UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError
from gatewright.host_errors import host_errors
from gatewright.pause import pause_unless
from gatewright.services.gatekeeper.dispatch.dispatcher import UnderWay
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.approval_index import ApprovalIndex
from gatewright.services.gatekeeper.projections.cancellations import LASTING, CancellationBroadcaster
from gatewright.services.gatekeeper.projections.checkpoint import (
    Checkpoint,
    LedgerPosition,
    ReadMessage,
    SettledBlock,
    SettledRun,
)
from gatewright.services.gatekeeper.projections.deadlines import Deadlines
from gatewright.services.gatekeeper.projections.entries import LedgerEntry, read_entry, run_id_of
from gatewright.services.gatekeeper.projections.memory_index import MemoryIndex
from gatewright.services.gatekeeper.projections.publisher_runs import DAY, PublisherRuns
from gatewright.services.gatekeeper.projections.run_index import IndexedRun, RunIndex
from gatewright.services.gatekeeper.projections.settled_runs import SettlingRuns, lasts
from gatewright.services.gatekeeper.projections.silent_runs import SilentRuns
from gatewright.services.gatekeeper.projections.stalled_runs import StalledRuns

#: Seconds between two looks at the list of what is open.
LOOK = 1.0
#: Runs that are taken up at the same time.
AT_ONCE = 8
#: Messages of the ledger from one checkpoint to the next.
EVERY = 1_000
#: Seconds after its end for which a run may still count for its publisher: the clocks of bus and gatekeeper may differ.
_COUNTED = (DAY + timedelta(hours=1)).total_seconds()


def between_one_and_two() -> float:
    return random.uniform(1.0, 2.0)  # noqa: S311 - it keeps gatekeepers apart, it keeps no secret


@dataclass
class LedgerFollower:
    """One per process."""

    orchestrator: Orchestrator
    runs: StalledRuns = field(default_factory=lambda: StalledRuns(between_one_and_two))
    deadlines: Deadlines = field(default_factory=Deadlines)
    notices: CancellationBroadcaster = field(default_factory=CancellationBroadcaster)
    index: RunIndex = field(default_factory=RunIndex)
    approvals: ApprovalIndex = field(default_factory=ApprovalIndex)
    silent: SilentRuns = field(default_factory=SilentRuns)
    publishers: PublisherRuns | None = None
    memories: MemoryIndex | None = None
    #: What was read before, by a process that had this place; None: nothing is kept of what is read.
    checkpoint: Checkpoint | None = None
    _settling: SettlingRuns = field(default_factory=SettlingRuns)
    #: The last message that was seen of each of the streams that the ledger lies in, the newest at the end.
    _ends: dict[int, Message] = field(default_factory=dict)
    _unmarked: int = 0

    @property
    def seen(self) -> tuple[int, ...]:
        """Up to where the ledger was read: a place of each of its streams."""
        return tuple(message.sequence for message in self._ends.values())

    async def catch_up(self) -> None:
        """Read the ledger up to now: afterwards it is known what is open. Raises BusError."""
        started, now = self.orchestrator.clock.now().timestamp(), self.orchestrator.clock.monotonic()
        if not self._ends and self.checkpoint is not None:
            await self._recall(self.checkpoint, started, now)
        async for message in self.orchestrator.bus.replay(run_subject("*"), after=self.seen):
            self._saw(message, now, started - message.stored_at)
            self._mark_in_time()
        self.index.read_to_the_end()
        if self.publishers is not None:
            self.publishers.read_to_the_end()
        if self.memories is not None:
            self.memories.read_to_the_end()
        # Whatever is open may have been left by the process before.
        self.runs.everything_is_due(self.orchestrator.clock.monotonic())
        self.mark()

    async def _recall(self, checkpoint: Checkpoint, started: float, now: float) -> None:
        """Take from the checkpoint what it has, if it is of this ledger. Raises BusError; it begins anew after that."""
        position = checkpoint.position
        if position is None:
            return
        bus, places = self.orchestrator.bus, [end.sequence for end in position.ends]
        ends = {place: await bus.stored(LEDGER, place) for place in places}
        if not all(end.is_at(ends[end.sequence]) for end in position.ends):
            self.orchestrator.log.warning("checkpoint_of_another_ledger", sequence=position.sequence)
            self._try(checkpoint.clear)
            return
        before = [
            message
            for run_id in position.open
            async for message in bus.replay(run_subject(run_id))
            if bus.layout.has_seen(places, message.sequence)
        ]
        try:
            for block in checkpoint.settled():
                self._remember(block, now, started)
                await asyncio.sleep(0)
        except OSError as error:
            # What has been told is told once more while the ledger is read, and counts once.
            self._leave(error)
            return
        except UnreadableDocumentError as error:
            self.orchestrator.log.warning("checkpoint_unusable", cause=str(error))
            self._try(checkpoint.clear)
            return
        for message in sorted(before, key=lambda message: (message.stored_at, message.sequence)):
            self._saw(message, now, started - message.stored_at)
        self._ends.clear()
        for message in filter(None, reversed(ends.values())):
            self._went_on_to(message)
        self._unmarked = 0

    def _remember(self, block: SettledBlock, now: float, started: float) -> None:
        """Tell of runs that were settled before. Of most there is nothing to say but to the list."""
        counting = self.publishers is not None and self.publishers.counts
        for place, run in enumerate(block.runs):
            if run.publisher:
                self.index.recall(run.run_id, run)
            age = started - run.ended_at
            if run.more or (counting and age <= _COUNTED) or (age <= LASTING and run.status != "SUCCESS"):
                self._project(block.entries[place], now, age)

    def _mark_in_time(self) -> None:
        if self._unmarked >= EVERY:
            self.mark()

    def mark(self) -> None:
        """Keep how far the ledger has been read; a disk that does not take it costs the next start some time."""
        checkpoint = self.checkpoint
        if checkpoint is not None and self._ends:
            *others, last = (ReadMessage.of(message) for message in self._ends.values())
            position = LedgerPosition(last.sequence, last.message, self._settling.open, tuple(others))
            self._try(lambda: checkpoint.mark(position))
        self._unmarked = 0

    def close(self) -> None:
        """The process leaves: what it has read is kept for the next one."""
        self.mark()
        if self.checkpoint is not None:
            self.checkpoint.close()

    def _try(self, write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            self._leave(error)

    def _leave(self, error: OSError) -> None:
        self.orchestrator.log.warning("checkpoint_unusable", cause=str(error))
        self.checkpoint = None

    async def resume(self) -> None:
        """After a start: take up all that is open, at once."""
        await self.catch_up()
        await self.look()

    async def follow(self) -> None:
        """Take note of what is added to the ledger, until cancelled; a ledger that cannot be read now is read later."""
        while True:
            try:
                await self._follow()
            except UnavailableError as error:
                self.orchestrator.log.warning("ledger_unavailable", code=error.reason, cause=error.message)
                await asyncio.sleep(LOOK)

    async def _follow(self) -> None:
        orchestrator = self.orchestrator
        messages = orchestrator.bus.replay(run_subject("*"), follow=True, after=self.seen)
        async with contextlib.aclosing(messages):
            async for message in messages:
                sealed = self._saw(message, orchestrator.clock.monotonic())
                self._mark_in_time()
                run_id = run_id_of(message)
                known = orchestrator.ledger.known(run_id)
                if sealed:
                    orchestrator.left_behind(run_id)
                    await self._settle(run_id)
                    await self._moved_elsewhere(run_id)
                elif known is None or known.sequence < message.sequence:
                    # Another gatekeeper moved it; or we did, and the append will say so itself.
                    orchestrator.ledger.forget(run_id)
                    await self._moved_elsewhere(run_id)

    async def _moved_elsewhere(self, run_id: str) -> None:
        try:
            await self.orchestrator.moved_elsewhere(run_id)
        except MalformedError as error:
            self.orchestrator.log.warning("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)

    async def settle(self) -> None:
        """After a start: the bundles of runs that were sealed before lie where they are kept, and need no folder here."""
        for run_id in self.orchestrator.bundles.copies():
            await self._settle(run_id)

    async def _settle(self, run_id: str) -> None:
        try:
            await self.orchestrator.settle(run_id)
        except (MalformedError, UnavailableError) as error:
            if isinstance(error, UnavailableError) and error.reason != OTHER_VERSION:
                raise
            self.orchestrator.log.warning("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)

    def _saw(self, message: Message, now: float, age: float = 0.0) -> bool:
        """Tell all who follow the runs; whether the message says that its run is over and sealed."""
        self._went_on_to(message)
        entry = read_entry(message)
        if entry is None:
            return False  # whatever loads the run says so
        self.deadlines.saw(entry)
        self.silent.saw(entry, now, age)
        self._project(entry, now, age)
        over = self.runs.saw(entry, now)
        settled = self._settling.saw(entry, settled=over)
        if self.checkpoint is not None and settled is not None:
            listed = self.index.known(entry.run_id) or IndexedRun("", "")
            run = SettledRun(
                listed.publisher,
                listed.created_at,
                listed.status,
                run_id=entry.run_id,
                ended_at=settled.stored_at,
                more=lasts(settled),
            )
            self.checkpoint.add(run, settled)
        return over

    def _went_on_to(self, message: Message) -> None:
        part = self.orchestrator.bus.layout.partition_at(message.sequence)
        self._ends.pop(part, None)
        self._ends[part] = message
        self._unmarked += 1

    def _project(self, entry: LedgerEntry, now: float, age: float) -> None:
        """Tell those who also keep something of runs that are over."""
        self.notices.saw(entry, now, age)
        self.index.saw(entry)
        self.approvals.saw(entry)
        if self.publishers is not None:
            self.publishers.saw(entry)
        if self.memories is not None:
            self.memories.saw(entry)

    async def watch(self, stop: asyncio.Event) -> None:
        """Look at what stands still, until the process is told to leave."""
        while not stop.is_set():
            await self.look()
            await pause_unless(stop, LOOK)

    async def look(self) -> None:
        """Take up every run that is due."""
        under_way, places = UnderWay(self.orchestrator.bus), asyncio.Semaphore(AT_ONCE)

        async def take_up(run_id: str) -> None:
            async with places:
                await self._take_up(run_id, under_way)

        async with asyncio.TaskGroup() as group:
            for run_id in self.runs.due(self.orchestrator.clock.monotonic()):
                group.create_task(take_up(run_id))

    async def _take_up(self, run_id: str, under_way: UnderWay) -> None:
        log = self.orchestrator.log
        done = False
        try:
            with host_errors():
                done = await self.orchestrator.take_up(run_id, under_way)
        except UnavailableError as error:
            log.warning("run_left_for_later", run_id=run_id, code=error.reason, cause=error.message)
        except GatewrightError as error:
            log.error("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named
            done = True
        self.runs.looked(run_id, self.orchestrator.clock.monotonic())
        if done:
            self.runs.closed(run_id)
