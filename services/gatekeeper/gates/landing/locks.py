"""Path locks across runs: all or nothing, prefix-aware, first come first served, with a fencing token. One bus key per
repository.

A lock keeps two runs from landing changes to the same paths on the same ref. Runs on different refs never conflict. Runs hold
locks; an ended run holds nothing, even if the table still lists it. Waiting runs are in the table too, so that every gatekeeper
knows the order. Paths that a run waits for are not granted to a later run, so many small runs cannot starve a large one.
``release`` returns the runs that can continue; the caller wakes them.

Waiting runs are ordered by priority class, then by arrival. A run that was passed over 16 times becomes urgent.
"""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from gatewright import scope
from gatewright.bus.port import Bus
from gatewright.errors import ConflictError
from gatewright.foreign_documents import read_json

#: Attempts of one compare-and-set before the caller has to retry later.
TRIES = 20
#: Number of grants to later runs after which a waiting run becomes urgent.
PATIENCE = 16

Answer = TypeVar("Answer")


class Claim(msgspec.Struct, frozen=True):
    """The paths that a run wants to change on ``ref``; an empty ref for a run that lands nowhere.

    ``rank`` 0 is the most urgent class.
    """

    run_id: str
    ref: str
    paths: tuple[str, ...]
    rank: int = 1

    def conflicts(self, other: Claim) -> bool:
        return bool(self.ref) and self.ref == other.ref and scope.overlap(self.paths, other.paths)


class Lock(msgspec.Struct, frozen=True):
    claim: Claim
    token: int


class Waiter(msgspec.Struct, frozen=True):
    """A waiting run. ``ticket`` increases with every arrival; ``passed`` counts grants of conflicting paths to later runs."""

    claim: Claim
    ticket: int
    passed: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """Sort key: lower goes first."""
        return (0 if self.passed >= PATIENCE else self.claim.rank, self.ticket)


class LockTable(msgspec.Struct, frozen=True):
    """Table of one repository. ``last_token`` and ``last_ticket`` only increase: no value is issued twice."""

    last_token: int = 0
    locks: tuple[Lock, ...] = ()
    last_ticket: int = 0
    waiting: tuple[Waiter, ...] = ()

    def ahead_of(self, waiter: Waiter) -> tuple[Waiter, ...]:
        """Return the waiting runs with conflicting paths that go first, in order."""
        ahead = (each for each in self.waiting if each.place < waiter.place and each.claim.conflicts(waiter.claim))
        return tuple(sorted(ahead, key=lambda each: each.place))

    def holding(self, claim: Claim) -> tuple[Lock, ...]:
        return tuple(lock for lock in self.locks if lock.claim.conflicts(claim))

    def without(self, *run_ids: str) -> LockTable:
        """Return the table without the locks and waiting entries of these runs."""
        return replace(
            self,
            locks=tuple(lock for lock in self.locks if lock.claim.run_id not in run_ids),
            waiting=tuple(each for each in self.waiting if each.claim.run_id not in run_ids),
        )

    def granted(self, waiter: Waiter) -> LockTable:
        """Return the table after granting ``waiter`` its paths; earlier waiting runs have one more passed grant."""
        token, claim = self.last_token + 1, waiter.claim
        waiting = tuple(
            replace(each, passed=each.passed + 1) if each.ticket < waiter.ticket and each.claim.conflicts(claim) else each
            for each in self.waiting
            if each.claim.run_id != claim.run_id
        )
        return replace(self, last_token=token, locks=(*self.locks, Lock(claim, token)), waiting=waiting)

    def able(self) -> tuple[str, ...]:
        """Return the waiting runs that could continue now, in order."""
        free = (each for each in self.waiting if not self.holding(each.claim) and not self.ahead_of(each))
        return tuple(each.claim.run_id for each in sorted(free, key=lambda each: each.place))


@dataclass(frozen=True, slots=True)
class Grant:
    """``token`` 0 means that the run has to wait; ``holders`` are the conflicting runs."""

    token: int
    holders: tuple[str, ...] = ()


class PathLocks:
    """The lock tables of all repositories. ``has_ended`` returns whether a run has ended."""

    def __init__(self, bus: Bus, has_ended: Callable[[str], Awaitable[bool]]) -> None:
        self._bus = bus
        self._has_ended = has_ended
        # One change of a table at a time in this process; compare-and-set orders changes of other replicas.
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def take(self, repository: str, claim: Claim) -> Grant:
        """Grant the claim's run all its paths, or put it into the waiting list.

        Repeating a granted claim returns the same token.

        1. Paths that the run already holds stay granted.
        2. A live holder blocks.
        3. So does a live waiting run that goes first.
        """

        async def change(table: LockTable) -> tuple[LockTable, Grant]:
            mine = next((lock for lock in table.locks if lock.claim.run_id == claim.run_id), None)
            if mine is not None:  # 1
                return table, Grant(mine.token)
            waiter = next((each for each in table.waiting if each.claim.run_id == claim.run_id), None)
            if waiter is None:
                waiter = Waiter(claim, table.last_ticket + 1)
                table = replace(table, last_ticket=waiter.ticket, waiting=(*table.waiting, waiter))
            holding = [lock.claim.run_id for lock in table.holding(claim)]
            live = [run_id for run_id in holding if not await self._has_ended(run_id)]
            table = table.without(*(run_id for run_id in holding if run_id not in live))
            if live:  # 2
                return table, Grant(0, tuple(sorted(live)))
            for each in table.ahead_of(waiter):  # 3
                if not await self._has_ended(each.claim.run_id):
                    return table, Grant(0, (each.claim.run_id,))
                table = table.without(each.claim.run_id)
            table = table.granted(waiter)
            return table, Grant(table.last_token)

        return await self._update_locks(repository, change)

    async def holds(self, repository: str, claim: Claim, token: int) -> bool:
        """Return whether the claim's run still holds the paths of ``token``: not released, and not overtaken.

        A table that never issued this token was restored from an older backup. Then the run gets its paths again, unless a live
        run holds any of them.
        """

        async def change(table: LockTable) -> tuple[LockTable, bool]:
            if any(lock.claim.run_id == claim.run_id and lock.token == token for lock in table.locks):
                return table, True
            if table.last_token >= token:
                return table, False
            live = [lock for lock in table.holding(claim) if not await self._has_ended(lock.claim.run_id)]
            if live:
                return table, False
            table = table.without(claim.run_id, *(lock.claim.run_id for lock in table.holding(claim)))
            return replace(table, last_token=token, locks=(*table.locks, Lock(claim, token))), True

        return await self._update_locks(repository, change)

    async def release(self, repository: str, run_id: str) -> tuple[str, ...]:
        """Release what ``run_id`` holds or waits for, and return the waiting runs that can continue now.

        Also when there was nothing to release: another run may have removed this ended run from the table first.
        """

        async def change(table: LockTable) -> tuple[LockTable, tuple[str, ...]]:
            left = table.without(run_id)
            return left, left.able()

        return await self._update_locks(repository, change)

    async def _update_locks(
        self, repository: str, change: Callable[[LockTable], Awaitable[tuple[LockTable, Answer]]]
    ) -> Answer:
        key = _repository_key(repository)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = asyncio.Lock()
        async with turn:
            for _ in range(TRIES):
                stored = await self._bus.kv_get(key)
                table = _table(stored)
                changed, answer = await change(table)
                if changed == table:
                    return answer
                try:
                    await self._bus.kv_put(key, msgspec.json.encode(changed), revision=stored[1] if stored else 0)
                except ConflictError:
                    continue
                return answer
        raise ConflictError(f"the lock table of {repository} changed {TRIES} times under us")


def _table(stored: tuple[bytes, int] | None) -> LockTable:
    return read_json(stored[0], LockTable) if stored else LockTable()


def _repository_key(repository: str) -> str:
    return hashlib.sha256(repository.encode()).hexdigest()
