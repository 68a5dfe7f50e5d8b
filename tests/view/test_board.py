"""The board equals the ledger, in whatever portions its entries come."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gatewright.bus.port import Message
from gatewright.contracts.task_contract import TaskType
from gatewright.run.evolve import fold
from gatewright.run.history import follow_all
from gatewright.tasks.dead_letters import DeadLetter, DeadLetterDecision
from gatewright.view.board import Board, advance_board
from gatewright.view.crew import crew_lanes
from gatewright.view.detail import detail_of
from gatewright.view.filters import BoardFilter, choices_of, counts_of, filter_of, lists_of
from gatewright.view.needs import needs_of
from gatewright.view.rows import MOST_WORDS, is_silent, row_of, seconds_since
from gatewright.work_documents.request_summary import change_size
from tests.evidence.recorded_runs import START, RecordedRun
from tests.gatekeeper.simulated_run import Script, SimulatedRun
from tests.view.ledgers import interleaved, make_run, run_id_of

MIXED = [make_run(1), make_run(2, "aborted"), make_run(3, "open"), make_run(4, transitions=3)]

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def test_each_run_stands_in_its_own_list() -> None:
    board = advance_board(Board(), interleaved(MIXED))
    lists = lists_of(board, BoardFilter())
    assert {stage: [row.run_id for row in rows] for stage, rows in lists.items()} == {
        "running": [run_id_of(4), run_id_of(3)],
        "person": [],
        "locks": [],
        "landed": [run_id_of(1)],
        "done": [],
        "failed": [run_id_of(2)],
    }
    assert counts_of(board, BoardFilter()) == {"running": 2, "person": 0, "locks": 0, "landed": 1, "done": 0, "failed": 1}


@pytest.mark.parametrize(("task_type", "kind", "idle"), [("PLAN", "plan", "Builder"), ("REVIEW", "review", "Planner")])
def test_a_run_without_a_change_is_done_and_names_its_kind(task_type: TaskType, kind: str, idle: str) -> None:
    world = SimulatedRun(Script(task_type=task_type))
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    followed = follow_all(record for transition in world.transitions for record in transition.events)
    assert followed is not None
    row = row_of(followed, 1)
    assert (row.stage, row.kind, row.title) == ("done", kind, f"{kind}: {row.request}")
    lanes = {lane.name: lane for lane in crew_lanes(followed.run, followed.gates)}
    assert (lanes[idle].state, lanes[idle].required) == ("not_needed", False)
    assert (lanes["Integrator"].state, lanes["Integrator"].required) == ("not_needed", False)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_portions_and_repetitions_change_nothing(seed: int) -> None:
    entries, dice = interleaved(MIXED), random.Random(seed)  # noqa: S311 - no secret
    at_once = advance_board(Board(), entries)
    board, place = Board(), 0
    while place < len(entries):
        again, portion = dice.randint(0, min(3, place)), dice.randint(1, 4)
        board = advance_board(board, entries[place - again : place + portion])
        place += portion
    assert board.rows == at_once.rows
    assert (board.sequence, dict(board.unreadable)) == (at_once.sequence, {})


def test_a_line_matches_the_fold() -> None:
    transitions = make_run(1)
    board = advance_board(Board(), interleaved([transitions]))
    run, row = fold(transitions), board.rows[run_id_of(1)]
    assert run is not None
    assert run.landed is not None
    assert (row.state, row.landed_ref, row.landed_commit) == ("S6", run.landed.ref, run.landed.commit)
    assert (row.created_at, row.finished_at, row.sequence) == (run.created_at, run.finished_at, len(transitions))
    assert row.in_hand == ()
    assert run.candidate is not None
    assert row.change == change_size(run.candidate.changed_files, run.candidate.changed_lines)
    assert row.ordered_by == run.accepted.orderers


def test_who_has_what_since_when() -> None:
    transitions = make_run(1, "open")
    row = advance_board(Board(), interleaved([transitions])).rows[run_id_of(1)]
    run = fold(transitions)
    assert run is not None
    assert {task.task_id for task in row.in_hand} == {task.task_id for task in run.tasks.values() if task.status == "RUNNING"}
    assert row.in_hand
    assert all((task.role, task.since) == ("worker", row.last_at) for task in row.in_hand)


def test_a_run_that_waits_for_paths_names_their_holder() -> None:
    simulated = SimulatedRun(Script(lock_refusals=1))
    seen = set()
    while simulated.under_way and "locks" not in seen:
        simulated.deliver(simulated.under_way.pop(0))
        board = advance_board(Board(), interleaved([simulated.transitions]))
        (row,) = board.rows.values()
        seen.add(row.stage)
    assert "locks" in seen
    assert row.holders
    assert row.waiting_since == row.last_at


def test_a_history_gap_is_reported_and_blocks_no_other() -> None:
    broken = make_run(1)[1:]
    board = advance_board(Board(), interleaved([broken, make_run(2)]))
    assert set(board.rows) == {run_id_of(2)}
    assert set(board.unreadable) == {run_id_of(1)}
    assert [need.kind for need in needs_of(board, (), START)] == ["unreadable_run"]


def test_of_ended_runs_the_newest_are_kept() -> None:
    runs = [make_run(number) for number in range(12)]
    board = advance_board(Board(), interleaved(runs), most_ended=10)
    assert len(board.rows) <= 10
    assert set(board.rows) == {run_id_of(number) for number in range(12 - len(board.rows), 12)}
    assert board.forgotten > 0


def test_an_open_run_is_never_dropped() -> None:
    runs = [make_run(0, "open"), *(make_run(number) for number in range(1, 8))]
    board = advance_board(Board(), interleaved(runs), most_ended=2)
    assert run_id_of(0) in board.rows


@pytest.mark.parametrize(
    ("chosen", "fitting"),
    [
        ({}, {1, 2, 3, 4}),
        ({"stage": "failed"}, {2}),
        ({"reason": "aborted"}, {2}),
        ({"text": "CHANGED MY"}, {2}),
        ({"text": run_id_of(3)}, {3}),
        ({"repository": "/elsewhere"}, set()),
        ({"publisher": "default", "stage": "landed"}, {1}),
        ({"priority": "normal"}, {1, 2, 3, 4}),
        ({"priority": "high"}, set()),
        ({"unknown": "x"}, {1, 2, 3, 4}),
    ],
)
def test_lines_are_filtered(chosen: dict[str, str], fitting: set[int]) -> None:
    board = advance_board(Board(), interleaved(MIXED))
    shown = {row.run_id for rows in lists_of(board, filter_of(chosen)).values() for row in rows}
    assert shown == {run_id_of(number) for number in fitting}


def test_a_run_is_silent_when_its_tasks_have_had_their_time() -> None:
    row = advance_board(Board(), interleaved([make_run(1, "open")])).rows[run_id_of(1)]
    last = datetime.fromisoformat(row.last_at)
    assert not is_silent(row, last + timedelta(seconds=row.quiet_after))
    assert is_silent(row, last + timedelta(seconds=row.quiet_after + 1))
    assert not is_silent(replace(row, stage="person"), last + timedelta(days=2))
    assert seconds_since("", last) == 0.0
    longer = replace(row, quiet_after=9e9)
    assert not is_silent(longer, last + timedelta(days=2))


def test_lines_are_filtered_by_the_class_that_their_tasks_wait_in() -> None:
    rows = advance_board(Board(), interleaved(MIXED)).rows
    board = Board(rows={**rows, run_id_of(1): replace(rows[run_id_of(1)], priority="high")})
    shown = {row.run_id for found in lists_of(board, filter_of({"priority": "high"})).values() for row in found}
    assert shown == {run_id_of(1)}
    assert choices_of(board)["priority"] == ["high", "normal"]


def test_needs_of_people_are_listed_longest_waiting_first() -> None:
    board = advance_board(Board(), interleaved([make_run(1, "open")]))
    letter = DeadLetter(7, "worker", "gw.task.worker.default.normal", "x", "y", 6, 0, 0.0, False, Message("s", b""))
    settled = replace(letter, sequence=8, decision=DeadLetterDecision("dropped", "seen", 1.0))
    found = needs_of(board, (settled, letter), START + timedelta(days=1))
    assert [need.key for need in found] == ["letter:7", f"silent:{run_id_of(1)}"]
    assert found[0].commands[0] == "gatewright dead show 7"


def test_a_run_whose_tasks_no_process_claims_is_silent_at_once() -> None:
    board = advance_board(Board(), interleaved([make_run(1, "open"), make_run(2)]))
    found = needs_of(board, (), START, {run_id_of(1): "2026-01-02T03:04:09.000Z", run_id_of(2): "2026-01-02T03:04:09.000Z"})
    assert [(need.run_id, need.since) for need in found] == [(run_id_of(1), "2026-01-02T03:04:09.000Z")]
    assert "no process claims" in found[0].why


def test_texts_of_a_line_are_bounded() -> None:
    recorded = RecordedRun()
    recorded.accept(requested_by="x" * 100)
    recorded.plan()
    recorded.end("FAILED", "path_out_of_scope", "y" * 10_000)
    (row,) = advance_board(Board(), interleaved([recorded.transitions])).rows.values()
    assert len(row.message) == MOST_WORDS


def test_a_failed_run_shows_why_and_the_next_step() -> None:
    records = [record for transition in make_run(1, "aborted") for record in transition.events]
    detail = detail_of(records, NOW)
    assert detail is not None
    assert detail.run.failure is not None
    assert detail.run.failure.code == "aborted"
    assert (detail.row.code, detail.family) == ("aborted", "failed")
    assert detail.advice
    assert detail.timeline.rows
    assert detail_of([], NOW) is None
