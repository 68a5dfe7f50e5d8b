"""The one way to start git: environment, limits, and what happens when the caller goes away."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from pathlib import Path

import pytest

from gatewright.errors import GitError, HostError
from gatewright.git.command import GitCommand, words
from gatewright.git.process import in_thread
from gatewright.host_errors import speaks_of_full_disk
from tests.git.repositories import MakeRepository, Repository
from tests.waiting import PATIENCE

HOSTILE_ENVIRONMENT = {
    "GIT_DIR": "/nonexistent",
    "GIT_WORK_TREE": "/",
    "GIT_INDEX_FILE": "/nonexistent/index",
    "GIT_OBJECT_DIRECTORY": "/nonexistent/objects",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES": "/nonexistent/alternates",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "alias.log",
    "GIT_CONFIG_VALUE_0": "!touch /tmp/never",
    "GIT_CONFIG_PARAMETERS": "'core.bare'='false'",
    "GIT_EXTERNAL_DIFF": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_NAMESPACE": "elsewhere",
    "GIT_REPLACE_REF_BASE": "refs/elsewhere/",
    "GIT_EXEC_PATH": "/nonexistent",
    "GIT_TRACE": "/nonexistent/trace",
    "GIT_SOMETHING_FROM_THE_FUTURE": "1",
    "SECRET_TOKEN": "hunter2",
}


@pytest.fixture
def git(make_repository: MakeRepository) -> GitCommand:
    return GitCommand(make_repository().path / ".git")


def noted(path: Path) -> str:
    """The process id that a command writes into ``path`` when it has begun."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not (path.exists() and path.read_text().endswith("\n")):
        time.sleep(0.01)
    return path.read_text().strip()


def gone(pid: str) -> bool:
    deadline = time.monotonic() + PATIENCE
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


def alive(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_nothing_of_our_own_environment_reaches_git(git: GitCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in HOSTILE_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    seen = (await git.run("-c", "alias.tell=!env -0", "tell")).decode().split("\0")
    values = dict(line.partition("=")[::2] for line in seen if line)
    # GIT_DIR, GIT_CONFIG_PARAMETERS and GIT_EXEC_PATH are what git itself tells its children.
    assert not {name for name, value in HOSTILE_ENVIRONMENT.items() if values.get(name) == value}
    assert values["HOME"] == "/dev/null"
    assert values["GIT_CONFIG_GLOBAL"] == "/dev/null"


async def test_hostile_environment_does_not_move_the_repository(git: GitCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    before = await git.run("rev-parse", "HEAD")
    for name, value in HOSTILE_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    assert await git.run("rev-parse", "HEAD") == before


async def test_arguments_are_never_a_shell_line(git: GitCommand, tmp_path: Path) -> None:
    with pytest.raises(GitError):
        await git.run("rev-parse", "--verify", f"$(touch {tmp_path}/sprung); touch {tmp_path}/sprung")
    assert not (tmp_path / "sprung").exists()


async def test_failure_carries_the_words_of_git(git: GitCommand) -> None:
    with pytest.raises(GitError, match="Needed a single revision") as caught:
        await git.run("rev-parse", "--verify", "nowhere")
    assert caught.value.reason == "git_failed"


async def test_exit_code_that_the_caller_expects_is_no_failure(git: GitCommand) -> None:
    assert await git.run("rev-parse", "--verify", "--quiet", "nowhere", ok=(0, 1)) == b""


async def test_much_input_and_much_output_at_once_do_not_block(git: GitCommand) -> None:
    blob = (await git.run("hash-object", "-w", "--stdin", stdin=b"x" * 100_000)).decode()
    answer = await git.run("cat-file", "--batch", stdin=blob.encode() * 200)
    assert len(answer) > 200 * 100_000


async def test_input_that_git_does_not_read_is_no_error(git: GitCommand) -> None:
    assert (await git.run("version", stdin=b"x" * 5_000_000)).startswith(b"git version")


async def test_flood_of_output_is_cut_off(git: GitCommand) -> None:
    with pytest.raises(GitError) as caught:
        await asyncio.to_thread(git.execute, "-c", "alias.flood=!yes", "flood", limit=1_000_000)
    assert caught.value.reason == "git_output_too_large"


async def test_flood_of_complaints_is_not_kept(git: GitCommand) -> None:
    with pytest.raises(GitError) as caught:
        await git.run("-c", "alias.flood=!head -c 5000000 /dev/zero >&2; exit 3", "flood")
    assert len(caught.value.message) < 2000


async def test_hanging_git_is_ended_with_all_that_it_started(git: GitCommand, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with pytest.raises(GitError) as caught:
        await git.run("-c", f"alias.hang=!sleep 60 & echo $! > {note}; wait", "hang", timeout=0.5)
    assert caught.value.reason == "git_timeout"
    assert gone(noted(note))


async def test_git_that_ignores_the_end_signal_is_killed(
    git: GitCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gatewright.git.process._GRACE", 0.2)
    note = tmp_path / "pid"
    with pytest.raises(GitError) as caught:
        await git.run("-c", f"alias.deaf=!trap '' TERM; echo $$ > {note}; while :; do sleep 1; done", "deaf", timeout=0.5)
    assert caught.value.reason == "git_timeout"
    assert gone(noted(note))


async def test_cancelled_caller_ends_git_and_all_that_it_started(git: GitCommand, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    task = asyncio.create_task(git.run("-c", f"alias.hang=!sleep 60 & echo $! > {note}; wait", "hang"))
    pid = await asyncio.to_thread(noted, note)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(gone, pid)


async def test_cancelled_caller_starts_no_further_git(make_repository: MakeRepository, tmp_path: Path) -> None:
    git = GitCommand(make_repository().path / ".git")
    note, second = tmp_path / "pid", tmp_path / "second"

    def two_steps() -> None:
        try:
            git.execute("-c", f"alias.hang=!echo $$ > {note}; sleep 60", "hang")
        except GitError:
            git.execute("-c", f"alias.more=!touch {second}", "more")

    task = asyncio.create_task(in_thread(two_steps))
    await asyncio.to_thread(noted, note)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0.2)
    assert not second.exists()


async def test_git_killed_from_outside_is_a_failure_to_try_again(git: GitCommand) -> None:
    with pytest.raises(GitError) as caught:
        await git.run("-c", "alias.die=!kill -KILL $PPID", "die")
    assert caught.value.reason in {"git_killed", "git_failed"}


async def test_full_disk_or_missing_permission_is_no_foreign_error(git: GitCommand) -> None:
    for number, code in ((errno.ENOSPC, "disk_full"), (errno.EACCES, "permission_denied"), (errno.EIO, "disk_failed")):

        def work(number: int = number) -> None:
            raise OSError(number, os.strerror(number))

        with pytest.raises(HostError) as caught:
            await in_thread(work)
        assert caught.value.reason == code


def test_a_full_local_disk_is_not_a_full_server_disk() -> None:
    assert speaks_of_full_disk(b"fatal: write error: No space left on device\n")
    assert not speaks_of_full_disk(b"remote: fatal: write error: No space left on device\nfatal: the remote end hung up\n")


def test_words_of_a_hostile_server_cannot_steer_a_terminal() -> None:
    assert words(b"remote: \x1b[2Jhello\r\nnext\x00 \xff\n") == "remote: ?[2Jhello; next? \ufffd"
    assert len(words(b"x" * 100_000)) == 1000


def test_too_many_arguments_are_a_failure_of_git(make_repository: MakeRepository) -> None:
    repository: Repository = make_repository()
    with pytest.raises(GitError):
        GitCommand(repository.path / ".git").execute("rev-parse", *["x" * 100_000] * 100)
