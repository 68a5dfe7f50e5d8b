"""The board of one moment for scripts, and what the command refuses."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from gatewright.app.cli.outcome import as_known
from gatewright.app.top.lines import merge_lines, queue_lines, work_lines
from gatewright.app.top.once import board_document, board_text
from gatewright.app.top.surroundings import TopSurroundings
from gatewright.bus.jetstream.queue_control import QueueState
from gatewright.bus.jetstream.queue_depths import QueueDepth
from gatewright.bus.topology import TASK_ROLES, task_consumer
from gatewright.view.board import Board, advance_board
from gatewright.view.filters import BoardFilter
from gatewright.view.needs import needs_of
from tests.console.merge_queues import full_queue, held_queue
from tests.evidence.recorded_runs import START
from tests.view.ledgers import interleaved, make_run, run_id_of

NOW = START + timedelta(minutes=5)
QUEUE = task_consumer("worker", "default", "normal")


def make_board() -> Board:
    return advance_board(Board(), interleaved([make_run(1), make_run(2, "open"), make_run(3, "aborted")]))


def around(**running: int) -> TopSurroundings:
    depth = QueueDepth(QUEUE, waiting=3, in_hand=1, pulls=0, paused=True, oldest=125.0)
    return TopSurroundings((QueueState(depth, NOW + timedelta(hours=3)),), running, "")


def test_the_board_as_text_has_every_list_and_whole_run_ids() -> None:
    board = make_board()
    text = "\n".join(board_text(board, needs_of(board, (), NOW), around(worker=2), NOW, BoardFilter()))
    assert text.startswith("1 running  0 person  0 paths  1 landed  0 done  1 failed")
    assert all(run_id_of(number) in text for number in (1, 2, 3))
    assert "Nothing waits for a person" in text
    assert "worker-default-normal  3        1       2 min   0       3 h more" in text


def test_the_board_document_names_what_an_identity_cannot_see() -> None:
    board = make_board()
    seen = msgspec.json.decode(msgspec.json.encode(board_document(board, (), around(), BoardFilter(text=run_id_of(2)))))
    assert ([run["run_id"] for run in seen["runs"]], seen["counts"]["running"]) == ([run_id_of(2)], 1)
    assert seen["queues"][0]["oldest_sec"] == 125.0
    assert seen["sequence"] == board.sequence
    blind = board_document(board, (), TopSurroundings(refused="no operator"), BoardFilter())
    assert (blind["queues"], blind["processes"], blind["missing_roles"]) == (None, None, None)


def test_the_runs_of_a_merge_queue_follow_the_queue_in_landing_order() -> None:
    merging = TopSurroundings(merge_queues=(full_queue("Reject negative prices"), held_queue()), merge_refused="")
    lines = merge_lines(merging, NOW)
    assert [(line.cells[1], line.run_id) for line in lines[:4]] == [
        ("", ""),
        ("1", "run-0001"),
        ("3", "run-0003"),
        ("4", "run-0004"),
    ]
    assert lines[1].cells[2].startswith("2: testing for ")
    assert lines[4].cells[3].startswith("0 queued, 0 positions, held by ana: release freeze")
    document = board_document(make_board(), (), merging, BoardFilter())
    assert [queue["branch"] for queue in document["merge_queues"]] == ["main", "release"]
    assert board_document(make_board(), (), around(), BoardFilter())["merge_queues"] is None


def test_roles_without_a_process_stand_above_the_tasks_that_wait_for_them() -> None:
    lines = work_lines(make_board(), around(gatekeeper=1, **dict.fromkeys(set(TASK_ROLES) - {"worker"}, 1)), NOW)
    assert lines[0].cells[:3] == ("worker", "", "NO PROCESS OF THIS ROLE ANSWERS")
    assert any(line.run_id == run_id_of(2) for line in lines)
    assert queue_lines(TopSurroundings(), datetime.now(UTC)) == []


def test_without_a_terminal_it_is_refused_with_what_to_do(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-m", "gatewright.app.cli.main", "top"]
    said = subprocess.run(argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "")
    assert "gatewright top --once" in said.stderr
    assert "[no_terminal]" in said.stderr


def test_a_missing_library_names_the_extra_that_brings_it() -> None:
    known = as_known(ModuleNotFoundError("No module named 'textual'", name="textual"))
    assert known is not None
    assert (known.reason, "gatewright[top]" in known.message) == ("package_missing", True)
