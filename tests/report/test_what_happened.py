"""What the page says of a run: how its change was made, what to do when nothing landed, what was not judged, whose key."""

from __future__ import annotations

import html
import re
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from gatewright.app.report.changes import MOST_FOLDERS, sum_folders
from gatewright.app.report.patch import listed_paths
from gatewright.contracts import RunRequest
from gatewright.contracts.vocabulary import Executor
from tests.evidence.recorded_runs import GitFacts, RecordedRun, make_aborted, make_failed, make_fixed, make_success
from tests.report.conftest import MakePage, SealRun

#: No page of any run is larger, in bytes.
LARGEST = 4_000_000


class CommandRun(RecordedRun):
    """The same, made by a command."""

    def request(self) -> RunRequest:
        commands = ("python codemod.py {paths}", "python codemod.py --again {paths}")
        return replace(super().request(), executor=Executor(kind="command", commands=commands), artifacts=())


def words(page: bytes, section: str = "") -> str:
    """The text of the page, or of one section."""
    text = page.decode()
    if section:
        text = text.partition(f'<section id="{section}">')[2].partition("</section>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_page_shows_how_the_change_was_made_and_its_worker(seal: SealRun, make_page: MakePage) -> None:
    told = words(make_page(seal(make_fixed())), "work")
    assert "recorded reply of a model" in told
    assert "plan.w01 reply.a1 " in told
    assert "plan.w01.a2" in told
    assert "worker worker-1" in told


def test_page_shows_the_command_with_the_paths_of_the_shard(seal: SealRun, make_page: MakePage) -> None:
    run = CommandRun()
    run.accept()
    run.plan()
    run.work()
    run.end("FAILED", "executor_failed", "words")
    told = words(make_page(seal(run)), "work")
    assert "A command made the change" in told
    assert "python codemod.py src" in told
    assert "python codemod.py docs" in told


@pytest.mark.parametrize(
    ("make", "advice"),
    [(make_failed, "restrict the change to the allowed paths"), (make_aborted, "run it again if you still need the change")],
)
def test_refused_run_shows_that_nothing_landed_and_the_next_step(
    seal: SealRun, make_page: MakePage, make: Callable[[], RecordedRun], advice: str
) -> None:
    told = words(make_page(seal(make())))
    assert "Nothing landed. What to do: " in told
    assert advice in told


def test_landed_run_shows_no_refusal(seal: SealRun, make_page: MakePage) -> None:
    assert "Nothing landed" not in words(make_page(seal(make_success())))


def test_unevaluated_rules_are_drawn_neither_kept_nor_broken(seal: SealRun, make_page: MakePage) -> None:
    page = make_page(seal(make_failed()))
    assert "7 not evaluated" in words(page)
    done = page.decode().partition('<section id="done">')[2].partition("</section>")[0]
    assert done.count('aria-label="not evaluated"') == 7
    assert "sign-bad" not in done
    assert "sign-good" not in done
    assert "7 kept" in words(make_page(seal(make_success())))


def make_wide(count: int, lines: int = 3) -> RecordedRun:
    names = tuple(f"src/part{number % 50:02}/sub/file{number:05}.py".encode() for number in range(count))
    body = b"".join(
        b"diff --git a/%s b/%s\nindex 1..2 100644\n--- a/%s\n+++ b/%s\n@@ -1 +1,%d @@\n-old\n" % (name, name, name, name, lines)
        + b"+a new line of some length, as they are\n" * lines
        for name in names
    )
    return make_success(GitFacts(names=names, patch=body))


@pytest.mark.long
def test_five_thousand_files_are_grouped_on_a_bounded_page(seal: SealRun, make_page: MakePage) -> None:
    page = make_page(seal(make_wide(5_000)))
    told = words(page, "change")
    assert "5,000 files" in told
    assert "src/part00/ 100 files +300" in told
    assert "10 more folders with 1,000 files are not listed" in told
    assert "4,900 more files are not shown" in told
    assert len(page) < LARGEST


@pytest.mark.long
def test_files_of_a_partly_read_patch_are_counted(seal: SealRun, make_page: MakePage) -> None:
    page = make_page(seal(make_wide(5_000, lines=40)))
    assert "5,000 files" in words(page, "change")
    assert "their lines counted" in words(page, "change")
    assert len(page) < LARGEST


def test_folders_are_as_deep_as_few_enough_of_them_allow() -> None:
    names = [b"top.py", *(f"a/b{number}/c/x{number}.py".encode() for number in range(10))]
    assert {folder.path for folder in sum_folders((), names)} == {b"", *(f"a/b{number}/".encode() for number in range(10))}
    many = [f"d{number:03}/x.py".encode() for number in range(MOST_FOLDERS + 5)]
    assert sum(folder.files for folder in sum_folders((), many)) == len(many)


def test_list_of_names_is_read_as_git_quotes_it() -> None:
    assert listed_paths(b'src/a.py\n"src/na\\303\\257ve \\"q\\".py"\ncut') == (b"src/a.py", 'src/na\u00efve "q".py'.encode())


def test_page_shows_whose_key_signed(seal: SealRun, make_page: MakePage) -> None:
    assert "(this host's own)." in words(make_page(seal(make_success()), whose="this host's own"))
