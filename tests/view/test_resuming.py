"""A page that was away is told all that it missed, nothing twice to any effect, or that it has to begin anew."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from gatewright.view.board import Board, advance_board
from gatewright.view.filters import BoardFilter
from gatewright.view.resuming import (
    MOST_CHANGES,
    BoardChanges,
    BoardResync,
    changes_since,
    event_id,
    position_of,
)
from gatewright.view.rows import BoardRow
from tests.view.ledgers import interleaved, make_run, run_id_of

ORIGIN = "1-abc"
RUNS = [make_run(1), make_run(2, "aborted"), make_run(3), make_run(4, "open")]
ENTRIES = interleaved(RUNS)


def board_at(sequence: int) -> Board:
    return advance_board(Board(origin=ORIGIN), ENTRIES[:sequence])


@pytest.mark.parametrize("chosen", [BoardFilter(), BoardFilter(stage="running"), BoardFilter(reason="aborted")])
@pytest.mark.parametrize("seed", range(5))
def test_a_page_that_is_interrupted_at_random_equals_the_ledger(seed: int, chosen: BoardFilter) -> None:
    """Two hundred interruptions in all: each drops what was on its way, and the page resumes from what it has taken in."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    page: dict[str, BoardRow] = {}
    seen, now = 0, 0
    for _ in range(14):
        now = min(len(ENTRIES), now + dice.randint(0, 4))
        told = changes_since(board_at(now), ORIGIN, seen, chosen)
        assert isinstance(told, BoardChanges)
        if dice.random() < 0.4:
            continue  # lost on the way: the page has not moved
        page = {run_id: row for run_id, row in page.items() if run_id not in told.gone}
        page.update({row.run_id: row for row in told.shown})
        seen = told.sequence
    told = changes_since(board_at(len(ENTRIES)), ORIGIN, seen, chosen)
    assert isinstance(told, BoardChanges)
    page = {run_id: row for run_id, row in page.items() if run_id not in told.gone}
    page.update({row.run_id: row for row in told.shown})
    whole = board_at(len(ENTRIES))
    assert page == {run_id: row for run_id, row in whole.rows.items() if chosen.fits(row)}


def test_a_line_that_no_longer_fits_is_taken_away() -> None:
    board = board_at(len(ENTRIES))
    told = changes_since(board, ORIGIN, 4, BoardFilter(stage="running"))
    assert isinstance(told, BoardChanges)
    assert [row.run_id for row in told.shown] == [run_id_of(4)]
    assert set(told.gone) == {run_id_of(1), run_id_of(2), run_id_of(3)}


def test_an_up_to_date_page_receives_nothing() -> None:
    board = board_at(len(ENTRIES))
    assert changes_since(board, ORIGIN, board.sequence, BoardFilter()) == BoardChanges(board.sequence, (), ())


def test_a_page_of_an_empty_ledger_goes_on_with_the_first_entry() -> None:
    told = changes_since(board_at(1), "", 0, BoardFilter())
    assert isinstance(told, BoardChanges)
    assert [row.run_id for row in told.shown] == [run_id_of(1)]


@pytest.mark.parametrize(
    ("origin", "sequence", "why"),
    [
        ("1-other", 3, "other_ledger"),
        ("", 3, "other_ledger"),
        (ORIGIN, len(ENTRIES) + 1, "ahead"),
    ],
)
def test_a_position_that_this_ledger_has_not_wants_a_new_beginning(origin: str, sequence: int, why: str) -> None:
    assert changes_since(board_at(len(ENTRIES)), origin, sequence, BoardFilter()) == BoardResync(why)


def test_a_purged_position_wants_a_new_beginning() -> None:
    board = replace(board_at(len(ENTRIES)), forgotten=5)
    assert changes_since(board, ORIGIN, 4, BoardFilter()) == BoardResync("purged")
    assert isinstance(changes_since(board, ORIGIN, 5, BoardFilter()), BoardChanges)


@pytest.mark.long
def test_a_page_that_has_missed_too_much_begins_anew() -> None:
    runs = [make_run(number, transitions=1) for number in range(MOST_CHANGES + 1)]
    board = advance_board(Board(origin=ORIGIN), interleaved(runs))
    assert changes_since(board, ORIGIN, 0, BoardFilter()) == BoardResync("too_far_behind")


def test_an_event_id_is_read_as_it_was_written() -> None:
    board = board_at(3)
    assert position_of(event_id(board)) == (ORIGIN, 3)
    assert position_of(event_id(Board())) == ("", 0)


@pytest.mark.parametrize("text", ["", "3", "x:", "x:-1", "x:٣", "x:" + "9" * 19, "y" * 90 + ":1", "1:2\n"])
def test_what_is_no_event_id_is_none(text: str) -> None:
    assert position_of(text) is None
