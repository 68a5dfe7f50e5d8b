"""Filters of the board: which rows are shown, and in which lists. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Final

from gatewright.view.board import Board
from gatewright.view.rows import STAGES, BoardRow, RunStage

#: Maximum characters of a filter value.
MOST_FILTER: Final = 200


@dataclass(frozen=True, slots=True)
class BoardFilter:
    """Conditions that a row must match; an empty one matches every row.

    ``priority`` is the priority class of the run's tasks. ``text`` is searched in id, request, repository and message, ignoring
    case.
    """

    repository: str = ""
    publisher: str = ""
    stage: str = ""
    priority: str = ""
    reason: str = ""
    text: str = ""

    def fits(self, row: BoardRow) -> bool:
        """Return whether the row matches every condition."""
        return (
            self.repository in ("", row.repository)
            and self.publisher in ("", row.publisher)
            and self.stage in ("", row.stage)
            and self.priority in ("", row.priority)
            and self.reason in ("", row.code)
            and self._found_in(row)
        )

    def given(self) -> dict[str, str]:
        """Return the conditions that are set, by field."""
        return {name: value for name in _FIELDS if (value := getattr(self, name))}

    def _found_in(self, row: BoardRow) -> bool:
        wanted = self.text.casefold()
        return not wanted or any(
            wanted in text.casefold() for text in (row.run_id, row.request, row.repository, row.message, row.landed_ref)
        )


_FIELDS: Final = tuple(field.name for field in fields(BoardFilter))


def filter_of(query: Mapping[str, str]) -> BoardFilter:
    """Parse a filter from the fields of a query. Unknown fields are ignored, long values are cut."""
    return BoardFilter(**{name: query.get(name, "").strip()[:MOST_FILTER] for name in _FIELDS})


def lists_of(board: Board, chosen: BoardFilter) -> dict[RunStage, list[BoardRow]]:
    """Return the matching rows by stage, newest first."""
    lists: dict[RunStage, list[BoardRow]] = {stage: [] for stage in STAGES}
    for row in sorted(board.rows.values(), key=lambda each: each.order, reverse=True):
        if chosen.fits(row):
            lists[row.stage].append(row)
    return lists


def counts_of(board: Board, chosen: BoardFilter) -> dict[RunStage, int]:
    """Return the number of matching rows by stage."""
    counted = Counter(row.stage for row in board.rows.values() if chosen.fits(row))
    return {stage: counted[stage] for stage in STAGES}


def choices_of(board: Board) -> dict[str, list[str]]:
    """Return the values to filter by: all repositories, publishers and reasons of the rows, sorted."""

    def every(values: Iterator[str]) -> list[str]:
        return sorted({value for value in values if value})

    return {
        "repository": every(row.repository for row in board.rows.values()),
        "publisher": every(row.publisher for row in board.rows.values()),
        "priority": every(row.priority for row in board.rows.values()),
        "reason": every(row.code for row in board.rows.values()),
    }
