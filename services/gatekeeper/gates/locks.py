"""Path locks across runs: all or nothing, prefix-aware, with a fencing token. One key of the bus per repository.

The holder of a lock is a run; a run that has ended holds nothing, whatever the key still says.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from gatewright import scope
from gatewright.bus.port import Bus
from gatewright.errors import ConflictError

#: Tries of one compare-and-set before the caller is told to come back.
TRIES = 20


class Lock(msgspec.Struct, frozen=True):
    run_id: str
    paths: tuple[str, ...]
    token: int


class LockTable(msgspec.Struct, frozen=True):
    """``last_token`` rises for ever: a token is never given twice."""

    last_token: int = 0
    locks: tuple[Lock, ...] = ()


@dataclass(frozen=True, slots=True)
class Grant:
    """``token`` 0 means refused; ``holders`` are the runs in the way."""

    token: int
    holders: tuple[str, ...] = ()


class PathLocks:
    """The lock tables of all repositories. ``has_ended`` tells whether a run is over."""

    def __init__(self, bus: Bus, has_ended: Callable[[str], Awaitable[bool]]) -> None:
        self._bus = bus
        self._has_ended = has_ended
        # One table changes at a time in this process; other replicas are met by compare-and-set.
        self._turn = asyncio.Lock()

    async def take(self, repository: str, run_id: str, paths: Sequence[str]) -> Grant:
        """All of ``paths`` for ``run_id``, or none. Taking again what one holds gives the same token."""

        async def change(table: LockTable) -> tuple[LockTable, Grant]:
            mine = next((lock for lock in table.locks if lock.run_id == run_id), None)
            if mine is not None:
                return table, Grant(mine.token)
            blocking = [lock for lock in table.locks if scope.overlap(lock.paths, paths)]
            live = [lock for lock in blocking if not await self._has_ended(lock.run_id)]
            if live:
                return table, Grant(0, tuple(sorted(lock.run_id for lock in live)))
            token = table.last_token + 1
            kept = tuple(lock for lock in table.locks if lock not in blocking)
            return LockTable(token, (*kept, Lock(run_id, tuple(paths), token))), Grant(token)

        return await self._change(repository, change)

    async def holds(self, repository: str, run_id: str, token: int) -> bool:
        """Whether ``run_id`` still has what it was given with ``token``: not released, and not overtaken."""
        stored = await self._bus.kv_get(_key(repository))
        table = msgspec.json.decode(stored[0], type=LockTable) if stored else LockTable()
        return any(lock.run_id == run_id and lock.token == token for lock in table.locks)

    async def release(self, repository: str, run_id: str) -> None:
        """Give back what ``run_id`` holds; nothing happens when it holds nothing."""

        async def change(table: LockTable) -> tuple[LockTable, Grant]:
            kept = tuple(lock for lock in table.locks if lock.run_id != run_id)
            return msgspec.structs.replace(table, locks=kept), Grant(0)

        await self._change(repository, change)

    async def _change(self, repository: str, change: Callable[[LockTable], Awaitable[tuple[LockTable, Grant]]]) -> Grant:
        key = _key(repository)
        async with self._turn:
            for _ in range(TRIES):
                stored = await self._bus.kv_get(key)
                table = msgspec.json.decode(stored[0], type=LockTable) if stored else LockTable()
                changed, grant = await change(table)
                if changed == table:
                    return grant
                try:
                    await self._bus.kv_put(key, msgspec.json.encode(changed), revision=stored[1] if stored else 0)
                except ConflictError:
                    continue
                return grant
        raise ConflictError(f"the lock table of {repository} changed {TRIES} times under us")


def _key(repository: str) -> str:
    return hashlib.sha256(repository.encode()).hexdigest()
