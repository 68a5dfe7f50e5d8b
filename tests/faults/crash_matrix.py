"""kill -9 of everything at every transition of a run: ``python -m tests.faults.crash_matrix --crashes 200``.

A cell of the matrix is one crash in one run: a service or the NATS server killed the moment a transition is in the ledger, or
a gatekeeper that dies at a point between two of its own steps. A run is given for each cell, and the next cell does not wait
for it to end, so that the crashes also meet runs in other states. At the end every run is looked at: none may be lost, none
landed twice, every bundle has to verify, every ledger has to be one line of history.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.crash_points import POINTS, TRANSITIONS, fired
from tests.faults.fault_stack import ROLES, House, open_house
from tests.faults.load import Load, Outcome, judge, reached

VICTIMS = ("gatekeeper", *ROLES, "nats-server")
#: Seconds for a cell's crash to happen.
CELL_SECONDS = 60.0
#: Runs under way at once; beyond that a cell waits for the oldest.
UNDER_WAY = 12


@dataclass(frozen=True)
class Cell:
    """``point`` is a transition's number for a victim from outside, else the name of a point inside the gatekeeper."""

    victim: str
    point: str

    def __str__(self) -> str:
        return f"{self.victim} at {self.point}"


CELLS: tuple[Cell, ...] = (
    *(Cell(victim, str(number)) for victim in VICTIMS for number in range(1, TRANSITIONS + 1)),
    *(Cell("inside", point) for point in POINTS),
)


@dataclass
class Matrix:
    """The crashes that were injected, and what became of the runs."""

    house: House
    load: Load
    crashes: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    killed: int = 0

    async def play(self, cells: Sequence[Cell], *, until: float) -> Outcome:
        """One crash after another, as long as there is time; then wait for all runs and look at them."""
        for cell in cells:
            if time.monotonic() > until:
                break
            await self._make_room()
            try:
                async with asyncio.timeout(CELL_SECONDS):
                    await (self._inside(cell) if cell.victim == "inside" else self._outside(cell))
            except TimeoutError:
                self.missed.append(str(cell))
                (self.house.points / cell.point).unlink(missing_ok=True)
            else:
                self.crashes[cell.victim] += 1
        await self.load.settle()
        return await judge(self.house, self.load.given)

    async def _make_room(self) -> None:
        if len(self.load.given) >= UNDER_WAY:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CELL_SECONDS):
                    await reached(self.house, self.load.given[-UNDER_WAY], TRANSITIONS)

    async def _outside(self, cell: Cell) -> None:
        given = await self.load.give()
        await reached(self.house, given, int(cell.point))
        gone = self.house.kill(cell.victim)
        self.killed += len(gone)
        await self.house.back(cell.victim, gone)

    async def _inside(self, cell: Cell) -> None:
        before = len(fired(self.house.points))
        (self.house.points / cell.point).touch()
        await self.load.give(durable=True)
        while len(fired(self.house.points)) == before:  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)
        self.killed += 1


def cells_for(crashes: int, *, every: int = 1) -> list[Cell]:
    """So many cells, over and over again if need be; with ``every`` 7, say, each seventh, so that few touch every kind."""
    order: Iterator[Cell] = itertools.cycle(CELLS)
    return list(itertools.islice(itertools.islice(order, 0, None, every), crashes))


async def play(root: Path, cells: Sequence[Cell], *, gatekeepers: int, seconds: float) -> tuple[Matrix, Outcome]:
    """A matrix in a house of its own."""
    async with open_house(root, gatekeepers=gatekeepers, points=True) as house:
        matrix = Matrix(house, Load(house))
        outcome = await matrix.play(cells, until=time.monotonic() + seconds)
        return matrix, outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crashes", type=int, default=200)
    parser.add_argument("--gatekeepers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1200.0, help="no new crash after so long")
    parser.add_argument("--root", type=Path, help="where to keep everything (default: a folder that is removed)")
    words = parser.parse_args()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="crash-matrix-") as temporary:
        root: Path = words.root or Path(temporary)
        cells = cells_for(words.crashes)
        matrix, outcome = asyncio.run(play(root, cells, gatekeepers=words.gatekeepers, seconds=words.seconds))
    print(f"crashes injected             {sum(matrix.crashes.values())}")  # noqa: T201
    for victim, count in sorted(matrix.crashes.items()):
        print(f"  {victim:26} {count}")  # noqa: T201
    print(f"processes killed             {matrix.killed}")  # noqa: T201
    print(f"cells that did not happen    {len(matrix.missed)}", *matrix.missed)  # noqa: T201
    print(outcome)  # noqa: T201
    print(f"seconds                      {time.monotonic() - started:.0f}")  # noqa: T201
    for name, runs in outcome.faults.items():
        print(name, *runs, sep="\n  ")  # noqa: T201
    return 1 if outcome.faults or sum(matrix.crashes.values()) < words.crashes else 0


if __name__ == "__main__":
    sys.exit(main())
