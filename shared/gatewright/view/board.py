"""The board: a value that is folded from the entries of the ledger. Pure.

The board keeps the full state of a run until the run has ended and is sealed. Afterwards it keeps only the row of the run, and
only for the newest ended runs. So the size of the board does not grow with the age of the installation.
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

#: Maximum number of ended runs whose rows a board keeps.
MOST_ENDED: Final = 5_000


@dataclass(frozen=True, slots=True)
class SequencedTransition:
    """A validated entry of the ledger with its position in the stream."""

    sequence: int
    transition: Transition


@dataclass(frozen=True, slots=True)
class Board:
    """The rows of all runs, and the position in the ledger that they reflect.

    ``sequence``: stream sequence of the last message that was read. Where the ledger is spread over several streams, it is the
    number of messages read so far. ``origin``: identifies the ledger and the process that reads it.

    ``forgotten``: last sequence of any row that was dropped. A page that has not seen the board beyond it must reload.
    ``unreadable``: reason why the history of a run cannot be read, by run id.
    """

    sequence: int = 0
    origin: str = ""
    rows: Mapping[str, BoardRow] = field(default_factory=dict)
    open_runs: Mapping[str, FollowedRun] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    forgotten: int = 0


def advance_board(board: Board, entries: Iterable[SequencedTransition], *, most_ended: int = MOST_ENDED) -> Board:
    """Apply ledger entries to the board, in stream order. Entries that the board already reflects are skipped.

    A run with an illegal transition keeps its last valid state, and its reason is recorded in ``unreadable``. Other runs are
    not affected.
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
    """Return the board after a message that is not a ledger entry."""
    return replace(board, sequence=max(board.sequence, sequence))


def without_history(board: Board, run_id: str, why: str, sequence: int) -> Board:
    """Return the board with a run marked as unreadable from this message on, for the reason ``why``."""
    followed = {known: run for known, run in board.open_runs.items() if known != run_id}
    unreadable = {**board.unreadable, run_id: why}
    return replace(passed_over(board, sequence), open_runs=MappingProxyType(followed), unreadable=MappingProxyType(unreadable))


def _follow_transition(before: FollowedRun | None, transition: Transition) -> FollowedRun:
    """Apply one transition to a run. Raises MalformedError as ``evolve`` does."""
    after = before
    for record in transition.events:
        after = follow(after, record) if after is not None else begin(record)
    if after is None:
        raise MalformedError(f"{transition.run_id}: a transition without events", code="bad_event")
    return replace(after, run=structs.replace(after.run, transitions=transition.number))


def _beyond(rows: Mapping[str, BoardRow], most: int) -> list[str]:
    """Return the ids of the oldest ended runs beyond the limit ``most``."""
    ended = [row for row in rows.values() if not row.is_open]
    if len(ended) <= most:
        return []
    # Drop a tenth more than necessary, so that not every entry sorts the whole list.
    ended.sort(key=lambda row: row.order)
    return [row.run_id for row in ended[: len(ended) - most + most // 10]]
