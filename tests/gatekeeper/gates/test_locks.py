"""Path locks: all or nothing, prefix-aware, never two holders, never a token twice, first come first served."""

from __future__ import annotations

import asyncio

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.services.gatekeeper.gates.landing.locks import PATIENCE, Claim, PathLocks

REPOSITORY = "/srv/project"
MAIN = "refs/heads/main"
HIGH, NORMAL = 0, 1


class Runs:
    """Which runs are over; every question about one is counted."""

    def __init__(self) -> None:
        self.over: set[str] = set()
        self.asked = 0

    async def has_ended(self, run_id: str) -> bool:
        self.asked += 1
        return run_id in self.over


def claim(run_id: str, *paths: str, ref: str = MAIN, rank: int = NORMAL) -> Claim:
    return Claim(run_id, ref, paths or ("src",), rank)


async def test_a_prefix_conflicts_with_what_lies_below_it(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    assert (await locks.take(REPOSITORY, claim("run-a", "src"))).token == 1
    refused = await locks.take(REPOSITORY, claim("run-b", "docs", "src/a.py"))
    assert (refused.token, refused.holders) == (0, ("run-a",))
    assert (await locks.take(REPOSITORY, claim("run-c", "src2"))).token == 2


async def test_all_or_nothing_leaves_no_part_behind(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    await locks.take(REPOSITORY, claim("run-a", "src"))
    await locks.take(REPOSITORY, claim("run-b", "docs", "src"))
    await locks.release(REPOSITORY, "run-b")
    assert (await locks.take(REPOSITORY, claim("run-c", "docs"))).token > 0


async def test_one_repository_does_not_wait_while_another_is_looked_into(bus: MemoryBus) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def has_ended(_run_id: str) -> bool:
        asked.set()
        return await answer.wait()

    locks = PathLocks(bus, has_ended)
    await locks.take(REPOSITORY, claim("run-a"))
    waiting = asyncio.create_task(locks.take(REPOSITORY, claim("run-b")))
    await asked.wait()
    assert (await locks.take("/srv/other", claim("run-c"))).token == 1
    assert not waiting.done()
    answer.set()
    assert (await waiting).token == 2


async def test_taking_again_gives_the_same_token(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    first = await locks.take(REPOSITORY, claim("run-a"))
    assert await locks.take(REPOSITORY, claim("run-a")) == first


async def test_a_released_path_is_free_and_tokens_rise(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    first = await locks.take(REPOSITORY, claim("run-a"))
    assert await locks.release(REPOSITORY, "run-a") == ()
    assert await locks.release(REPOSITORY, "run-a") == ()
    assert (await locks.take(REPOSITORY, claim("run-b"))).token == first.token + 1


async def test_a_run_that_has_ended_holds_nothing(bus: MemoryBus) -> None:
    runs = Runs()
    locks = PathLocks(bus, runs.has_ended)
    await locks.take(REPOSITORY, claim("run-dead"))
    assert (await locks.take(REPOSITORY, claim("run-b"))).token == 0
    runs.over.add("run-dead")
    assert (await locks.take(REPOSITORY, claim("run-b"))).token == 2


async def test_runs_that_land_on_different_refs_do_not_wait_for_each_other(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    branches = [claim(f"run-{name}", ref=f"refs/heads/gatewright/run-{name}") for name in "abc"]
    grants = [await locks.take(REPOSITORY, each) for each in (*branches, claim("run-main"), claim("run-lands-nowhere", ref=""))]
    assert [grant.token for grant in grants] == [1, 2, 3, 4, 5]
    assert (await locks.take(REPOSITORY, claim("run-late"))).holders == ("run-main",)
    assert (await locks.take(REPOSITORY, claim("run-nowhere-either", ref=""))).token == 6


async def test_a_release_names_who_can_go_on_and_no_other(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    for each in (claim("run-a", "src", "docs"), claim("run-b", "src"), claim("run-c", "src/x"), claim("run-d", "docs")):
        await locks.take(REPOSITORY, each)
    assert await locks.release(REPOSITORY, "run-a") == ("run-b", "run-d")
    for each in (claim("run-b", "src"), claim("run-d", "docs")):
        assert (await locks.take(REPOSITORY, each)).token
    assert await locks.release(REPOSITORY, "run-b") == ("run-c",)


async def test_who_came_first_is_served_first(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    await locks.take(REPOSITORY, claim("run-holder"))
    names = [f"run-{number:02}" for number in range(10)]
    for name in names:
        await locks.take(REPOSITORY, claim(name))
    holder, served = "run-holder", list[str]()
    while len(served) < len(names):
        assert await locks.release(REPOSITORY, holder) == (names[len(served)],)
        for name in reversed([each for each in names if each not in served]):  # all try at once, the last one first
            if (await locks.take(REPOSITORY, claim(name))).token:
                holder = name
                served.append(name)
    assert served == names


async def test_many_small_runs_do_not_keep_out_one_that_wants_much(bus: MemoryBus) -> None:
    """It gets no part before it gets all, and what it waits for is given to no later one."""
    locks = PathLocks(bus, Runs().has_ended)
    await locks.take(REPOSITORY, claim("run-small-0", "src/a"))
    assert (await locks.take(REPOSITORY, claim("run-large", "src", "docs"))).holders == ("run-small-0",)
    assert (await locks.take(REPOSITORY, claim("run-small-1", "src/b"))).holders == ("run-large",)
    assert (await locks.take(REPOSITORY, claim("run-elsewhere", "tools"))).token
    assert await locks.release(REPOSITORY, "run-small-0") == ("run-large",)


async def test_an_urgent_run_goes_before_and_an_ordinary_one_is_not_starved(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    await locks.take(REPOSITORY, claim("run-holder"))
    await locks.take(REPOSITORY, claim("run-ordinary"))
    holder, urgent = "run-holder", 0
    while True:
        await locks.take(REPOSITORY, claim(f"run-urgent-{urgent}", rank=HIGH))
        (following,) = await locks.release(REPOSITORY, holder)
        assert (await locks.take(REPOSITORY, claim(following, rank=NORMAL if following == "run-ordinary" else HIGH))).token
        if following == "run-ordinary":
            break
        holder, urgent = following, urgent + 1
    assert urgent == PATIENCE


async def test_a_run_that_gives_up_waiting_blocks_no_other(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    await locks.take(REPOSITORY, claim("run-a", "src/a"))
    await locks.take(REPOSITORY, claim("run-aborted", "src"))
    await locks.take(REPOSITORY, claim("run-c", "src/c"))
    assert await locks.release(REPOSITORY, "run-aborted") == ("run-c",)


async def test_a_run_that_ended_while_waiting_blocks_no_other(bus: MemoryBus) -> None:
    """Its gatekeeper was killed before it could take it off the table."""
    runs = Runs()
    locks = PathLocks(bus, runs.has_ended)
    await locks.take(REPOSITORY, claim("run-a", "src/a"))
    await locks.take(REPOSITORY, claim("run-dead", "src"))
    runs.over.add("run-dead")
    assert (await locks.take(REPOSITORY, claim("run-c", "src/c"))).token


async def test_a_release_wakes_the_next_run_after_a_cleared_table(bus: MemoryBus) -> None:
    """The holder has ended in the ledger; before its gatekeeper releases its paths, another run asks for them."""
    runs = Runs()
    locks = PathLocks(bus, runs.has_ended)
    await locks.take(REPOSITORY, claim("run-holder"))
    await locks.take(REPOSITORY, claim("run-next"))
    runs.over.add("run-holder")
    assert (await locks.take(REPOSITORY, claim("run-late"))).holders == ("run-next",)
    assert await locks.release(REPOSITORY, "run-holder") == ("run-next",)


async def test_a_long_line_costs_one_question_for_each_that_joins_it(bus: MemoryBus) -> None:
    runs = Runs()
    locks = PathLocks(bus, runs.has_ended)
    await locks.take(REPOSITORY, claim("run-holder"))
    for number in range(60):
        await locks.take(REPOSITORY, claim(f"run-{number:02}"))
    assert runs.asked == 60


async def test_two_gatekeepers_never_grant_the_same_path_twice() -> None:
    server = MemoryServer()
    buses = [MemoryBus(server), MemoryBus(server)]
    await ensure_topology(buses[0])
    replicas = [PathLocks(bus, Runs().has_ended) for bus in buses]
    grants = await asyncio.gather(*(replicas[n % 2].take(REPOSITORY, claim(f"run-{n}")) for n in range(20)))
    assert sum(1 for grant in grants if grant.token) == 1
    (following,) = await replicas[1].release(REPOSITORY, next(f"run-{n}" for n in range(20) if grants[n].token))
    assert (await replicas[0].take(REPOSITORY, claim(following))).token == 2
    for bus in buses:
        await bus.close()


async def test_a_table_from_before_a_grant_gives_the_run_its_paths_back(bus: MemoryBus) -> None:
    """A lock table that was restored may be older than the ledger: what it has never given out was not taken away either."""
    locks = PathLocks(bus, Runs().has_ended)
    await locks.take(REPOSITORY, claim("run-other", "docs"))
    assert await locks.holds(REPOSITORY, claim("run-a"), 7)
    assert (await locks.take(REPOSITORY, claim("run-b"))).holders == ("run-a",)
    assert (await locks.take(REPOSITORY, claim("run-c", "tests"))).token == 8


async def test_a_table_from_before_a_grant_takes_nothing_from_a_live_run(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    await locks.take(REPOSITORY, claim("run-b"))
    assert not await locks.holds(REPOSITORY, claim("run-a"), 7)


async def test_what_was_released_is_not_held_any_more(bus: MemoryBus) -> None:
    locks = PathLocks(bus, Runs().has_ended)
    grant = await locks.take(REPOSITORY, claim("run-a"))
    assert await locks.holds(REPOSITORY, claim("run-a"), grant.token)
    await locks.release(REPOSITORY, "run-a")
    assert not await locks.holds(REPOSITORY, claim("run-a"), grant.token)
