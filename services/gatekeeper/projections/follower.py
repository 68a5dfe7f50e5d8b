"""Follower of the ledger: finds runs that no process moves, because a process ended or is stuck.

It reads the ledger once, fast, from the checkpoint, then follows it. Open runs that stand still are passed to the orchestrator,
which determines what to do. It decides nothing.
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
from gatewright.contracts.run_status import MOST_FLAKY_DAYS
from gatewright.errors import GatewrightError, MalformedError, UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError
from gatewright.host_errors import host_errors
from gatewright.pause import pause_unless
from gatewright.services.gatekeeper.dispatch.dispatcher import UnderWay
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.approval_index import ApprovalIndex
from gatewright.services.gatekeeper.projections.cancellations import CancellationBroadcaster
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
from gatewright.services.gatekeeper.projections.played_index import PlayedIndex
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.services.gatekeeper.projections.run_index import IndexedRun, RunIndex
from gatewright.services.gatekeeper.projections.settled_runs import SettlingRuns, lasts
from gatewright.services.gatekeeper.projections.silent_runs import SilentRuns
from gatewright.services.gatekeeper.projections.stalled_runs import StalledRuns

#: Seconds between two checks of the open runs.
LOOK = 1.0
#: Number of runs taken up at the same time.
AT_ONCE = 8
#: Number of ledger messages between two checkpoints.
EVERY = 1_000
#: Seconds after its end for which a run's results by test are kept. Quotas and notices need shorter times.
_RECENT = timedelta(days=MOST_FLAKY_DAYS).total_seconds()


def between_one_and_two() -> float:
    return random.uniform(1.0, 2.0)  # noqa: S311 - it keeps gatekeepers apart, it keeps no secret


@dataclass
class LedgerFollower:
    """Follower of the ledger. One per process."""

    orchestrator: Orchestrator
    runs: StalledRuns = field(default_factory=lambda: StalledRuns(between_one_and_two))
    deadlines: Deadlines = field(default_factory=Deadlines)
    notices: CancellationBroadcaster = field(default_factory=CancellationBroadcaster)
    index: RunIndex = field(default_factory=RunIndex)
    approvals: ApprovalIndex = field(default_factory=ApprovalIndex)
    silent: SilentRuns = field(default_factory=SilentRuns)
    publishers: PublisherRuns | None = None
    memories: MemoryIndex | None = None
    played: PlayedIndex = field(default_factory=PlayedIndex)
    #: Data of an earlier process in the same slot; None: nothing is kept.
    checkpoint: Checkpoint | None = None
    _settling: SettlingRuns = field(default_factory=SettlingRuns)
    #: The last message seen of each stream of the ledger, the newest last.
    _ends: dict[int, Message] = field(default_factory=dict)
    _unmarked: int = 0

    @property
    def seen(self) -> tuple[int, ...]:
        """Position up to which the ledger was read, for each of its streams."""
        return tuple(message.sequence for message in self._ends.values())

    async def catch_up(self) -> None:
        """Read the ledger up to now, so that all open runs are known.

        Raises:
            BusError: the ledger cannot be read.
        """
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
        # An earlier process may have left any open run incomplete.
        self.runs.everything_is_due(self.orchestrator.clock.monotonic())
        self.mark()

    async def _recall(self, checkpoint: Checkpoint, started: float, now: float) -> None:
        """Restore the projections from the checkpoint if it matches this ledger; otherwise start from the beginning.

        Raises BusError.
        """
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
            # Restored data is applied again while the ledger is read; projections are idempotent.
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
        """Restore settled runs. For most old ones only the list has data."""
        for place, run in enumerate(block.runs):
            if run.publisher:
                self.index.recall(run.run_id, run)
            age = started - run.ended_at
            if run.more or age <= _RECENT:
                self._project(block.entries[place], now, age)

    def _mark_in_time(self) -> None:
        if self._unmarked >= EVERY:
            self.mark()

    def mark(self) -> None:
        """Save the position. If the disk refuses, the next start takes longer."""
        checkpoint = self.checkpoint
        if checkpoint is not None and self._ends:
            *others, last = (ReadMessage.of(message) for message in self._ends.values())
            position = LedgerPosition(last.sequence, last.message, self._settling.open, tuple(others))
            self._try(lambda: checkpoint.mark(position))
        self._unmarked = 0

    def close(self) -> None:
        """Save the position for the next process at shutdown."""
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
        """Take up all open runs at once after a start."""
        await self.catch_up()
        await self.look()

    async def follow(self) -> None:
        """Apply new ledger messages until cancelled. An unreadable ledger is retried."""
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
                    # Another gatekeeper moved the run; or this one did, and its append updates the cache.
                    orchestrator.ledger.forget(run_id)
                    await self._moved_elsewhere(run_id)

    async def _moved_elsewhere(self, run_id: str) -> None:
        try:
            await self.orchestrator.moved_elsewhere(run_id)
        except MalformedError as error:
            self.orchestrator.log.warning("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)

    async def settle(self) -> None:
        """Delete local copies of bundles that were stored elsewhere before the start."""
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
        """Apply a message to all projections. Return whether it seals its run."""
        self._went_on_to(message)
        entry = read_entry(message)
        if entry is None:
            return False  # loading the run reports it
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
        """Apply an entry to the projections that also keep data of ended runs."""
        self.notices.saw(entry, now, age)
        self.index.saw(entry)
        self.approvals.saw(entry)
        self.played.saw(entry)
        if self.publishers is not None:
            self.publishers.saw(entry)
        if self.memories is not None:
            self.memories.saw(entry)

    async def watch(self, stop: asyncio.Event) -> None:
        """Check stalled runs until shutdown."""
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
