"""Gatekeepers that fight over runs and are killed at random: ``python -m tests.faults.replicas --runs 100``.

Two of them (or more) serve one bus while runs come in. The moment that a transition of a run is in the ledger one of them is
killed, stopped in the middle of whatever it does until others have got on, or told to leave; it is started again at once. At
the end every ledger has to be one line of history with one seal, every run landed once, and every bundle has to verify and to
come out of the ledger again, byte for byte.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gatewright.app.replay.rebuild import rebuild
from gatewright.app.stack.fork_server import START_ORDER
from gatewright.bus.topology import run_subject
from gatewright.errors import GatewrightError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.secrets.selection import make_scanner
from tests.faults.crash_points import TRANSITIONS
from tests.faults.fault_stack import House, open_house
from tests.faults.load import Given, Load, Outcome, judge, reached

#: Runs that are given before one of them has to be over.
UNDER_WAY = 8
#: Every so many runs one carries a blow, which falls at one of its transitions.
EVERY = 2
#: Of ten blows, so many of each kind, in an order drawn anew.
BLOWS = {"SIGKILL": 6, "SIGSTOP": 2, "SIGTERM": 2}
#: Transitions that others make before a stopped process goes on, at least and at most; and seconds after which it goes on
#: anyway, as what it holds may be all that is left.
STOPPED = (5, 40)
STOPPED_SECONDS = 9.0

Disturb = Callable[[int, Given], Coroutine[None, None, None]]


@dataclass
class Fight:
    """Runs in a house whose gatekeepers are beaten."""

    house: House
    load: Load
    chance: random.Random
    blows: Counter[str] = field(default_factory=Counter)
    _plan: dict[int, tuple[int, str]] = field(default_factory=dict)
    _stopped: set[int] = field(default_factory=set)

    async def play(self, runs: int, *, until: float) -> Outcome:
        self._plan = plan(runs, self.chance)
        await give_all(self.load, runs, until, self._disturb)
        await self.load.settle()
        return await judge(self.house, self.load.given)

    async def _disturb(self, number: int, given: Given) -> None:
        if number not in self._plan:
            return
        transition, name = self._plan[number]
        await reached(self.house, given, transition)
        while not await self._strike(signal.Signals[name]):  # noqa: ASYNC110 - other processes
            await asyncio.sleep(0.02)
        self.blows[name] += 1

    async def _strike(self, number: signal.Signals) -> bool:
        """Whether there was one to be struck."""
        able = [pid for pid in self.house.pids("gatekeeper") if pid not in self._stopped]
        if not able:
            return False
        victim = self.chance.choice(able)
        try:
            os.kill(victim, number)
            if number is signal.SIGSTOP:
                await self._hold(victim)
        except ProcessLookupError:
            return False
        return True

    async def _hold(self, victim: int) -> None:
        """Let a stopped process lie until the others have got on."""
        self._stopped.add(victim)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOPPED_SECONDS):
                    await self._others_got_on(self.chance.randint(*STOPPED))
        finally:
            self._stopped.discard(victim)
            os.kill(victim, signal.SIGCONT)

    async def _others_got_on(self, transitions: int) -> None:
        stored = len([message async for message in self.house.bus.replay(run_subject("*"))])
        async with contextlib.aclosing(self.house.bus.replay(run_subject("*"), follow=True)) as messages:
            count = 0
            async for _ in messages:
                count += 1
                if count >= stored + transitions:
                    return


def plan(runs: int, chance: random.Random) -> dict[int, tuple[int, str]]:
    """By the number of a run that carries a blow: the transition at which it falls, and its kind."""
    bags = (chance.sample(list(BLOWS), counts=list(BLOWS.values()), k=sum(BLOWS.values())) for _ in itertools.count())
    kinds = itertools.chain.from_iterable(bags)
    return {number: (chance.randint(1, TRANSITIONS), next(kinds)) for number in range(0, runs, EVERY)}


async def give_all(load: Load, runs: int, until: float, disturb: Disturb) -> None:
    """Give so many runs, a few at a time, as long as there is time; each is disturbed while it goes on."""
    places = asyncio.Semaphore(UNDER_WAY)

    async def one(number: int) -> None:
        async with places:
            if time.monotonic() >= until:
                return
            given = await load.give(durable=number % 4 != 0)
            async with asyncio.TaskGroup() as both:
                both.create_task(disturb(number, given))
                both.create_task(ended(given))

    async def ended(given: Given) -> None:
        with contextlib.suppress(GatewrightError):  # it is looked at in the end
            await load.house.client.wait(given.run_id, timeout=max(1.0, until - time.monotonic()))

    async with asyncio.TaskGroup() as group:
        for number in range(runs):
            group.create_task(one(number))


async def rebuilt(house: House, load: Load) -> list[str]:
    """The runs whose bundle does not come out of the ledger byte for byte as it was sealed."""
    signer, scanner = Signer(keys.load_or_create(house.key)), make_scanner("kingfisher", house.root / "secret-rules")
    await asyncio.to_thread(scanner.prepare)
    different = []
    for given in load.given:
        sealed = next((home / "runs" / given.run_id for home in house.homes if _is_sealed(home, given.run_id)), None)
        if sealed is None:
            continue
        try:
            await rebuild(house.bus, given.run_id, house.root / "rebuilt", signer, scanner)
        except GatewrightError as error:
            different.append(f"{given.run_id}: {error.message}")
            continue
        if _contents(sealed) != _contents(house.root / "rebuilt" / given.run_id):
            different.append(given.run_id)
    return different


def _is_sealed(home: Path, run_id: str) -> bool:
    return (home / "runs" / run_id / "manifest.json").is_file()


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


async def fight(
    root: Path, runs: int, *, gatekeepers: int, own_homes: bool, seconds: float, seed: int, partitions: int = 1
) -> tuple[Fight, Outcome]:
    """A fight in a house of its own, whose ledger lies in so many streams."""
    async with open_house(root, gatekeepers=gatekeepers, own_homes=own_homes, partitions=partitions) as house:
        fought = Fight(house, Load(house, seconds=0.1), random.Random(seed))  # noqa: S311 - to be repeated, not to be secret
        outcome = await fought.play(runs, until=time.monotonic() + seconds)
        different = await rebuilt(house, fought.load)
        outcome.bundles_that_do_not_verify += different
        return fought, outcome


@dataclass
class Rolling:
    """Runs in a house whose services are restarted in order, one process after another, each at a transition of a run."""

    house: House
    load: Load
    restarts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _processes: Iterator[tuple[str, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._processes = itertools.cycle([(role, place) for role in START_ORDER for place in range(self._count(role))])

    async def play(self, runs: int, *, until: float) -> Outcome:
        await give_all(self.load, runs, until, self._disturb)
        await self.load.settle()
        return await judge(self.house, self.load.given)

    async def _disturb(self, number: int, given: Given) -> None:
        await reached(self.house, given, 1 + number % TRANSITIONS)
        async with self._turn:
            await self._restart(*next(self._processes))

    async def _restart(self, role: str, place: int) -> None:
        started, pid, count = time.monotonic(), self.house.pids(role)[place], self._count(role)
        os.kill(pid, signal.SIGTERM)
        while pid in self.house.pids(role) or self._count(role) < count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        self.restarts[role] += 1
        self.slowest = max(self.slowest, time.monotonic() - started)

    def _count(self, role: str) -> int:
        return len(self.house.pids(role))


async def roll(root: Path, runs: int, *, gatekeepers: int, seconds: float) -> tuple[Rolling, Outcome]:
    """A rolling restart in a house of its own."""
    async with open_house(root, gatekeepers=gatekeepers) as house:
        rolling = Rolling(house, Load(house, seconds=0.1))
        outcome = await rolling.play(runs, until=time.monotonic() + seconds)
        return rolling, outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--gatekeepers", type=int, default=2)
    parser.add_argument("--own-homes", action="store_true", help="each gatekeeper has a home folder of its own")
    parser.add_argument("--partitions", type=int, default=1, help="in how many streams the ledger lies")
    parser.add_argument("--rolling", action="store_true", help="restart every service in order instead of beating gatekeepers")
    parser.add_argument("--seconds", type=float, default=900.0, help="no new run after so long")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--root", type=Path, help="where to keep everything (default: a folder that is removed)")
    words = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="replicas-") as temporary:
        root: Path = words.root or Path(temporary)
        if words.rolling:
            rolled, outcome = asyncio.run(roll(root, words.runs, gatekeepers=words.gatekeepers, seconds=words.seconds))
            print("restarts", dict(rolled.restarts), f"slowest {rolled.slowest:.1f} s")  # noqa: T201
        else:
            options = {name: getattr(words, name) for name in ("gatekeepers", "own_homes", "seed", "partitions")}
            fought, outcome = asyncio.run(fight(root, words.runs, seconds=words.seconds, **options))
            print("blows", dict(fought.blows))  # noqa: T201
    print(outcome)  # noqa: T201
    print(f"{'seconds':28} {time.monotonic() - started:.0f}")  # noqa: T201
    for name, runs in outcome.faults.items():
        print(name, *runs, sep="\n  ")  # noqa: T201
    return 1 if outcome.faults or outcome.runs < words.runs else 0


if __name__ == "__main__":
    sys.exit(main())
