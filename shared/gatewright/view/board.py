"""The board as a value: what the ledger's entries so far add up to, and the only way it changes. Pure.

An open run is kept whole, one that is over and sealed as its line alone, so that years of runs cost little. Of the ended ones
the newest are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from msgspec import structs

from gatewright.contracts import Transition
from gatewright.errors import MalformedError
from gatewright.run.history import FollowedRun, begin, follow
from gatewright.view.rows import BoardRow, row_of

#: Ended runs that a board keeps the lines of.
MOST_ENDED: Final = 5_000


@dataclass(frozen=True, slots=True)
class SequencedTransition:
    """One entry of the ledger: where it lies in the stream, and what it holds. Checked before it comes here."""

    sequence: int
    transition: Transition


@dataclass(frozen=True, slots=True)
class Board:
    """``sequence``: the stream sequence of the last message that was looked at, or its number among those that were, where the
    ledger lies in several streams. ``origin`` tells one ledger from another, and then one reading from another.

    ``forgotten``: the last sequence of any line that was dropped since, so that a page which has not seen beyond it has to
    begin anew. ``unreadable``: by run, why its history cannot be followed.
    """

    sequence: int = 0
    origin: str = ""
    rows: Mapping[str, BoardRow] = field(default_factory=dict)
    open_runs: Mapping[str, FollowedRun] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    forgotten: int = 0


def advance_board(board: Board, entries: Iterable[SequencedTransition], *, most_ended: int = MOST_ENDED) -> Board:
    """The board after some more entries, in the order of the stream. Those that it has seen are passed over.

    A run whose entries do not follow from one another is told in ``unreadable`` and left as it was; it stands in the way of no
    other.
    """
    rows, followed, unreadable = dict(board.rows), dict(board.open_runs), dict(board.unreadable)
    sequence = board.sequence
    for entry in entries:
        if entry.sequence <= sequence:
            continue
        sequence = entry.sequence
        run_id = entry.transition.run_id
        if run_id in unreadable:
            continue
        try:
            after = _follow_transition(followed.get(run_id), entry.transition)
        except MalformedError as error:
            unreadable[run_id] = error.message
            followed.pop(run_id, None)
            continue
        rows[run_id] = row_of(after, sequence)
        if after.run.sealed is not None:
            followed.pop(run_id, None)
        else:
            followed[run_id] = after
    dropped = [rows.pop(run_id) for run_id in _beyond(rows, most_ended)]
    return replace(
        board,
        sequence=sequence,
        rows=MappingProxyType(rows),
        open_runs=MappingProxyType(followed),
        unreadable=MappingProxyType(unreadable),
        forgotten=max([board.forgotten, *(row.sequence for row in dropped)]),
    )


def passed_over(board: Board, sequence: int) -> Board:
    """The board once a message that is no entry was looked at."""
    return replace(board, sequence=max(board.sequence, sequence))


def without_history(board: Board, run_id: str, why: str, sequence: int) -> Board:
    """The board once it was found that a run's history cannot be followed beyond this message."""
    followed = {known: run for known, run in board.open_runs.items() if known != run_id}
    told = {**board.unreadable, run_id: why}
    return replace(passed_over(board, sequence), open_runs=MappingProxyType(followed), unreadable=MappingProxyType(told))


def _follow_transition(before: FollowedRun | None, transition: Transition) -> FollowedRun:
    """A run after one more transition. Raises MalformedError as ``evolve`` does."""
    after = before
    for record in transition.events:
        after = follow(after, record) if after is not None else begin(record)
    if after is None:
        raise MalformedError(f"{transition.run_id}: a transition without events", code="bad_event")
    return replace(after, run=structs.replace(after.run, transitions=transition.number))


def _beyond(rows: Mapping[str, BoardRow], most: int) -> list[str]:
    """The oldest ended runs beyond so many."""
    ended = [row for row in rows.values() if not row.is_open]
    if len(ended) <= most:
        return []
    # A tenth more goes than has to, so that not every entry makes the whole list be sorted.
    ended.sort(key=lambda row: row.order)
    return [row.run_id for row in ended[: len(ended) - most + most // 10]]
