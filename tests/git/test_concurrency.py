"""Several processes and many tasks on one root of mirrors."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gatewright.errors import GitError
from gatewright.git.changes import FileChange
from gatewright.git.maintenance import hold_lock
from gatewright.git.mirror import Mirrors
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE

WORKER = """
import asyncio, json, sys
from pathlib import Path
from gatewright.git.changes import FileChange
from gatewright.git.mirror import Mirrors

async def main(root, url, number):
    mirror = await Mirrors(Path(root)).open(url)
    commit = await mirror.resolve("main")
    tree = await mirror.write_tree(commit, [FileChange(b"shared", "100644", b"same\\n")])
    trees = [tree, await mirror.apply(commit, await mirror.diff(commit, tree))]
    own = await mirror.write_tree(tree, [FileChange(b"own", "100644", number.encode())])
    assert len(await mirror.files(own)) == len(await mirror.files(commit)) + 2
    print(json.dumps([commit, *trees]))

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.long
async def test_processes_that_open_one_mirror_at_once_agree(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files={f"d{number}/f": b"%d\n" % number for number in range(200)})
    root = tmp_path / "mirrors"
    argv = [sys.executable, "-W", "error", "-c", WORKER, str(root), repository.url]
    workers = [
        subprocess.Popen([*argv, str(number)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: ASYNC220  # at once is the point
        for number in range(4)
    ]
    answers = [worker.communicate(timeout=PATIENCE) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4, answers
    assert len({answer for answer, _ in answers}) == 1
    commit, one, other = json.loads(answers[0][0])
    assert (commit, one) == (repository.head(), other)
    assert sorted(path.suffix for path in root.iterdir()) == [".git", ".use"]


async def test_tasks_share_one_mirror(make_repository: MakeRepository, mirrors: Mirrors) -> None:
    repository = make_repository()
    opened = await asyncio.gather(*(mirrors.open(repository.url) for _ in range(8)))
    commits = await asyncio.gather(*(mirror.resolve("main") for mirror in opened))
    assert set(commits) == {repository.head()}

    async def work(number: int) -> str:
        mirror = opened[number]
        tree = await mirror.write_tree(commits[0], [FileChange(b"n", "100644", b"%d\n" % number)])
        assert await mirror.apply(commits[0], await mirror.diff(commits[0], tree)) == tree
        return tree

    assert len(set(await asyncio.gather(*(work(number) for number in range(8))))) == 8


def test_lock_excludes_until_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with hold_lock(path, seconds=1), pytest.raises(GitError) as caught, hold_lock(path, seconds=0.05):
        pass
    assert caught.value.reason == "mirror_busy"
    order: list[str] = []

    def second() -> None:
        with hold_lock(path, seconds=5):
            order.append("second")

    with hold_lock(path, seconds=1):
        thread = threading.Thread(target=second)
        thread.start()
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_lock_lives_as_long_as_the_git_that_inherited_it(tmp_path: Path) -> None:
    """The holder may be killed while its git still writes."""
    path = tmp_path / "lock"
    with hold_lock(path, seconds=1) as descriptor:
        child = subprocess.Popen(["sleep", "60"], pass_fds=(descriptor,))
    with pytest.raises(GitError), hold_lock(path, seconds=0.05):
        pass
    child.kill()
    child.wait()
    with hold_lock(path, seconds=1):
        pass


def test_lock_that_is_a_symlink_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(GitError), hold_lock(tmp_path / "lock", seconds=1):
        pass
    assert not (tmp_path / "elsewhere").exists()
