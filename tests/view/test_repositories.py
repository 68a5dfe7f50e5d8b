"""What a board tells of one repository, from the ledger's own entries."""

from __future__ import annotations

from gatewright.view.board import Board, advance_board
from gatewright.view.repositories import MakerAccount, repository_account, repository_accounts
from gatewright.view.rows import span_of
from tests.view.ledgers import interleaved, make_run, run_id_of


def board_of_three() -> Board:
    runs = [make_run(1), make_run(2, "aborted"), make_run(3, "open")]
    return advance_board(Board(), interleaved(runs))


def test_a_repository_counts_how_its_runs_ended() -> None:
    board = board_of_three()
    (account,) = repository_accounts(board)
    assert (account.open, account.landed, account.failed) == (1, 1, 1)
    assert account.reasons == (("aborted", 1),)
    assert account.makers == (MakerAccount(board.rows[run_id_of(1)].maker, 1, 2),)
    assert account.makers[0].percent == 50
    landed = span_of(board.rows[run_id_of(1)])
    assert landed > 0
    assert account.to_land == (landed, landed)
    assert {row.run_id for row in account.newest} == {run_id_of(number) for number in (1, 2, 3)}


def test_paths_are_held_by_open_runs_alone() -> None:
    board = board_of_three()
    (account,) = repository_accounts(board)
    held = {row.run_id: row.locked for row in account.locks}
    assert held == {run_id_of(3): board.rows[run_id_of(3)].locked}
    assert held[run_id_of(3)]
    assert board.rows[run_id_of(1)].locked == ()


def test_of_another_repository_nothing_is_known() -> None:
    assert repository_account(board_of_three(), "elsewhere") is None
    assert repository_accounts(Board()) == ()
