"""One entry of ``forges.json``: shows its runs on the forge, and has the requests of others judged.

It keeps nothing that matters: which runs are due follows from the ledger, and what to do from the forge as it is read then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from gatewright.app.feed.follower import BoardFollower
from gatewright.app.forge.desired import MERGED_ELSEWHERE, ForgeView, is_of, request_number, wanted_of
from gatewright.app.forge.inward import JudgedHeads, Ordered, Skipped, judged_heads
from gatewright.app.forge.metrics import EntryMetrics
from gatewright.app.forge.port import ChangeRequest, Forge
from gatewright.app.forge.reconcile import Reconciled, Reconciler
from gatewright.clock import Clock
from gatewright.contracts.forge_policy import ForgeEntry
from gatewright.errors import ConfigurationError, DeniedError, MalformedError, UnavailableError, VerificationError
from gatewright.pause import retry_pause
from gatewright.run.history import FollowedRun
from gatewright.telemetry.logs import Logger
from gatewright.view.board import Board
from gatewright.view.rows import BoardRow, seconds_since

#: Seconds in which further events of the ledger are collected before they are shown.
_COLLECT: Final = 1.0
#: Maximum open requests that one poll reads, and of reports that wait.
_MOST_REQUESTS: Final = 2_000
#: Reads the events of a run so far; None without any. Raises UnavailableError, MalformedError, VerificationError.
ReadRun = Callable[[str], Awaitable[FollowedRun | None]]


class JudgeRequests(Protocol):
    """Orders the runs that judge change requests. The same head twice is the same run."""

    async def judge(self, number: int) -> Ordered | Skipped:
        """Read a change request, and order the run that judges its head.

        Raises UnavailableError: it is tried again. DeniedError, MalformedError: it was refused.
        """
        ...

    async def judge_request(self, request: ChangeRequest) -> Ordered | Skipped:
        """Order the run that judges the head of a request that was read just now. Raises as ``judge`` does."""
        ...


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """``poll``: seconds between two reads of the open requests. ``recheck``: seconds until runs with open requests are compared
    again. ``look_back``: how long after their end runs are compared once after a start. ``publisher``: whose runs judge
    requests. ``console``: address of the live page, or empty.
    """

    poll: float = 60.0
    recheck: float = 900.0
    look_back: timedelta = timedelta(days=7)
    publisher: str = "forge"
    console: str = ""


@dataclass(slots=True)
class RoundReport:
    """What one round did."""

    runs: list[Reconciled] = field(default_factory=list)
    requests: list[Ordered | Skipped] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class ForgeKeeper:
    """``judge``: None if requests of others are not judged. ``judged``: what runs on the board have judged."""

    def __init__(
        self,
        entry: ForgeEntry,
        forge: Forge,
        read_run: ReadRun,
        metrics: EntryMetrics,
        settings: KeeperSettings,
        clock: Clock,
        log: Logger,
        judge: JudgeRequests | None = None,
    ) -> None:
        self.entry = entry
        self._forge = forge
        self._read_run = read_run
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._log = log.bind(forge=entry.name)
        self.judge = judge
        self.judged = JudgedHeads()
        self._reconciler = Reconciler(forge, metrics.measure)
        #: Of each run, its entry in the ledger that the forge shows. A restart compares all runs of the look-back again.
        self._shown: dict[str, int] = {}
        #: Runs whose request is open, or whose calls were refused, with the number of the request.
        self._open: dict[str, int | None] = {}
        #: Address of a repository -> whether it is this entry's.
        self._mine: dict[str, bool] = {}
        self._hints: dict[int, None] = {}
        self._hinted = asyncio.Event()
        self._origin = ""
        self._next_poll = 0.0
        self._next_recheck = 0.0

    def hint(self, number: int) -> None:
        """Have a change request read soon. A report can be old, repeated or wrong: nothing else of it is used."""
        if len(self._hints) < _MOST_REQUESTS:
            self._hints[number] = None
            self._hinted.set()

    async def keep(self, follower: BoardFollower) -> None:
        """Show and judge until cancelled. A forge or a bus that is away is waited for."""
        failures = 0
        while True:
            revision = follower.revision
            try:
                await self.round(follower.board)
                failures = 0
            except (UnavailableError, ConfigurationError) as error:
                failures += 1
                pause = retry_pause(failures, getattr(error, "retry_after", None))
                self._log.warning("forge_round_failed", code=error.reason, cause=error.message, retry_seconds=round(pause, 1))
                await asyncio.sleep(pause)
                continue
            await self._wait(follower, revision)

    async def round(self, board: Board) -> RoundReport:
        """Show every due run, then judge requests. Raises UnavailableError: the rest stays due."""
        now, report = self._clock.monotonic(), RoundReport()
        if board.origin != self._origin:
            self._origin = board.origin
            self._shown.clear()
        rows = tuple(row for row in board.rows.values() if self._is_mine(row.repository))
        self._mine = {row.repository: self._mine[row.repository] for row in board.rows.values()}
        self._shown = {row.run_id: self._shown[row.run_id] for row in rows if row.run_id in self._shown}
        self._open = {run_id: number for run_id, number in self._open.items() if run_id in board.rows}
        hints, self._hints = tuple(self._hints), {}
        self._hinted.clear()
        try:
            await self._show_due_runs(rows, hints, now, report)
            await self._judge_requests(hints, now, report)
        except UnavailableError:
            self._hints = dict.fromkeys((*hints, *self._hints))
            raise
        return report

    def _is_mine(self, repository: str) -> bool:
        if repository not in self._mine:
            self._mine[repository] = is_of(self.entry, repository)
        return self._mine[repository]

    async def _show_due_runs(self, rows: Sequence[BoardRow], hints: Iterable[int], now: float, report: RoundReport) -> None:
        """Show the due runs, the newest first: a person waits for those."""
        view = ForgeView(self.entry, tuple(rows), self._settings.publisher, self._settings.console)
        self.judged = judged_heads(view, self._clock.now())
        again = self._due_again(rows, frozenset(hints), now)
        changed = [row for row in rows if self._is_due(view, row)]
        due = {row.run_id: row for row in sorted((*changed, *again), key=lambda row: row.order, reverse=True)}
        waiting = {row.run_id: row for row in changed}
        try:
            for run_id, row in due.items():
                await self._show_run(view, row, report)
                self._shown[run_id] = row.sequence
                waiting.pop(run_id, None)
            if now >= self._next_recheck:
                self._next_recheck = now + self._settings.recheck
        finally:
            oldest = min((row.last_at for row in waiting.values()), default="")
            self._metrics.set_behind(seconds_since(oldest, self._clock.now()))

    def _due_again(self, rows: Iterable[BoardRow], hints: frozenset[int], now: float) -> list[BoardRow]:
        """Return the runs to compare again: those of reported requests, and now and then all with an open request."""
        everything = now >= self._next_recheck
        return [
            row
            for row in rows
            if (everything and row.run_id in self._open)
            or (hints and not hints.isdisjoint({self._open.get(row.run_id), request_number(row.judged_ref)}))
        ]

    def _is_due(self, view: ForgeView, row: BoardRow) -> bool:
        """Return whether a run is about a commit, and has an event that was not shown. Expired ones have no content."""
        if row.expired or self._shown.get(row.run_id) == row.sequence or not view.commits(row):
            return False
        return row.is_open or seconds_since(row.last_at, self._clock.now()) <= self._settings.look_back.total_seconds()

    async def _show_run(self, view: ForgeView, row: BoardRow, report: RoundReport) -> None:
        try:
            past = await self._read_run(row.run_id)
        except (MalformedError, VerificationError) as error:
            self._report_fault(report, "forge_run_unreadable", error, run_id=row.run_id)
            return
        if past is None:
            return
        done = await self._reconciler.reconcile(view, wanted_of(view, row, past))
        if done.open:
            self._open[row.run_id] = done.number
        else:
            self._open.pop(row.run_id, None)
        for refusal in done.refused:
            self._report_fault(report, "forge_call_refused", refusal, run_id=row.run_id)
        if done.alarm:
            self._metrics.count_alarm()
            self._log.error("forge_alarm", code=MERGED_ELSEWHERE, run_id=row.run_id, number=done.number, cause=done.alarm)
        if done.calls:
            made = [type(call).__name__ for call in done.calls]
            self._log.info("forge_shows_run", run_id=row.run_id, number=done.number, calls=made)
        report.runs.append(done)

    async def _judge_requests(self, hints: Iterable[int], now: float, report: RoundReport) -> None:
        judge = self.judge
        if judge is None:
            return
        for number in hints:
            await self._judge_one(judge.judge(number), number, report)
        if now < self._next_poll:
            return
        requests = await self._metrics.measure("open_requests", self._open_requests())
        for request in requests:
            await self._judge_one(judge.judge_request(request), request.number, report)
        self._next_poll = now + self._settings.poll

    async def _open_requests(self) -> list[ChangeRequest]:
        found: list[ChangeRequest] = []
        requests = self._forge.open_requests()
        async for request in requests:
            found.append(request)
            if len(found) == _MOST_REQUESTS:
                break
        return found

    async def _judge_one(self, judging: Awaitable[Ordered | Skipped], number: int, report: RoundReport) -> None:
        """Judge one request. What is wrong with it does not delay others."""
        try:
            outcome = await judging
        except (DeniedError, MalformedError) as error:
            self._report_fault(report, "forge_request_refused", error, number=number)
            return
        report.requests.append(outcome)
        if isinstance(outcome, Ordered) and not outcome.repeated:
            self._metrics.count_order()
            self._log.info("forge_orders_run", number=number, head=outcome.head, run_id=outcome.run_id)

    def _report_fault(
        self,
        report: RoundReport,
        event: str,
        error: DeniedError | MalformedError | VerificationError,
        *,
        run_id: str = "",
        number: int | None = None,
    ) -> None:
        self._log.warning(event, code=error.reason, cause=error.message, run_id=run_id, number=number)
        report.faults.append(f"{run_id or number}: {error.message} [{error.reason}]")

    async def _wait(self, follower: BoardFollower, revision: int) -> None:
        """Wait for an event of the ledger, a report about a request, or the next poll."""
        soon = self._next_recheck if self.judge is None else min(self._next_recheck, self._next_poll)
        waiting = [asyncio.create_task(follower.changed(revision)), asyncio.create_task(self._hinted.wait())]
        pause = max(0.0, soon - self._clock.monotonic())
        try:
            await asyncio.wait(waiting, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waiting:
                each.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*waiting, return_exceptions=True)
        await asyncio.sleep(_COLLECT)
