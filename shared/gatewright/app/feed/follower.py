"""Follows the ledger into a board and wakes its viewers. It only reads, and has no data that the ledger lacks.

First it reads all stored messages, then new ones. After silence it checks that the ledger still has the last message read:
a ledger restored from a backup, or started again, is read from its beginning.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from gatewright.app.feed.claims import ReportedClaims
from gatewright.bus.ledger_replay import cancel_until_done
from gatewright.bus.port import Bus, Message
from gatewright.bus.topology import LEDGER, run_subject
from gatewright.bus.versions import read_version
from gatewright.clock import Clock, SystemClock, new_id
from gatewright.contracts import Transition
from gatewright.errors import BusError, GatewrightError, MalformedError, UnavailableError, VerificationError
from gatewright.ledger.entry_validation import End, next_link
from gatewright.tasks.dead_letters import DeadLetter, DeadLetters
from gatewright.view.board import Board, SequencedTransition, advance_board, passed_over, without_history
from gatewright.view.rows import with_processes, with_target

#: Raises GatewrightError.
AskClaims = Callable[[], Awaitable[ReportedClaims]]

#: Maximum messages folded in one batch.
_MOST_AT_ONCE = 500
#: Seconds between two checks of dead letters, and of silence before the last message is checked.
LOOK_AGAIN = 10.0
#: Seconds between two attempts while the bus is away.
_PAUSE = 0.2
#: Seconds after which the reader is cancelled again.
_ENDING = 0.5


class BoardFollower:
    """One per process. ``board`` is the ledger as read so far, ``current`` whether all of it was read once.

    ``letters`` are the dead letters, if this identity may read them.
    """

    def __init__(self, bus: Bus, *, clock: Clock | None = None, warn: Callable[[str], None] = lambda _words: None) -> None:
        self.board = Board()
        self.current = False
        self.letters: tuple[DeadLetter, ...] = ()
        #: The gatekeeper's report of received claims.
        self.claims = ReportedClaims()
        #: Set at the end: waiting viewers wake up and leave.
        self.ended = False
        #: Incremented at every change of the above.
        self.revision = 0
        self._bus = bus
        self._clock = clock or SystemClock()
        self._warn = warn
        self._ends: dict[str, End] = {}
        #: The last message read of each stream of the ledger.
        self._read: dict[int, Message] = {}
        self._changed = asyncio.Event()
        self._ask_claims: AskClaims | None = None
        self._asks_letters = True

    @property
    def connected(self) -> bool:
        """Return whether the board is live now."""
        return self.current and self._bus.connected

    @property
    def silent(self) -> Mapping[str, str]:
        """Return, by run, since when claims of its tasks are missing."""
        return self.claims.silent

    def attach(self, bus: Bus, ask_claims: AskClaims | None = None, *, letters: bool = True) -> None:
        """Use another connection, while ``run`` does not run. The data read so far is kept if the ledger is the same.

        ``ask_claims`` requests the claims of tasks in progress from the gatekeeper, if this identity may. ``letters``:
        whether it may read dead letters.
        """
        self._bus = bus
        self._ask_claims = ask_claims
        self._asks_letters = letters

    async def changed(self, revision: int) -> int:
        """Wait until anything differs from ``revision``; return the current revision."""
        while self.revision == revision:
            await self._changed.wait()
        return self.revision

    def nudge(self) -> None:
        """Wake waiting viewers for changes outside the ledger."""
        self._wake()

    def end(self) -> None:
        """Notify waiting viewers of the end."""
        self.ended = True
        self._wake()

    async def run(self) -> None:
        """Follow until cancelled; a bus that is away is waited for. Raises GatewrightError where the ledger may not be read."""
        working = (asyncio.create_task(self._follow_ledger()), asyncio.create_task(self._look_again()))
        try:
            ended, _ = await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
            for each in ended:
                each.result()
        finally:
            await cancel_until_done(working, _ENDING)

    async def catch_up(self) -> None:
        """Read all that there is now. Raises BusError."""
        async with contextlib.aclosing(self._bus.replay(run_subject("*"), after=self._seen)) as messages:
            batch: list[Message] = []
            async for message in messages:
                batch.append(message)
                if len(batch) == _MOST_AT_ONCE:
                    self._take(batch)
                    batch = []
            self._take(batch)
        self.current = True
        self._wake()

    async def _follow_ledger(self) -> None:
        warned = ""
        while True:
            try:
                if not await self._is_same_ledger():
                    self._begin_anew()
                await self.catch_up()
                warned = ""
                await self._follow_on()
            except BusError as error:
                if error.message != warned:  # it is tried often
                    self._warn(f"the ledger cannot be read now: {error.message}")
                warned = error.message
                await asyncio.sleep(_PAUSE)

    async def _follow_on(self) -> None:
        """Process new messages until the ledger turns out to be another one. Raises BusError."""
        arrived: asyncio.Queue[Message] = asyncio.Queue(_MOST_AT_ONCE)

        async def read() -> None:
            async with contextlib.aclosing(self._bus.replay(run_subject("*"), follow=True, after=self._seen)) as messages:
                async for message in messages:
                    await arrived.put(message)

        reading = asyncio.create_task(read())
        try:
            while True:
                batch = await self._next_batch(arrived, reading)
                if batch:
                    self._take(batch)
                elif not await self._is_same_ledger():
                    self._begin_anew()
                    return
        finally:
            await cancel_until_done([reading])

    async def _next_batch(self, arrived: asyncio.Queue[Message], reading: asyncio.Task[None]) -> list[Message]:
        """Return new messages, at least one; none after silence. Raises the errors of the reader."""
        waiting = asyncio.create_task(arrived.get())
        try:
            await asyncio.wait({waiting, reading}, timeout=LOOK_AGAIN, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                if reading.done():
                    await reading
                    raise BusError("reading the ledger ended unexpectedly")
                return []
            batch = [waiting.result()]
        finally:
            waiting.cancel()
        while not arrived.empty() and len(batch) < _MOST_AT_ONCE:
            batch.append(arrived.get_nowait())
        return batch

    async def _is_same_ledger(self) -> bool:
        for read in self._read.values():
            try:
                last = await self._bus.stored(LEDGER, read.sequence)
            except BusError:
                return True  # nothing was read yet
            if last is None or _digest_message(last) != _digest_message(read):
                return False
        return True

    def _begin_anew(self) -> None:
        self.board, self.current = Board(), False
        self._read.clear()
        self._ends.clear()
        self._wake()

    def _take(self, messages: list[Message]) -> None:
        if not messages:
            return
        if not self.board.origin:
            self.board = Board(origin=self._origin(messages[0]))
        entries: list[SequencedTransition] = []
        number = self.board.sequence
        for message in messages:
            number = self._number(message, number)
            self._read[self._bus.layout.partition_at(message.sequence)] = message
            run_id = message.subject.removeprefix(run_subject(""))
            try:
                transition = self._entry(message, run_id)
            except (MalformedError, UnavailableError, VerificationError) as error:
                self.board = advance_board(self.board, entries)
                self.board = without_history(self.board, run_id, error.message, number)
                entries = []
                continue
            if transition is not None:
                entries.append(SequencedTransition(number, transition))
        self.board = passed_over(advance_board(self.board, entries), number)
        self._show_processes()
        self._wake()

    @property
    def _seen(self) -> tuple[int, ...]:
        return tuple(message.sequence for message in self._read.values())

    def _origin(self, first: Message) -> str:
        """Return an id of this reading: two readings of a partitioned ledger have no common order."""
        named = f"{first.sequence}-{_digest_message(first)[:16]}"
        return named if self._bus.layout.partitions == 1 else f"{named}-{new_id()[:12]}"

    def _number(self, message: Message, before: int) -> int:
        """Return a message's number in reading order: its sequence, if the ledger has one order."""
        return message.sequence if self._bus.layout.partitions == 1 else before + 1

    def _entry(self, message: Message, run_id: str) -> Transition | None:
        """The checked next entry of a run; None for what is none. Raises what ``next_link`` and ``read_version`` do."""
        if run_id in self.board.unreadable:
            return None
        end = self._ends.get(run_id, End())
        transition = read_version(message, lambda: next_link(message, run_id, end))
        if transition is not None:
            self._ends[run_id] = end.after(transition)
        return transition

    async def _look_again(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_AGAIN)

    async def look(self) -> None:
        """Look once at dead letters and for silent runs, as far as this identity may."""
        try:
            letters = await DeadLetters(self._bus).all() if self._asks_letters else self.letters
        except GatewrightError:
            letters = self.letters  # not for this identity to read, or the bus is away
        if [letter.sequence for letter in letters if letter.decision is None] != [
            letter.sequence for letter in self.letters if letter.decision is None
        ]:
            self.letters = letters
            self._wake()
        await self._look_at_claims()

    async def _look_at_claims(self) -> None:
        try:
            claims = await self._ask_claims() if self._ask_claims is not None else self.claims
        except GatewrightError:
            return  # not for this identity to ask, or there is no gatekeeper now
        if claims != self.claims:
            self.claims = claims
            self._show_processes()
            self._wake()

    def _show_processes(self) -> None:
        """Lay over the rows what the gatekeeper knows and the ledger does not: processes, and targets that have moved."""
        named, moved = self.claims.processes, self.claims.moved
        found = {
            run_id: with_target(with_processes(row, named.get(run_id, {})), moved.get(run_id))
            for run_id, row in self.board.rows.items()
            if row.in_hand or row.asks
        }
        if any(self.board.rows[run_id] is not row for run_id, row in found.items()):
            self.board = replace(self.board, rows={**self.board.rows, **found})

    def _wake(self) -> None:
        self.revision += 1
        self._changed.set()
        self._changed = asyncio.Event()


def _digest_message(message: Message) -> str:
    return hashlib.sha256(message.data).hexdigest()
