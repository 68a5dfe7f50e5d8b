"""A merge queue as people see it: order, positions, holds and endings, from a queue of the real model."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import msgspec
import pytest

from gatewright.contracts import MergeQueues, codec
from gatewright.contracts.merge_queue import MergeEnding, MergeHold, MergeQueueView
from gatewright.contracts.queue_policy import HoldReason, LeaveCode, QueuePolicy
from gatewright.queue import events as e
from gatewright.queue.commands import Compose, Test
from gatewright.view.merge_queue import (
    ending_words,
    hold_words,
    limited_view,
    line_drawing,
    ordinal,
    place_words,
    queue_view,
    summary_words,
)
from tests.queue.world import START, Truth, World, entry, write

QUEUE_ID = "0123456789abcdef0123"
TITLES = {"run-0001": "Reject negative\nprices", "run-0003": "A title\x1b[31m of " + "words " * 40}
NOW = START + timedelta(minutes=4)


def three_positions() -> World:
    """Three runs that write one file after the other, each in a position of its own; the first is under test."""
    world = World(QueuePolicy(), files={"src/a.py": "0"})
    world.enqueue(
        entry("run-0001", write("src/a.py", "1", "0"), publisher="acme"),
        entry("run-0002", write("src/a.py", "2", "1"), publisher="other"),
        entry("run-0003", write("src/a.py", "3", "2"), write("src/b.py", "b"), publisher="acme"),
    )
    return world


def compose_all(world: World) -> None:
    while composing := [each for each in world.due() if isinstance(each, Compose)]:
        world.deliver(world.carry_out(composing[0]))


def view_of(world: World) -> MergeQueueView:
    view = queue_view(QUEUE_ID, world.queue, TITLES)
    assert codec.decode(codec.encode(MergeQueues(queues=(view,))), MergeQueues).queues == (view,)
    return view


def test_a_view_lists_entries_in_landing_order_with_their_positions() -> None:
    world = three_positions()
    assert [each.state for each in view_of(world).positions] == ["composing"] * 3
    compose_all(world)
    view = view_of(world)
    assert [(each.place, each.run_id, each.position) for each in view.entries] == [
        (1, "run-0001", 1),
        (2, "run-0002", 2),
        (3, "run-0003", 3),
    ]
    assert [each.changed_paths for each in view.entries] == [1, 1, 2]
    assert view.entries[0].title == "Reject negative prices"
    assert {each.state for each in view.positions} == {"testing"}
    assert view.positions[0].since == "2026-03-01T00:00:00.000Z"


def test_a_view_names_the_branch_as_people_do() -> None:
    queue = msgspec.structs.replace(three_positions().queue, branch="refs/heads/release/1")
    assert queue_view(QUEUE_ID, queue, {}).branch == "release/1"


def test_a_position_lands_once_its_push_is_requested() -> None:
    world = three_positions()
    compose_all(world)
    test = next(each for each in world.due() if isinstance(each, Test))
    world.deliver(world.carry_out(test))
    assert [each.state for each in view_of(world).positions] == ["landing", "testing", "testing"]
    world.run()
    view = view_of(world)
    assert (view.length, view.positions) == (0, ())
    assert [(each.run_id, each.outcome) for each in view.endings] == [
        ("run-0003", "landed"),
        ("run-0002", "landed"),
        ("run-0001", "landed"),
    ]


def test_a_red_position_shows_that_its_tests_failed() -> None:
    world = World(QueuePolicy(), Truth(bad=frozenset({"run-0001"})))
    world.enqueue(entry("run-0001"))
    world.run()
    assert view_of(world).endings == (MergeEnding(run_id="run-0001", outcome="tests_failed"),)


def test_a_held_queue_names_reason_and_person_until_resumed() -> None:
    world = three_positions()
    world.deliver(e.QueueHeld(reason="by_person", detail="release freeze", by="ana"))
    compose_all(world)
    view = view_of(world)
    assert view.held == MergeHold(reason="by_person", detail="release freeze", by="ana")
    assert summary_words(view) == "3 queued, 3 positions, held by ana: release freeze"
    assert place_words(view, "run-0001", NOW).endswith("; the queue is held by ana: release freeze")
    world.deliver(e.QueueResumed(by="ana"))
    assert view_of(world).held is None
    assert (world.queue.hold_detail, world.queue.held_by) == ("", "")


def test_the_place_of_a_run_names_what_is_ahead() -> None:
    world = three_positions()
    compose_all(world)
    view = view_of(world)
    assert place_words(view, "run-0002", NOW) == "2nd of 3, behind run-0001; position 2: testing for 4 min"
    assert place_words(view, "run-0009", NOW) == ""
    limited = limited_view(view, {"run-0003"})
    assert place_words(limited, "run-0003", NOW) == "3rd of 3; position 3: testing for 4 min"


def test_a_limited_view_counts_the_runs_of_other_publishers_and_names_none() -> None:
    world = three_positions()
    compose_all(world)
    limited = limited_view(view_of(world), {"run-0001", "run-0003"})
    assert b"run-0002" not in codec.encode(MergeQueues(queues=(limited,)))
    assert limited.length == 3
    assert [each.others for each in limited.positions] == [0, 1, 0]


def test_the_drawing_fits_a_terminal_and_shows_no_escape_sequence() -> None:
    world = three_positions()
    compose_all(world)
    lines = line_drawing(limited_view(view_of(world), {"run-0001", "run-0003"}), NOW)
    assert all(len(line) <= 80 and line.isprintable() for line in lines)
    assert lines[2:] == [
        "",
        f"base {world.queue.base.commit[:12]}",
        " ├ position 1: testing for 4 min",
        " │   1. run-0001  Reject negative prices",
        " ├ position 2: testing for 4 min",
        " │   and 1 run of other publishers",
        " ├ position 3: testing for 4 min",
        lines[9],
        " └ nothing waits",
    ]


@pytest.mark.parametrize("code", [*get_args(LeaveCode), "landed"])
def test_each_way_to_leave_has_words_of_its_own(code: str) -> None:
    assert code not in ending_words(MergeEnding(run_id="run-0001", outcome=code)) or code == "landed"


@pytest.mark.parametrize("reason", get_args(HoldReason))
def test_each_hold_has_words_of_its_own(reason: str) -> None:
    assert reason not in hold_words(MergeHold(reason=reason))


def test_an_unknown_code_stands_for_itself() -> None:
    assert ending_words(MergeEnding(run_id="run-0001", outcome="eaten")) == "left: eaten"
    assert hold_words(MergeHold(reason="eclipse", detail="dark\x1b[2J")) == "held: dark\\x1b[2J"


def test_places_are_ordinal_numbers() -> None:
    assert [ordinal(each) for each in (1, 2, 3, 4, 11, 12, 13, 21, 102, 111)] == [
        *("1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th")
    ]
