"""What a page that has seen the ledger up to some place has still to be told. Pure.

A board is a state, not a log: a page is brought up to date by the lines whose runs have moved since, so that nothing is lost
by not looking, and nothing counts twice by being told again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gatewright.view.board import Board
from gatewright.view.filters import BoardFilter
from gatewright.view.rows import BoardRow

#: Lines that a page is told at once; one that has missed more begins anew, which costs less.
MOST_CHANGES: Final = 200


@dataclass(frozen=True, slots=True)
class BoardChanges:
    """``shown`` are the moved lines that fit the page's filter, oldest first; ``gone`` the ids of those that do not."""

    sequence: int
    shown: tuple[BoardRow, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoardResync:
    """The page has to begin anew; ``why`` is one of ``other_ledger``, ``ahead``, ``purged``, ``too_far_behind``."""

    why: str


def position_of(text: str) -> tuple[str, int] | None:
    """Ledger and sequence of an event id ``ORIGIN:SEQUENCE``; None for anything else."""
    origin, colon, number = text.rpartition(":")
    known = colon and len(text) <= 80 and number.isascii() and number.isdecimal() and len(number) <= 18
    return (origin, int(number)) if known else None


def event_id(board: Board) -> str:
    """The id of an event that tells all that the board holds."""
    return f"{board.origin}:{board.sequence}"


def changes_since(board: Board, origin: str, sequence: int, chosen: BoardFilter) -> BoardChanges | BoardResync:
    """What a page that saw the ledger ``origin`` up to ``sequence`` has to be told.

    It begins anew when it saw another ledger, or more than there is (one that was brought back from a backup), when lines have
    been dropped since, or when it has missed more than is told at once. An empty ledger has no origin; any may
    follow it.
    """
    if origin not in (board.origin, "") or (not origin and sequence):
        return BoardResync("other_ledger")
    if sequence > board.sequence:
        return BoardResync("ahead")
    if sequence < board.forgotten:
        return BoardResync("purged")
    moved = sorted((row for row in board.rows.values() if row.sequence > sequence), key=lambda row: row.sequence)
    if len(moved) > MOST_CHANGES:
        return BoardResync("too_far_behind")
    shown = tuple(row for row in moved if chosen.fits(row))
    return BoardChanges(board.sequence, shown, tuple(row.run_id for row in moved if not chosen.fits(row)))
