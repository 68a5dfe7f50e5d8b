"""Path locks: all or nothing, prefix-aware, never two holders, never a token twice."""

from __future__ import annotations

import asyncio

from gatewright.bus.memory import MemoryBus, MemoryServer
from gatewright.bus.setup import ensure_topology
from services.gatekeeper.gates.locks import PathLocks

REPOSITORY = "/srv/project"


class Runs:
    """Which runs are over."""

    def __init__(self) -> None:
        self.over: set[str] = set()

    async def has_ended(self, run_id: str) -> bool:
        return run_id in self.over


async def test_a_prefix_conflicts_with_what_lies_below_it(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    assert (await locks.take(REPOSITORY, "run-a", ["src"])).token == 1
    refused = await locks.take(REPOSITORY, "run-b", ["docs", "src/a.py"])
    assert (refused.token, refused.holders) == (0, ("run-a",))
    assert (await locks.take(REPOSITORY, "run-c", ["docs", "src2"])).token == 2


async def test_all_or_nothing_leaves_no_part_behind(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    await locks.take(REPOSITORY, "run-a", ["src"])
    await locks.take(REPOSITORY, "run-b", ["docs", "src"])
    assert (await locks.take(REPOSITORY, "run-c", ["docs"])).token > 0


async def test_taking_again_gives_the_same_token(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    first = await locks.take(REPOSITORY, "run-a", ["src"])
    assert await locks.take(REPOSITORY, "run-a", ["src"]) == first


async def test_a_released_path_is_free_and_tokens_rise(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    first = await locks.take(REPOSITORY, "run-a", ["src"])
    await locks.release(REPOSITORY, "run-a")
    await locks.release(REPOSITORY, "run-a")
    assert (await locks.take(REPOSITORY, "run-b", ["src"])).token == first.token + 1


async def test_a_run_that_has_ended_holds_nothing(bus: MemoryBus) -> None:
    runs = Runs()
    locks = PathLocks(bus, runs.has_ended)
    await locks.take(REPOSITORY, "run-dead", ["src"])
    assert (await locks.take(REPOSITORY, "run-b", ["src"])).token == 0
    runs.over.add("run-dead")
    assert (await locks.take(REPOSITORY, "run-b", ["src"])).token == 2


async def test_two_gatekeepers_never_grant_the_same_path_twice() -> None:
    server = MemoryServer()
    buses = [MemoryBus(server), MemoryBus(server)]
    await ensure_topology(buses[0])
    desks = [PathLocks(bus, Runs().has_ended) for bus in buses]
    takes = [desks[number % 2].take(REPOSITORY, f"run-{number}", ["src"]) for number in range(20)]
    grants = await asyncio.gather(*takes)
    assert sum(1 for grant in grants if grant.token) == 1
    for bus in buses:
        await bus.close()
