"""The content of the lists on the terminal board, as plain text that is safe for a terminal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from gatewright.app.top.surroundings import TopSurroundings
from gatewright.run.states import STATE_NAMES
from gatewright.view.board import Board
from gatewright.view.filters import BoardFilter, counts_of, lists_of
from gatewright.view.merge_queue import position_words, summary_words
from gatewright.view.needs import Need
from gatewright.view.rows import STAGES, BoardRow, RunStage, seconds_since
from gatewright.view.safe_text import duration_words, one_line, visible
from gatewright.work_documents.request_summary import size_words, verdict_words

# Text of publishers, repositories, models and logs, made safe for a terminal. Pure.
# The result contains no markup, cursor control or direction mark, and its lines have a limited length.

#: Characters of one cell of a list, and of one line of a text.
MOST_CELL: Final = 200
MOST_LINE: Final = 1_000
_TAB: Final = 4


def cell(text: str) -> str:
    """``text`` on one line, visible and cut."""
    return _cut(one_line(text[: 4 * MOST_CELL]), MOST_CELL)


def line(text: str) -> str:
    """Return one line of a longer text: its spaces kept, the rest as in a cell."""
    plain = " ".join(text[: 4 * MOST_LINE].expandtabs(_TAB).splitlines())
    return _cut(visible(plain), MOST_LINE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


ListName = Literal["runs", "needs", "merge", "queues", "work"]
LISTS: Final[tuple[ListName, ...]] = ("runs", "needs", "merge", "queues", "work")
TITLES: Final[dict[ListName, str]] = {
    "runs": "Runs",
    "needs": "Needs you",
    "merge": "Merge queues",
    "queues": "Queues",
    "work": "At work",
}
#: The columns of each list with their width in cells; 0: what is left of the line.
COLUMNS: Final[dict[ListName, tuple[tuple[str, int], ...]]] = {
    "runs": (("stands", 7), ("age", 6), ("asked", 0), ("state or reason", 15), ("run", 12)),
    "needs": (("kind", 8), ("age", 6), ("what", 0), ("change", 17), ("gates", 10), ("run", 12)),
    "merge": (("branch", 14), ("place", 5), ("position", 20), ("asked", 0), ("run", 12)),
    "queues": (("queue", 0), ("waiting", 7), ("active", 7), ("oldest", 6), ("asking", 6), ("paused until", 12)),
    "work": (("role", 10), ("for", 6), ("task", 0), ("pool", 8), ("process", 8), ("run", 12)),
}
STAGE_WORDS: Final[dict[RunStage, str]] = {
    "running": "running",
    "person": "person",
    "locks": "paths",
    "landed": "landed",
    "done": "done",
    "failed": "failed",
}
EMPTY: Final[dict[ListName, str]] = {
    "runs": "No runs yet. Start one:\n\n"
    '  gatewright run "describe the change" --allow src --exec "python tool.py" \\\n'
    '    --test "python -m pytest -q"',
    "needs": "Nothing waits for a person. To be notified when something does:\n\n  gatewright approvals watch",
    "merge": "No merge queue. A run with the landing mode `queue` creates the queue of its branch.",
    "queues": "No queue is known. To diagnose the stack:\n\n  gatewright doctor",
    "work": "No task is in progress. The list of queues shows waiting tasks (g u).",
}
NOTHING_FITS: Final = "No run fits. All are shown again with:  /  and Enter"
_KINDS: Final = {"approval": "approval", "silent_run": "silent", "dead_letter": "dead", "unreadable_run": "broken"}
#: Lines of one list.
MOST_LINES: Final = 500


@dataclass(frozen=True, slots=True)
class ListedLine:
    """A line of a list. ``key`` is its permanent name; ``run_id`` is its run, ``request_id`` its request."""

    key: str
    run_id: str
    cells: tuple[str, ...]
    request_id: str = ""


def summary(board: Board, chosen: BoardFilter, needs: int) -> str:
    """Return the number of runs by stage, and of things that need a person."""
    counts = counts_of(board, chosen)
    words = "  ".join(f"{counts[stage]} {STAGE_WORDS[stage]}" for stage in STAGES)
    narrowed = f"only {cell(chosen.text)!r}: " if chosen.text else ""
    return f"{narrowed}{words}  · {needs} for you"


def run_lines(board: Board, chosen: BoardFilter, now: datetime) -> list[ListedLine]:
    """Runs that wait for a person, those that go on, those that have ended; the newest of each first."""
    lists = lists_of(board, chosen)
    rows = [row for stage in ("person", "running", "locks") for row in lists[stage]]
    ended = sorted((*lists["landed"], *lists["done"], *lists["failed"]), key=lambda row: row.order, reverse=True)
    return [_run_line(row, now) for row in [*rows, *ended][:MOST_LINES]]


def need_lines(needs: Sequence[Need], now: datetime) -> list[ListedLine]:
    """Return what needs a person, the longest waiting first."""
    return [
        _listed_line(
            need.key,
            (_KINDS[need.kind], age_words(need.since, now), *_decision_columns(need), short(need.run_id)),
            run_id=need.run_id,
            request_id=need.key if need.kind == "approval" else "",
        )
        for need in needs[:MOST_LINES]
    ]


def work_lines(board: Board, surroundings: TopSurroundings, now: datetime) -> list[ListedLine]:
    """Roles without a process, then tasks that were given out and not answered, the oldest first, then the processes."""
    missing = [
        _listed_line(f"missing:{role}", (role, "", "NO PROCESS OF THIS ROLE ANSWERS", "", "", ""))
        for role in surroundings.missing
    ]
    tasks = [(task, row) for row in board.rows.values() for task in row.in_hand]
    tasks.sort(key=lambda each: (each[0].since, each[0].task_id))
    at_work = [
        _listed_line(
            f"{row.run_id}/{task.task_id}",
            (
                task.role,
                age_words(task.since, now),
                task.task_id.removeprefix(f"{row.run_id}."),
                task.pool,
                task.process,
                short(row.run_id),
            ),
            run_id=row.run_id,
        )
        for task, row in tasks[:MOST_LINES]
    ]
    processes = [
        _listed_line(f"process:{role}", (role, "", f"{count} {'process' if count == 1 else 'processes'}", "", "", ""))
        for role, count in surroundings.processes.items()
    ]
    return [*missing, *at_work, *processes]


def queue_lines(surroundings: TopSurroundings, now: datetime) -> list[ListedLine]:
    """Return every work queue; one that waits without a requesting process has a role that is down, or busy."""
    found = []
    for state in surroundings.queues:
        depth = state.depth
        oldest = duration_words(depth.oldest) if depth.waiting else ""
        paused = f"{duration_words((state.paused_until - now).total_seconds())} more" if state.paused_until else ""
        counts = (str(depth.waiting), str(depth.in_hand), oldest, str(depth.pulls))
        found.append(_listed_line(depth.queue.durable, (depth.queue.durable, *counts, paused)))
    return found[:MOST_LINES]


def merge_lines(surroundings: TopSurroundings, now: datetime) -> list[ListedLine]:
    """Return the runs of each merge queue in landing order, after a line about the queue itself."""
    found = []
    for queue in surroundings.merge_queues:
        found.append(_listed_line(queue.queue_id, (queue.branch, "", "", f"{summary_words(queue)}; {queue.repository}", "")))
        positions = {each.number: each for each in queue.positions}
        for each in queue.entries:
            position = positions.get(each.position)
            state = f"{position.number}: {position_words(position, now)}" if position is not None else "waits"
            cells = (queue.branch, str(each.place), state, each.title, short(each.run_id))
            found.append(_listed_line(f"{queue.queue_id}/{each.run_id}", cells, run_id=each.run_id))
    return found[:MOST_LINES]


def _decision_columns(need: Need) -> tuple[str, str, str]:
    """Return request, size of the change, and verdict of the gates; for other needs than approvals only the cause."""
    summary = need.summary
    if summary is None:
        return need.why, "", ""
    title = f'"{summary.title}"'
    return (f"TARGET MOVED {title}" if summary.moved is not None else title), size_words(summary), verdict_words(summary)


def short(run_id: str) -> str:
    """Return as much of a run id as commands need to find it."""
    return run_id[:12]


def age_words(moment: str, now: datetime) -> str:
    """Return the approximate time since a timestamp; empty for none."""
    return duration_words(seconds_since(moment, now)) if moment else ""


def _run_line(row: BoardRow, now: datetime) -> ListedLine:
    state = STATE_NAMES.get(row.state, row.state)
    why = row.code or (state if row.is_open else row.landed_ref.removeprefix("refs/heads/"))
    age = age_words(row.created_at if row.is_open else row.finished_at or row.last_at, now)
    asked = row.asks[0].request_id if row.asks else ""
    cells = (STAGE_WORDS[row.stage], age, row.title, why, short(row.run_id))
    return _listed_line(row.run_id, cells, run_id=row.run_id, request_id=asked)


def _listed_line(key: str, cells: Sequence[str], *, run_id: str = "", request_id: str = "") -> ListedLine:
    """Make a line: the only place where foreign text becomes cells."""
    return ListedLine(key, run_id, tuple(cell(each) for each in cells), request_id)
