"""Path locks across runs: all or nothing, prefix-aware, with a fencing token, first come first served. One key of the bus per
repository.

A lock keeps two runs from landing changes to the same paths on the same ref; runs that land on different refs never conflict.
The holder of a lock is a run; a run that has ended holds nothing, whatever the key still says. A run that cannot have its paths
stands in the table too, so that every gatekeeper knows who is next: what a run waits for is given to no later one, so that many
small runs cannot keep out a large one. Who releases is told who can go on; waking them is not done here.

The order among those who wait: the more urgent class first, then who came first. One that was passed over 16 times is urgent.
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

#: Tries of one compare-and-set before the caller is told to come back.
TRIES = 20
#: Grants to later runs after which one that waits is as urgent as any.
PATIENCE = 16

Answer = TypeVar("Answer")


class Claim(msgspec.Struct, frozen=True):
    """What a run wants to change: ``paths`` on ``ref``, which is empty for a run that lands nowhere.

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
    """``ticket`` rises with every one who comes; ``passed``: grants of conflicting paths to later ones since."""

    claim: Claim
    ticket: int
    passed: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """The lower, the sooner it is its turn."""
        return (0 if self.passed >= PATIENCE else self.claim.rank, self.ticket)


class LockTable(msgspec.Struct, frozen=True):
    """``last_token`` and ``last_ticket`` rise for ever: none is ever given twice."""

    last_token: int = 0
    locks: tuple[Lock, ...] = ()
    last_ticket: int = 0
    waiting: tuple[Waiter, ...] = ()

    def ahead_of(self, waiter: Waiter) -> tuple[Waiter, ...]:
        """Those who wait for some of the same and whose turn is sooner, in their order."""
        ahead = (each for each in self.waiting if each.place < waiter.place and each.claim.conflicts(waiter.claim))
        return tuple(sorted(ahead, key=lambda each: each.place))

    def holding(self, claim: Claim) -> tuple[Lock, ...]:
        return tuple(lock for lock in self.locks if lock.claim.conflicts(claim))

    def without(self, *run_ids: str) -> LockTable:
        """The table after these runs have given up what they hold and wait for."""
        return replace(
            self,
            locks=tuple(lock for lock in self.locks if lock.claim.run_id not in run_ids),
            waiting=tuple(each for each in self.waiting if each.claim.run_id not in run_ids),
        )

    def granted(self, waiter: Waiter) -> LockTable:
        """The table after ``waiter`` was given its paths; who came before and was passed over has that counted."""
        token, claim = self.last_token + 1, waiter.claim
        waiting = tuple(
            replace(each, passed=each.passed + 1) if each.ticket < waiter.ticket and each.claim.conflicts(claim) else each
            for each in self.waiting
            if each.claim.run_id != claim.run_id
        )
        return replace(self, last_token=token, locks=(*self.locks, Lock(claim, token)), waiting=waiting)

    def able(self) -> tuple[str, ...]:
        """The runs that wait and could go on now, in their order."""
        free = (each for each in self.waiting if not self.holding(each.claim) and not self.ahead_of(each))
        return tuple(each.claim.run_id for each in sorted(free, key=lambda each: each.place))


@dataclass(frozen=True, slots=True)
class Grant:
    """``token`` 0 means that the run has to wait; ``holders`` are the runs in the way."""

    token: int
    holders: tuple[str, ...] = ()


class PathLocks:
    """The lock tables of all repositories. ``has_ended`` tells whether a run is over."""

    def __init__(self, bus: Bus, has_ended: Callable[[str], Awaitable[bool]]) -> None:
        self._bus = bus
        self._has_ended = has_ended
        # A table changes once at a time in this process, each for itself; other replicas are met by compare-and-set.
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def take(self, repository: str, claim: Claim) -> Grant:
        """All of the claim's paths for its run, or a place among those who wait.

        Taking again what the run holds gives the same token.
        1. what the run holds already is its own  2. a live holder is in the way  3. so is a live run whose turn is sooner.
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

        return await self._change(repository, change)

    async def holds(self, repository: str, claim: Claim, token: int) -> bool:
        """Whether the claim's run still has what it was given with ``token``: not released, and not overtaken.

        A table that has never given that token was brought back from before it was: the run has its paths anew then, where no
        live run has any of them.
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

        return await self._change(repository, change)

    async def release(self, repository: str, run_id: str) -> tuple[str, ...]:
        """Give up what ``run_id`` holds or waits for; the runs that wait and can go on now.

        Also when there was nothing to give up: another run may have found it ended first, and have taken it off the table.
        """

        async def change(table: LockTable) -> tuple[LockTable, tuple[str, ...]]:
            left = table.without(run_id)
            return left, left.able()

        return await self._change(repository, change)

    async def _change(self, repository: str, change: Callable[[LockTable], Awaitable[tuple[LockTable, Answer]]]) -> Answer:
        key = _key(repository)
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


def _key(repository: str) -> str:
    return hashlib.sha256(repository.encode()).hexdigest()
