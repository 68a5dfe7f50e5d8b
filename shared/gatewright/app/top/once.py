"""The board of one moment, for scripts: as text and as one document. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from gatewright.app.top.lines import (
    COLUMNS,
    EMPTY,
    LISTS,
    TITLES,
    ListedLine,
    ListName,
    cell,
    merge_lines,
    need_lines,
    queue_lines,
    run_lines,
    summary,
    work_lines,
)
from gatewright.app.top.surroundings import TopSurroundings
from gatewright.bus.jetstream.queue_control import QueueState
from gatewright.view.board import Board
from gatewright.view.filters import BoardFilter, counts_of, lists_of
from gatewright.view.needs import Need
from gatewright.view.rows import STAGES


def every_list(
    board: Board, needs: Sequence[Need], surroundings: TopSurroundings, chosen: BoardFilter, now: datetime
) -> dict[ListName, list[ListedLine]]:
    """The lines of each list."""
    return {
        "runs": run_lines(board, chosen, now),
        "needs": need_lines(needs, now),
        "merge": merge_lines(surroundings, now),
        "queues": queue_lines(surroundings, now),
        "work": work_lines(board, surroundings, now),
    }


def empty_words(name: ListName, surroundings: TopSurroundings) -> str:
    """Return the text for an empty list."""
    if name == "merge" and surroundings.merge_refused:
        return f"Merge queues are not known: {cell(surroundings.merge_refused)}"
    if name == "queues" and surroundings.refused:
        return f"Queues are not known: {cell(surroundings.refused)}"
    return EMPTY[name]


def board_text(
    board: Board, needs: Sequence[Need], surroundings: TopSurroundings, now: datetime, chosen: BoardFilter
) -> Iterator[str]:
    """The board as lines for people; run ids whole."""
    yield summary(board, chosen, len(needs))
    lists = every_list(board, needs, surroundings, chosen, now)
    for name in LISTS:
        yield ""
        yield TITLES[name]
        lines = lists[name]
        if not lines:
            yield from (f"  {words}" for words in empty_words(name, surroundings).splitlines() if words)
            continue
        titles = [title for title, _ in COLUMNS[name]]
        rows = [_full_cells(line, titles) for line in lines]
        widths = [max(len(row[column]) for row in [titles, *rows]) for column in range(len(titles))]
        for row in [[title.upper() for title in titles], *rows]:
            yield "  " + "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()


def board_document(board: Board, needs: Sequence[Need], surroundings: TopSurroundings, chosen: BoardFilter) -> dict[str, Any]:
    """The board for programs: texts as they are, times as RFC 3339. ``sequence``: up to where the ledger was read.

    ``queues`` and ``merge_queues`` are null where this identity may not see them, or no gatekeeper answers.
    """
    lists = lists_of(board, chosen)
    return {
        "sequence": board.sequence,
        "counts": counts_of(board, chosen),
        "runs": [_to_builtins(row) for stage in STAGES for row in lists[stage]],
        "needs": [_to_builtins(need) for need in needs],
        "queues": None if surroundings.refused else [_queue(state) for state in surroundings.queues],
        "merge_queues": None if surroundings.merge_refused else _to_builtins(surroundings.merge_queues),
        "processes": None if surroundings.refused else dict(surroundings.processes),
        "missing_roles": None if surroundings.refused else list(surroundings.missing),
    }


def _queue(state: QueueState) -> dict[str, Any]:
    depth = state.depth
    return {
        "queue": depth.queue.durable,
        "waiting": depth.waiting,
        "in_hand": depth.in_hand,
        "oldest_sec": round(depth.oldest, 3),
        "requests": depth.pulls,
        "paused_until": state.paused_until,
    }


def _to_builtins(value: Any) -> Any:
    return msgspec.to_builtins(value)


def _full_cells(line: ListedLine, titles: Sequence[str]) -> list[str]:
    """The cells with the whole run id where a list has a column for it."""
    return [line.run_id if title == "run" else text for title, text in zip(titles, line.cells, strict=True)]
