"""The file by which commands, agents and models say what they could not tell: out of the change, bounded, read as data."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from gatewright.contracts.consultation import MOST_BLOCKED
from gatewright.git.changes import FileChange
from gatewright.services.worker.executors.blocked_file import BLOCKED_FILE, BlockedFile, read_blocked, without_blocked

NOW = datetime(2026, 1, 5, tzinfo=UTC)
SAID = {
    "question": "Is the limit 3 or 5?",
    "best_guess": "3",
    "fallback_action": "the change goes on with 3",
    "can_resume_without_answer": True,
}


def written(document: object) -> BlockedFile:
    return BlockedFile(json.dumps(document).encode())


def test_the_file_is_no_part_of_the_change() -> None:
    source = FileChange(b"src/a.py", "100644", b"a = 1\n")
    told = FileChange(BLOCKED_FILE, "100644", b"{}")
    assert without_blocked((source, told)) == ((source,), BlockedFile(b"{}"))


@pytest.mark.parametrize("mode", ["100644", "100755"])
def test_a_plain_file_is_read_also_when_it_is_executable(mode: str) -> None:
    assert without_blocked((FileChange(BLOCKED_FILE, mode, b"{}"),)) == ((), BlockedFile(b"{}"))


def test_a_deleted_file_of_that_name_asks_nothing() -> None:
    assert without_blocked((FileChange(BLOCKED_FILE, None, b""),)) == ((), BlockedFile())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (FileChange(BLOCKED_FILE, "120000", b"/etc/passwd"), "a symbolic link"),
        (FileChange(BLOCKED_FILE, "160000", b""), "a submodule"),
        (FileChange(BLOCKED_FILE + b"/question.json", "100644", b"{}"), "a folder"),
        (FileChange(BLOCKED_FILE, "100644", b""), "an empty file"),
    ],
    ids=["link", "submodule", "folder", "empty"],
)
def test_an_irregular_file_is_reported_and_excluded_from_the_change(change: FileChange, words: str) -> None:
    source = FileChange(b"src/a.py", "100644", b"a = 1\n")
    kept, found = without_blocked((change, source))
    told = read_blocked(found, "task-1", NOW)
    assert (kept, told.blocked) == ((source,), ())
    (refused,) = told.refused
    assert refused.code == "blocked_not_a_file"
    assert words in refused.message


def test_the_file_cannot_choose_its_session_or_time() -> None:
    lying = {**SAID, "session": "another", "blocked_at": "1999-01-01T00:00:00Z"}
    for document in (SAID, lying, [lying]):
        (block,) = read_blocked(written(document), "task-1", NOW).blocked
        assert (block.session, block.blocked_at[:4], block.question) == ("task-1", "2026", SAID["question"])


def test_a_hundred_questions_are_bounded_and_reported() -> None:
    told = read_blocked(written([SAID] * 100), "task-1", NOW)
    assert len(told.blocked) == MOST_BLOCKED
    assert [each.code for each in told.refused] == ["blocked_too_many"]


def test_illegal_questions_are_omitted_and_reported() -> None:
    wrong = [{**SAID, "can_resume_without_answer": False}, {**SAID, "more": 1}, "words", SAID]
    told = read_blocked(written(wrong), "task-1", NOW)
    assert [block.question for block in told.blocked] == [SAID["question"]]
    assert len(told.log.splitlines()) == len(told.refused) == 3


@pytest.mark.parametrize(
    "content",
    [b"not JSON", b"\xff\xfe", b"[" * 50_000, b'{"question": "a", "question": "b"}', b" " * 70_000],
    ids=["words", "bytes", "deep", "twice", "large"],
)
def test_an_unreadable_file_asks_nothing_and_is_reported(content: bytes) -> None:
    told = read_blocked(BlockedFile(content), "task-1", NOW)
    assert told.blocked == ()
    assert [each.code for each in told.refused] == ["blocked_unreadable"]
