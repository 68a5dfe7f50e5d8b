"""Open pages over a real bus in memory: whatever is cut off, wherever, the page comes to equal the ledger."""

from __future__ import annotations

import random
from datetime import datetime
from functools import partial
from typing import Any

import msgspec
import pytest

from gatewright.app.console.common_look import CommonLook
from gatewright.app.console.drawing import make_templates, row_html
from gatewright.app.console.events import PageStream, format_event
from gatewright.app.feed.claims import ReportedClaims
from gatewright.app.feed.follower import BoardFollower
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.view.filters import BoardFilter
from gatewright.view.resuming import event_id
from gatewright.view.rows import BoardRow
from tests.client.conftest import write_run
from tests.evidence.recorded_runs import START
from tests.view.ledgers import interleaved, make_run, run_id_of

#: How often a page is cut off in all.
INTERRUPTIONS = 200


def drawn(row: BoardRow) -> str:
    return f"{row.run_id} {row.state} {row.sequence}"


def now() -> datetime:
    return START


def read(event: bytes) -> tuple[str, str, dict[str, Any]]:
    """Kind, id and document of one event."""
    fields = dict(line.split(": ", 1) for line in event.decode().rstrip("\n").split("\n"))
    return fields["event"], fields.get("id", ""), msgspec.json.decode(fields["data"])


class OpenPage:
    """What a browser keeps: the lines, and the id of the last event that it has taken in."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self.position = ":0"
        self.transitions: list[tuple[str, str]] = []

    def take(self, position: str, document: dict[str, Any]) -> None:
        for run_id in document["gone"]:
            self.lines.pop(run_id, None)
        for row in document["rows"]:
            if self.lines.get(row["id"]) != row["html"]:
                self.transitions.append((row["id"], row["html"]))
            self.lines[row["id"]] = row["html"]
        self.position = position


@pytest.mark.long
async def test_over_two_hundred_interruptions_nothing_is_lost_and_nothing_doubled() -> None:
    """The page, the stream, or the whole console is gone at each step, before or after what it was sent was taken in."""
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    runs = [make_run(number, "success" if number % 3 else "aborted") for number in range(40)]
    entries = [entry.transition for entry in interleaved(runs)]
    dice, page, follower, written = random.Random(16), OpenPage(), BoardFollower(bus), 0  # noqa: S311 - no secret
    for number in range(INTERRUPTIONS):
        portion = entries[written : written + dice.randint(0, 2)]
        await write_run(bus, portion)
        written += len(portion)
        if number % 3 == 0:
            follower = BoardFollower(bus)  # the console was killed and started anew
        await follower.catch_up()
        stream = PageStream(CommonLook(follower, drawn, now), chosen=BoardFilter())
        events = stream.run(page.position)
        kind, position, document = "", "", dict[str, Any]()
        while kind not in ("update", "beat", "resync") and follower.board.sequence:
            kind, position, document = read(await anext(events))
        await events.aclose()
        assert kind != "resync"
        if kind == "update" and dice.random() < 0.7:  # else it was lost on the way
            page.take(position, document)
    await write_run(bus, entries[written:])
    await follower.catch_up()
    last = PageStream(CommonLook(follower, drawn, now), chosen=BoardFilter()).run(page.position)
    kind = ""
    while kind != "update":
        kind, position, document = read(await anext(last))
    page.take(position, document)
    await last.aclose()
    assert page.lines == {row.run_id: drawn(row) for row in follower.board.rows.values()}
    assert len(page.transitions) == len(set(page.transitions))
    await bus.close()


async def test_updates_for_many_pages_are_rendered_once_per_step() -> None:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    whole = make_run(1)
    await write_run(bus, whole[:1])
    follower, lines = BoardFollower(bus), list[str]()
    await follower.catch_up()

    def draw(row: BoardRow) -> str:
        lines.append(row.run_id)
        return drawn(row)

    look = CommonLook(follower, draw, now)
    pages = [PageStream(look, chosen=BoardFilter()).run(event_id(follower.board)) for _ in range(5)]
    for page in pages:
        assert read(await anext(page))[0] == "state"
    for step in (1, 2):
        await write_run(bus, whole[step : step + 1])
        await follower.catch_up()
        told = [read(await anext(page)) for page in pages]
        assert {kind for kind, _, _ in told} == {"update"}
        assert {str(document["rows"]) for _, _, document in told} == {str(told[0][2]["rows"])}
        assert told[0][2]["rows"][0]["html"] == drawn(follower.board.rows[run_id_of(1)])
    assert lines == [run_id_of(1)] * 2
    for page in pages:
        await page.aclose()
    await bus.close()


@pytest.mark.parametrize("position", ["", "nonsense", "1-other:3", ":99"])
async def test_a_position_of_another_ledger_sends_resync_and_ends(position: str) -> None:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    await write_run(bus, make_run(1))
    follower = BoardFollower(bus)
    await follower.catch_up()
    kinds = [read(event)[0] async for event in PageStream(CommonLook(follower, drawn, now), chosen=BoardFilter()).run(position)]
    assert kinds == ["state", "resync"]
    await bus.close()


async def test_the_page_of_a_run_receives_only_its_events() -> None:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    await write_run(bus, make_run(1, transitions=1))
    follower = BoardFollower(bus)
    await follower.catch_up()
    before = f"{follower.board.origin}:{follower.board.sequence}"
    await write_run(bus, make_run(2))
    await follower.catch_up()
    for run_id, expected in ((run_id_of(1), False), (run_id_of(2), True)):
        events = PageStream(CommonLook(follower, drawn, now), run_id=run_id).run(before)
        kind, document = "", dict[str, Any]()
        while kind != "update":
            kind, _, document = read(await anext(events))
        await events.aclose()
        assert document["refresh"] is expected
    await bus.close()


@pytest.mark.parametrize("text", ["\n\nevent: update\n", "\r\rid: 7", "\u2028", "data: x"])
def test_no_text_ends_an_event_or_begins_another(text: str) -> None:
    event = format_event("update", {"text": text}, "1-a:3")
    assert event.count(b"\n") == 4
    assert b"\r" not in event
    assert read(event) == ("update", "1-a:3", {"text": text})


async def test_a_page_receives_task_claims_without_ledger_events() -> None:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    await write_run(bus, make_run(1, "open"))
    follower = BoardFollower(bus)
    await follower.catch_up()
    (task, *_) = follower.board.rows[run_id_of(1)].in_hand

    async def ask() -> ReportedClaims:
        return ReportedClaims(processes={run_id_of(1): {task.task_id: "P1"}})

    follower.attach(bus, ask)
    templates, position = make_templates(), event_id(follower.board)
    draw = partial(row_html, templates, now=now())
    board = PageStream(CommonLook(follower, draw, now), chosen=BoardFilter()).run(position)
    page = PageStream(CommonLook(follower, draw, now), run_id=run_id_of(1)).run(position)
    assert [read(await anext(board))[0], read(await anext(page))[0]] == ["state", "state"]
    await follower.look()
    kind, _, document = read(await anext(board))
    assert (kind, [row["id"] for row in document["rows"]]) == ("update", [run_id_of(1)])
    assert 'claimed by process <code class="process">P1</code>' in document["rows"][0]["html"]
    kind, _, document = read(await anext(page))
    assert (kind, document["refresh"]) == ("update", True)
    await board.aclose()
    await page.aclose()
