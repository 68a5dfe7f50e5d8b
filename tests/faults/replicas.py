"""Gatekeepers that fight over runs and are killed at random: ``python -m tests.faults.replicas --runs 100``.

Two of them (or more) serve one bus while runs come in. All the while one is killed, stopped for some seconds in the middle of
whatever it does, or told to leave; it is started again at once. At the end every ledger has to be one line of history with one
seal, every run landed once, and every bundle has to verify and to come out of the ledger again, byte for byte.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from gatewright.errors import GatewrightError
from gatewright.evidence import keys
from gatewright.evidence.signing import Signer
from gatewright.replay.rebuild import rebuild
from gatewright.secrets.scanner import make_scanner
from gatewright.stack.supervisor import START_ORDER
from tests.faults.house import House, open_house
from tests.faults.load import Load, Outcome, judge

#: Runs that are given before one of them has to be over.
UNDER_WAY = 8
#: Seconds between two blows, at least and at most, and how long a process is stopped.
PAUSE = (1.0, 3.0)
STOPPED = (2.0, 9.0)
BLOWS = {"SIGKILL": 6, "SIGSTOP": 2, "SIGTERM": 2}


@dataclass
class Fight:
    """Runs in a house whose gatekeepers are beaten."""

    house: House
    load: Load
    chance: random.Random
    blows: Counter[str] = field(default_factory=Counter)

    async def play(self, runs: int, *, until: float) -> Outcome:
        beating = asyncio.create_task(self._beat())
        await give_all(self.load, runs, until)
        beating.cancel()
        await asyncio.wait({beating})
        await self.load.settle()
        return await judge(self.house, self.load.given)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self.chance.uniform(*PAUSE))
            (name,) = self.chance.choices(list(BLOWS), weights=list(BLOWS.values()))
            alive = self.house.pids("gatekeeper")
            if not alive:
                continue
            victim = self.chance.choice(alive)
            self.blows[name] += 1
            await self._strike(victim, signal.Signals[name])

    async def _strike(self, victim: int, number: signal.Signals) -> None:
        try:
            os.kill(victim, number)
            if number is signal.SIGSTOP:
                try:
                    await asyncio.sleep(self.chance.uniform(*STOPPED))
                finally:
                    os.kill(victim, signal.SIGCONT)
        except ProcessLookupError:
            return


async def give_all(load: Load, runs: int, until: float) -> None:
    """Give so many runs, a few at a time, as long as there is time."""
    places = asyncio.Semaphore(UNDER_WAY)

    async def one(*, durable: bool) -> None:
        async with places:
            if time.monotonic() < until:
                given = await load.give(durable=durable)
                with_patience = load.house.client.wait(given.run_id, timeout=max(1.0, until - time.monotonic()))
                try:
                    await with_patience
                except GatewrightError:
                    return  # it is looked at in the end

    async with asyncio.TaskGroup() as group:
        for number in range(runs):
            group.create_task(one(durable=number % 4 != 0))


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
    root: Path, runs: int, *, gatekeepers: int, own_homes: bool, seconds: float, seed: int
) -> tuple[Fight, Outcome]:
    """A fight in a house of its own."""
    async with open_house(root, gatekeepers=gatekeepers, own_homes=own_homes) as house:
        fought = Fight(house, Load(house, seconds=0.1), random.Random(seed))  # noqa: S311 - to be repeated, not to be secret
        outcome = await fought.play(runs, until=time.monotonic() + seconds)
        different = await rebuilt(house, fought.load)
        outcome.bundles_that_do_not_verify += different
        return fought, outcome


@dataclass
class Rolling:
    """Runs in a house whose services are restarted in order, one process after another."""

    house: House
    load: Load
    restarts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    async def play(self, runs: int, *, until: float) -> Outcome:
        rolling = asyncio.create_task(self._roll())
        await give_all(self.load, runs, until)
        rolling.cancel()
        await asyncio.wait({rolling})
        await self.load.settle()
        return await judge(self.house, self.load.given)

    async def _roll(self) -> None:
        while True:
            for role in START_ORDER:
                for pid in self.house.pids(role):
                    await self._restart(role, pid)

    async def _restart(self, role: str, pid: int) -> None:
        started, count = time.monotonic(), len(self.house.pids(role))
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return
        while pid in self.house.pids(role) or len(self.house.pids(role)) < count:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
        self.restarts[role] += 1
        self.slowest = max(self.slowest, time.monotonic() - started)


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
            options = {"gatekeepers": words.gatekeepers, "own_homes": words.own_homes, "seed": words.seed}
            fought, outcome = asyncio.run(fight(root, words.runs, seconds=words.seconds, **options))
            print("blows", dict(fought.blows))  # noqa: T201
    print(outcome)  # noqa: T201
    print(f"{'seconds':28} {time.monotonic() - started:.0f}")  # noqa: T201
    for name, runs in outcome.faults.items():
        print(name, *runs, sep="\n  ")  # noqa: T201
    return 1 if outcome.faults or outcome.runs < words.runs else 0


if __name__ == "__main__":
    sys.exit(main())
