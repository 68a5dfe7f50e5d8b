"""The book of holds: append-only, the last act counts, and a crash in the middle of a line is made good."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gatewright.app.retention.holds import BOOK, HoldBook
from gatewright.contracts import LegalHold
from gatewright.errors import ConfigurationError, MalformedError
from gatewright.file_locks import lock_file


def act(number: int, kind: str = "place") -> LegalHold:
    stamp = "2026-01-01T00:00:00Z"
    return LegalHold(run_id=f"run-{number:020}", act=kind, reason="why", by="me", at=stamp)  # type: ignore[arg-type]  # a literal


def test_last_act_counts_and_every_act_stays_in_the_book(tmp_path: Path) -> None:
    book = HoldBook(tmp_path)
    for each in (act(1), act(2), act(1, "release"), act(1)):
        book.write(each)
    assert set(book.held()) == {act(1).run_id, act(2).run_id}
    assert [each.act for each in book.acts()] == ["place", "place", "release", "place"]


def test_placing_twice_or_releasing_nothing_is_refused(tmp_path: Path) -> None:
    book = HoldBook(tmp_path)
    with pytest.raises(MalformedError) as refusal:
        book.write(act(1, "release"))
    assert refusal.value.reason == "not_held"
    book.write(act(1))
    with pytest.raises(MalformedError) as refusal:
        book.write(act(1))
    assert refusal.value.reason == "already_held"
    assert len(book.acts()) == 1


def test_holds_stand_still_for_any_number_who_may_only_read(tmp_path: Path) -> None:
    book = HoldBook(tmp_path)
    book.write(act(1))
    (tmp_path / BOOK).chmod(0o400)
    with book.standing_still(), book.standing_still():
        assert set(book.held()) == {act(1).run_id}
        with pytest.raises(BlockingIOError):
            lock_file(tmp_path / BOOK, reading=True)
    os.close(lock_file(tmp_path / BOOK, reading=True))


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_truncated_line_is_skipped_and_later_repaired(tmp_path: Path, cut: int) -> None:
    book = HoldBook(tmp_path)
    book.write(act(1))
    book.write(act(2))
    path = tmp_path / "runs" / ".holds.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ConfigurationError):
        book.held()
    book.write(act(3))
    assert set(book.held()) == {act(1).run_id, act(3).run_id}


def test_acts_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: HoldBook(tmp_path).write(act(number)), range(40)))
    assert len(HoldBook(tmp_path).held()) == 40


def test_book_that_is_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / ".holds.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigurationError):
        HoldBook(tmp_path).write(act(1))
    assert not (tmp_path / "elsewhere").exists()


def test_a_book_where_it_lay_before_is_not_passed_over(tmp_path: Path) -> None:
    """It holds bundles: nothing is read, placed or removed until it is moved."""
    (tmp_path / "holds.jsonl").write_bytes(b"")
    for ask in (HoldBook(tmp_path).held, lambda: HoldBook(tmp_path).write(act(1)), HoldBook(tmp_path).locked().__enter__):
        with pytest.raises(ConfigurationError) as refusal:
            ask()
        assert refusal.value.reason == "holds_unreadable"
