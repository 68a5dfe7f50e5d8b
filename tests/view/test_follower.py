"""The follower on a bus: from the beginning, on and on, and anew where the ledger is another one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from gatewright.app.feed import follower as feed
from gatewright.app.feed.claims import ReportedClaims
from gatewright.app.feed.follower import BoardFollower
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.ledger_layout import Seen
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.memory.streams import MemoryStream
from gatewright.bus.port import Message
from gatewright.bus.topology import is_of_ledger, run_subject
from gatewright.clock import SystemClock
from gatewright.view.board import Board, advance_board
from tests.client.conftest import write_run
from tests.view.ledgers import interleaved, make_run, run_id_of
from tests.waiting import PATIENCE


@pytest.fixture(params=[1, 3], ids=["one-stream", "three-streams"])
async def bus(request: pytest.FixtureRequest) -> AsyncIterator[MemoryBus]:
    connected = MemoryBus(MemoryServer(partitions=request.param))
    await ensure_topology(connected)
    yield connected
    await connected.close()


@contextlib.asynccontextmanager
async def following(bus: MemoryBus) -> AsyncIterator[BoardFollower]:
    follower = BoardFollower(bus)
    running = asyncio.create_task(follower.run())
    try:
        yield follower
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until_sequence(follower: BoardFollower, sequence: int) -> Board:
    """The board once it holds so much; how long that takes does not matter."""
    revision = -1
    while follower.board.sequence != sequence or not follower.current:
        revision = await follower.changed(revision)
    return follower.board


async def test_what_was_there_and_what_comes_is_on_the_board(bus: MemoryBus) -> None:
    first, second = make_run(1), make_run(2, "open")
    await write_run(bus, first)
    async with following(bus) as follower:
        await until_sequence(follower, len(first))
        await write_run(bus, second)
        board = await until_sequence(follower, len(first) + len(second))
    expected = advance_board(advance_board(Board(), interleaved([first])), interleaved([second], len(first) + 1))
    assert board.rows == expected.rows
    assert follower.connected


async def test_a_message_that_is_no_entry_is_passed_over(bus: MemoryBus) -> None:
    await bus.publish(run_subject(run_id_of(1)), b"+OK", schema="unknown.v1", message_id="foreign")
    await write_run(bus, make_run(1))
    follower = BoardFollower(bus)
    await follower.catch_up()
    assert (set(follower.board.rows), dict(follower.board.unreadable)) == ({run_id_of(1)}, {})
    assert follower.board.sequence == len(make_run(1)) + 1


async def test_a_damaged_history_is_reported_and_others_continue(bus: MemoryBus) -> None:
    await write_run(bus, make_run(1)[:2])
    await bus.publish(run_subject(run_id_of(1)), b"{}", schema="transition.v1", message_id="damaged")
    await write_run(bus, make_run(2))
    follower = BoardFollower(bus)
    await follower.catch_up()
    assert set(follower.board.unreadable) == {run_id_of(1)}
    assert follower.board.rows[run_id_of(2)].stage == "landed"


async def test_equal_ledgers_have_the_same_name_for_every_reader(bus: MemoryBus) -> None:
    await write_run(bus, make_run(1))
    readers = BoardFollower(bus), BoardFollower(bus)
    for reader in readers:
        await reader.catch_up()
    assert "" not in (readers[0].board.origin, readers[1].board.origin)
    assert (readers[0].board.origin == readers[1].board.origin) is (bus.layout.partitions == 1)


async def test_a_ledger_that_was_replaced_is_read_from_its_beginning(bus: MemoryBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "LOOK_AGAIN", 0.01)
    await write_run(bus, make_run(1))
    async with following(bus) as follower:
        before = await until_sequence(follower, len(make_run(1)))
        for stream in filter(is_of_ledger, bus.server._streams):
            bus.server._streams[stream] = MemoryStream(bus.server.stream_named(stream).config, SystemClock())
        await write_run(bus, make_run(2)[:3])
        board = await until_sequence(follower, 3)
    assert set(board.rows) == {run_id_of(2)}
    assert board.origin != before.origin


async def test_an_empty_ledger_is_current(bus: MemoryBus) -> None:
    follower = BoardFollower(bus)
    await follower.catch_up()
    assert (follower.current, follower.board.rows) == (True, {})


async def test_the_board_shows_the_claiming_process_until_the_task_ends(bus: MemoryBus) -> None:
    run = make_run(1, "open")
    await write_run(bus, run)
    follower = BoardFollower(bus)
    await follower.catch_up()
    (task, *_) = follower.board.rows[run_id_of(1)].in_hand
    said = {run_id_of(1): {task.task_id: "P1", "no such task": "P2"}, "run-of-nobody": {task.task_id: "P3"}}

    async def ask() -> ReportedClaims:
        return ReportedClaims(processes=said)

    follower.attach(bus, ask)
    await follower.look()
    assert [each.process for each in follower.board.rows[run_id_of(1)].in_hand if each.task_id == task.task_id] == ["P1"]
    await write_run(bus, make_run(2, "open"))
    await follower.catch_up()
    assert "P1" in {each.process for each in follower.board.rows[run_id_of(1)].in_hand}
    assert {each.process for each in follower.board.rows[run_id_of(2)].in_hand} == {""}
    follower.attach(bus, _none)
    await follower.look()
    assert {each.process for each in follower.board.rows[run_id_of(1)].in_hand} == {""}


async def _none() -> ReportedClaims:
    return ReportedClaims()


class SwallowingBus(MemoryBus):
    """One reading takes a first cancellation for nothing, as the NATS client does while it flushes; ``following``: which."""

    reading: asyncio.Event
    following: bool

    def replay(self, subject: str, *, follow: bool = False, after: Seen = 0) -> AsyncGenerator[Message, None]:
        plain = super().replay(subject, follow=follow, after=after)
        return self._deaf(plain) if follow is self.following and not self.reading.is_set() else plain

    async def _deaf(self, plain: AsyncGenerator[Message, None]) -> AsyncGenerator[Message, None]:
        with contextlib.suppress(asyncio.CancelledError):
            self.reading.set()
            await asyncio.Event().wait()
        async for message in plain:
            yield message


@pytest.mark.parametrize("following", [False, True])
async def test_a_follower_ends_though_the_client_swallows_a_cancellation(following: bool) -> None:
    bus = SwallowingBus(MemoryServer())
    await ensure_topology(bus)
    bus.reading, bus.following = asyncio.Event(), following
    running = asyncio.create_task(BoardFollower(bus).run())
    await bus.reading.wait()
    running.cancel()
    done, _ = await asyncio.wait({running}, timeout=PATIENCE)
    assert done == {running}
