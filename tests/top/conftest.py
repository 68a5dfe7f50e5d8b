"""A board in a terminal of a given size, over a bus in memory that tests write a ledger to and take away."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import DataTable, Static

from gatewright.app.feed import agent_words, link
from gatewright.app.top import lists_screen, run_screen, sources
from gatewright.app.top.lists_screen import ListsScreen
from gatewright.app.top.sources import TopSources
from gatewright.app.top.steering import Steering
from gatewright.app.top.surroundings import TopSurroundings
from gatewright.app.top.terminal import TopApp
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.topology import ABORT_SUBJECT
from gatewright.client.client import Client
from gatewright.clock import SystemClock
from gatewright.contracts import AbortRequest, Transition, codec
from gatewright.errors import UnavailableError
from tests.client.conftest import write_run

STANDARD = (80, 24)
#: Seconds after which what has not come does not come any more, however busy the machine is.
NEVER = 120.0


@dataclass
class TerminalBoard:
    """``there`` is whether the system can be reached; ``app`` the program while it is shown."""

    system: MemoryServer = field(default_factory=MemoryServer)
    there: bool = True
    surroundings: TopSurroundings = field(default_factory=TopSurroundings)
    steering: Steering = field(default_factory=Steering)
    buses: list[MemoryBus] = field(default_factory=list)

    async def write(self, transitions: Sequence[Transition]) -> None:
        bus = MemoryBus(self.system)
        await ensure_topology(bus)
        await write_run(bus, transitions)
        await bus.close()

    async def take_away(self) -> None:
        """The server is gone: each connection is cut, and no new one comes about."""
        self.there = False
        for bus in self.buses:
            await bus.close()

    def aborts(self) -> list[str]:
        """The runs that an end was asked for."""
        kept = [stored for stream in self.system._streams.values() for stored in stream.after(0, ">")]
        return [
            codec.decode(message.data, AbortRequest).run_id for message in kept if message.subject.startswith(ABORT_SUBJECT)
        ]

    @contextlib.asynccontextmanager
    async def shown(self, size: tuple[int, int] = STANDARD) -> AsyncIterator[Pilot[None]]:
        """The program, once it has shown the ledger."""
        await self.write(())
        app = TopApp(TopSources(self._connect, SystemClock(), look=self._look), self.steering)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: opened(pilot, ListsScreen) and app.sources.board is not None)
            yield pilot

    @contextlib.asynccontextmanager
    async def _connect(self) -> AsyncIterator[Client]:
        if not self.there:
            raise UnavailableError("no stack runs here", code="no_stack")
        bus = MemoryBus(self.system)
        self.buses.append(bus)
        try:
            yield Client(bus)
        finally:
            await bus.close()

    async def _look(self, _client: Client) -> TopSurroundings:
        return self.surroundings


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> TerminalBoard:
    """Looks often, so that no test waits for the next one."""
    monkeypatch.setattr(lists_screen, "SHORTEST_PAUSE", 0.01)
    monkeypatch.setattr(lists_screen, "TICK", 0.05)
    monkeypatch.setattr(run_screen, "LOOK", 0.02)
    monkeypatch.setattr(sources, "_LOOK", 0.02)
    monkeypatch.setattr(agent_words, "_LOOK", 0.02)
    monkeypatch.setattr(sources, "LOOK_AROUND", 0.02)
    monkeypatch.setattr(link, "_LOOK", 0.02)
    monkeypatch.setattr(link, "_AWAY", 0.02)
    return TerminalBoard()


async def until(pilot: Pilot[None], reached: Callable[[], bool]) -> None:
    """Let the program go on until something is so. Raises AssertionError, with what is shown, if it never is."""
    ended = SystemClock().monotonic() + NEVER
    while not reached():
        await pilot.pause()
        await asyncio.sleep(0.01)
        if SystemClock().monotonic() > ended:
            raise AssertionError(f"{inspect.getsource(reached).strip()}\n" + "\n".join(painted(pilot)))


def opened(pilot: Pilot[None], kind: type[Screen[Any]]) -> bool:
    """Whether such a screen is in front and has what it shows: it is in front a moment before that."""
    return isinstance(pilot.app.screen, kind) and pilot.app.screen.is_mounted


async def back(pilot: Pilot[None]) -> None:
    """Leave the screen in front for the lists. A key that comes before they are there belongs to the screen that goes."""
    await pilot.press("escape")
    await until(pilot, lambda: opened(pilot, ListsScreen))


def lists(pilot: Pilot[None]) -> ListsScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ListsScreen)
    return screen


def cells(pilot: Pilot[None]) -> list[list[str]]:
    """The table as it stands, by rows."""
    table = pilot.app.screen.query_one(DataTable)
    return [[str(value) for value in table.get_row_at(row)] for row in range(table.row_count)]


def words(pilot: Pilot[None], selector: str) -> str:
    return str(pilot.app.screen.query_one(selector, Static).content)


def painted(pilot: Pilot[None]) -> list[str]:
    """The screen as it is painted, by lines of cells."""
    return ["".join(segment.text for segment in strip) for strip in pilot.app.screen._compositor.render_strips()]
