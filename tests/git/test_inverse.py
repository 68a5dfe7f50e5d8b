"""The inverse of a landed commit for each kind of change, and what stands in its way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gatewright.errors import GitError, MalformedError
from gatewright.git.inverse import conflicts, inverse_of, revert_fault
from gatewright.git.mirror import Mirrors
from tests.git.repositories import MakeRepository, Repository

MESSAGE = "change\n\nGatewright-Run: run-landed0001\n"
RUN = "run-landed0001"
APP = "src/app.py"


def rename(repository: Repository) -> None:
    repository.git("mv", APP, "src/program.py")


def make_link(repository: Repository) -> None:
    (repository.path / "link").symlink_to("README.md")


CHANGES: dict[str, Callable[[Repository], object]] = {
    "add": lambda repository: (repository.path / "new.py").write_bytes(b"new\n"),
    "delete": lambda repository: (repository.path / APP).unlink(),
    "modify": lambda repository: (repository.path / APP).write_bytes(b"one\n2\nthree\n"),
    "mode": lambda repository: (repository.path / APP).chmod(0o755),
    "symlink": make_link,
    "binary": lambda repository: (repository.path / "logo.png").write_bytes(bytes(range(256))),
    "rename": rename,
}


@pytest.mark.every_case
@pytest.mark.parametrize("kind", CHANGES)
async def test_the_inverse_restores_the_earlier_content(kind: str, make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    before = repository.git("rev-parse", "main^{tree}").decode().strip()
    CHANGES[kind](repository)
    commit = repository.commit({}, MESSAGE)
    later = repository.commit({"docs.md": b"later\n"})
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    await mirror.ensure(later)
    assert await mirror.apply(commit, (await inverse_of(mirror, commit))[0]) == before
    tree = await mirror.apply(later, (await inverse_of(mirror, commit))[0])
    assert [change.path for change in await mirror.changes(before, tree)] == [b"docs.md"]
    assert await conflicts(mirror, commit, later) == ()
    assert await revert_fault(mirror, RUN, commit, later, tree) == ""


async def test_a_conflict_names_its_path_and_the_later_commits(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    numbers = b"".join(b"%d\n" % number for number in range(40))
    repository.commit({"long.txt": numbers})
    landed = {APP: b"one\n2\nthree\n", "README.md": b"landed\n", "long.txt": b"landed\n" + numbers}
    commit = repository.commit(landed, MESSAGE)
    repository.commit({"README.md": b"landed\n\nmore\n", "long.txt": landed["long.txt"] + b"the end\n"})
    later = repository.commit({APP: b"one\ntwo, again\nthree\n"})
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    await mirror.ensure(later)
    found = await conflicts(mirror, commit, later)
    assert (APP.encode(), (later,)) in found
    assert b"long.txt" not in {path for path, _ in found}


async def test_a_tree_that_is_not_the_inverse_is_named(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    first = repository.head()
    commit = repository.commit({APP: b"one\n2\nthree\n"}, MESSAGE)
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    await mirror.ensure(commit)
    before = await mirror.tree_of(first)
    assert await revert_fault(mirror, RUN, commit, commit, before) == ""
    assert "is not the inverse" in await revert_fault(mirror, RUN, commit, commit, await mirror.tree_of(commit))
    assert "is not of run-other00" in await revert_fault(mirror, "run-other00", commit, commit, before)
    assert "does not contain" in await revert_fault(mirror, RUN, commit, first, before)
    with pytest.raises(GitError):
        await revert_fault(mirror, RUN, "8" * 40, commit, before)


async def test_a_commit_without_a_single_parent_has_no_inverse(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    await mirror.ensure(repository.head())
    with pytest.raises(MalformedError) as caught:
        await inverse_of(mirror, repository.head())
    assert caught.value.reason == "nothing_landed"
