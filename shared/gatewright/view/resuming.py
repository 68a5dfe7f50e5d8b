"""Changes of the board since the position in the ledger that a page has seen. Pure.

A board is a state, not a log. A page receives the rows whose runs changed since its position. So a missed update loses nothing,
and a repeated one changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gatewright.view.board import Board
from gatewright.view.filters import BoardFilter
from gatewright.view.rows import BoardRow

#: Maximum rows in one update. A page that missed more reloads, which is cheaper.
MOST_CHANGES: Final = 200


@dataclass(frozen=True, slots=True)
class BoardChanges:
    """Rows that changed. ``shown``: those that match the page's filter, oldest first. ``gone``: ids of those that do not."""

    sequence: int
    shown: tuple[BoardRow, ...]
    gone: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BoardResync:
    """The page has to reload. ``why`` is ``other_ledger``, ``ahead``, ``purged`` or ``too_far_behind``."""

    why: str


def position_of(text: str) -> tuple[str, int] | None:
    """Parse an event id ``ORIGIN:SEQUENCE`` into ledger and sequence; None for anything else."""
    origin, colon, number = text.rpartition(":")
    known = colon and len(text) <= 80 and number.isascii() and number.isdecimal() and len(number) <= 18
    return (origin, int(number)) if known else None


def event_id(board: Board) -> str:
    """Return the id of an event that covers the whole board."""
    return f"{board.origin}:{board.sequence}"


def changes_since(board: Board, origin: str, sequence: int, chosen: BoardFilter) -> BoardChanges | BoardResync:
    """Return the changes for a page that saw the ledger ``origin`` up to ``sequence``.

    The page has to reload in four cases:

    1. It saw another ledger. An empty ledger has no origin, so any origin may follow it.
    2. It saw more than the ledger holds now, for example because a backup was restored.
    3. Rows were dropped since.
    4. It missed more rows than one update holds.
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
