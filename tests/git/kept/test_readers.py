"""Objects read by processes that stay: the same answers as from a process for each question, whatever becomes of them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.git.command import GitCommand
from gatewright.git.kept.readers import CAT_FILE, KeptProcess, KeptReaders
from gatewright.git.mirror import Mirrors
from gatewright.git.objects import Objects
from gatewright.git.process import OutputTooLargeError, in_thread
from tests.git.repositories import MakeRepository, Repository

MISSING = "0123456789abcdef0123456789abcdef01234567"
#: What would end an answer too early, or break it, were contents taken for git's own words.
CONTENTS = {
    "empty": b"",
    "missing": f"{MISSING} missing\nend of it\n".encode(),
    "binary": bytes(range(256)) * 600,
    "below/this/line": b"no end of line",
    "odd\nname": b"\n\n\n",
}


class Started:
    """Counts the processes that ``git`` starts to stay, and hands them out."""

    def __init__(self, git: GitCommand, monkeypatch: pytest.MonkeyPatch) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        start = git.start

        def counted(*words: str) -> subprocess.Popen[bytes]:
            self.processes.append(start(*words))
            return self.processes[-1]

        monkeypatch.setattr(git, "start", counted)


@pytest.fixture(params=["sha1", "sha256"])
def source(request: pytest.FixtureRequest, make_repository: MakeRepository) -> Repository:
    """Two commits: the second changes, adds and removes."""
    repository = make_repository(sha256=request.param == "sha256")
    repository.commit(CONTENTS)
    repository.commit({"empty": None, "missing": b"changed\n", "new/file": b"new\n"})
    return repository


@pytest.fixture
def readers() -> Iterator[KeptReaders]:
    kept = KeptReaders()
    yield kept
    for git_dir, _ in list(kept._kept):
        kept.end(git_dir)


def _both(repository: Repository, readers: KeptReaders) -> tuple[GitCommand, Objects, Objects]:
    git = GitCommand(repository.path / ".git")
    return git, Objects(git, repository.path), Objects(git, repository.path, readers)


def _outcome(work: Callable[..., object], *given: object) -> object:
    try:
        return work(*given)
    except GitError as error:
        return error.reason


def _silent() -> subprocess.Popen[bytes]:
    """A process that repeats what it is asked, which ends no answer of cat-file."""
    pipe = subprocess.PIPE
    return subprocess.Popen(["cat"], stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)


def _ids(repository: Repository, *names: str) -> list[str]:
    return [repository.git("rev-parse", name).decode().strip() for name in names]


def test_kept_and_single_readers_return_the_same(
    source: Repository, readers: KeptReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    source.git("tag", "--annotate", "--message=a tag", "tagged")
    git, once, kept = _both(source, readers)
    started = Started(git, monkeypatch)
    new, old, new_tree, old_tree, tag, blob = _ids(
        source, "HEAD", "HEAD~", "HEAD^{tree}", "HEAD~^{tree}", "tagged", "HEAD~:missing"
    )
    missing = "f" * len(new)
    listed = source.git("ls-tree", "-r", "HEAD~").decode().splitlines()
    blobs = [line.split()[2] for line in listed]
    for object_id in (new, new_tree, tag, blob, missing):
        for kind in ("commit", "tree"):
            assert _outcome(kept.peel, object_id, kind) == _outcome(once.peel, object_id, kind)
    for wanted in (blobs, [blob], [], [missing], [blob, missing], [new_tree], [blob, blob]):
        assert _outcome(kept.blobs, wanted) == _outcome(once.blobs, wanted)
        assert _outcome(kept.sizes, wanted) == _outcome(once.sizes, wanted)
    for wanted in ([new_tree, old_tree], [blob], [missing], [new]):
        assert _outcome(kept.directories, wanted) == _outcome(once.directories, wanted)
    for pair in ((old, new), (old_tree, new_tree), (old, new_tree), (new_tree, old), (new, new), (tag, old), (old, missing)):
        assert _outcome(kept.changes, *pair) == _outcome(once.changes, *pair)
        assert _outcome(kept.diff, *pair) == _outcome(once.diff, *pair)
    assert len(started.processes) == 3  # one for contents, one for each form of differences, whatever was asked
    assert kept.diff(old, new).startswith(b"diff --git ")
    assert kept.changes(old, new) != ()


def test_more_than_a_pipe_holds_is_asked_and_answered(make_repository: MakeRepository, readers: KeptReaders) -> None:
    repository = make_repository()
    repository.commit({f"many/{number}": f"{number}\n".encode() * 40 for number in range(3000)})
    _, once, kept = _both(repository, readers)
    blobs = [line.split()[2] for line in repository.git("ls-tree", "-r", "HEAD").decode().splitlines()]
    assert kept.blobs(blobs) == once.blobs(blobs)
    assert len(kept.sizes(blobs)) == len(set(blobs))


def test_an_oversized_answer_is_refused_and_the_next_is_complete(source: Repository, readers: KeptReaders) -> None:
    _, once, kept = _both(source, readers)
    large, small = _ids(source, "HEAD:binary", "HEAD:new/file")
    with pytest.raises(OutputTooLargeError):
        kept.blobs([large], limit=1000)
    assert kept.blobs([small]) == once.blobs([small]) == {small: b"new\n"}


@pytest.mark.parametrize("when", ["between", "stopped answering"])
def test_a_process_that_was_killed_is_replaced(
    source: Repository, readers: KeptReaders, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    git, _, kept = _both(source, readers)
    started = Started(git, monkeypatch)
    (small,) = _ids(source, "HEAD:new/file")
    assert kept.blobs([small]) == {small: b"new\n"}
    started.processes[0].kill()
    if when == "between":
        os.waitid(os.P_PID, started.processes[0].pid, os.WEXITED | os.WNOWAIT)
    assert kept.blobs([small]) == {small: b"new\n"}  # by a process of its own
    assert kept.blobs([small]) == {small: b"new\n"}
    assert len(started.processes) == 2


def test_a_git_without_the_command_is_not_retried_for_ever(
    source: Repository, readers: KeptReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    git, _, kept = _both(source, readers)
    start, tries = git.start, []

    def older(*words: str) -> subprocess.Popen[bytes]:
        tries.append(words)
        return start(words[0], "--no-such-option")

    monkeypatch.setattr(git, "start", older)
    (small,) = _ids(source, "HEAD:new/file")
    for _ in range(6):
        assert kept.blobs([small]) == {small: b"new\n"}
    assert tries == [CAT_FILE] * 3


def test_an_answer_is_not_waited_for_behind_a_long_one(source: Repository, readers: KeptReaders) -> None:
    git, _, kept = _both(source, readers)
    (small,) = _ids(source, "HEAD:new/file")
    with readers._hold_place(git.git_dir, CAT_FILE) as taken:
        assert taken is not None
        answers: list[dict[str, bytes]] = []
        other = threading.Thread(target=lambda: answers.append(kept.blobs([small])))
        other.start()
        other.join()
        assert answers == [{small: b"new\n"}]
        assert taken.process is None


def test_only_a_few_stay(make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    readers, started = KeptReaders(most=2), []
    for number in range(4):
        repository = make_repository(f"source{number}")
        git, _, kept = _both(repository, readers)
        started.append(Started(git, monkeypatch))
        (blob,) = _ids(repository, "HEAD:README.md")
        assert kept.blobs([blob]) == {blob: b"read me\n"}
    lives = [each.processes[0].poll() is None for each in started]
    assert lives == [False, False, True, True]
    for git_dir, _ in list(readers._kept):
        readers.end(git_dir)
    assert all(each.processes[0].poll() is not None for each in started)


def test_a_reader_dropped_during_a_question_ends_after_it(source: Repository, readers: KeptReaders) -> None:
    git, _, _ = _both(source, readers)
    with readers._hold_place(git.git_dir, CAT_FILE) as kept:
        assert kept is not None
        kept.process = KeptProcess(lambda: git.start(*CAT_FILE))
        process = kept.process._process
        readers.end(git.git_dir)
        assert process.poll() is None
    assert process.poll() is not None


async def test_a_caller_that_goes_away_ends_the_process_that_it_waits_for(
    source: Repository, readers: KeptReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    git, _, kept = _both(source, readers)
    silent = _silent()
    asked = threading.Event()

    def start(*_words: str) -> subprocess.Popen[bytes]:
        asked.set()
        return silent

    monkeypatch.setattr(git, "start", start)
    (small,) = _ids(source, "HEAD:new/file")
    task = asyncio.create_task(in_thread(kept.blobs, [small]))
    await asyncio.to_thread(asked.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(silent.wait) != 0


async def test_a_mirror_that_is_let_go_leaves_no_process(source: Repository, tmp_path: Path) -> None:
    mirrors = Mirrors(tmp_path / "mirrors")
    mirror = await mirrors.open(source.url)
    commit = await mirror.resolve("main")
    await mirror.directories([await mirror.tree_of(commit)])
    processes = [each.process._process for each in mirrors._kept._kept.values() if each.process is not None]
    assert processes
    assert all(each.poll() is None for each in processes)
    mirrors.let_go()
    del mirror
    gc.collect()
    # The thread that asked last lets go of the mirror when it has ended its work, which may be a moment later.
    assert [await asyncio.to_thread(each.wait, 30.0) for each in processes] == [-signal.SIGKILL] * len(processes)


def test_readers_that_are_given_up_leave_neither_processes_nor_pipes(source: Repository) -> None:
    readers = KeptReaders()
    _, _, kept = _both(source, readers)
    kept.blobs(_ids(source, "HEAD:new/file"))
    (process,) = (each.process._process for each in readers._kept.values() if each.process is not None)
    assert process.poll() is None
    del readers, kept
    gc.collect()
    assert process.poll() == -signal.SIGKILL
    assert all(pipe is not None and pipe.closed for pipe in (process.stdin, process.stdout, process.stderr))
