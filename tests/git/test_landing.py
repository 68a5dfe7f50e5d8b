"""Moving a ref of the target: exactly once, only from where it was judged to be, and never under someone's hands."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.errors import GitError, MalformedError
from gatewright.git.changes import FileChange
from gatewright.git.command import GitCommand
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.remote import wants_signatures
from tests.git.repositories import MakeRepository, Repository

WHEN = datetime(2026, 3, 1, tzinfo=UTC)


async def candidate(mirror: Mirror, parent: str, content: bytes = b"new\n") -> str:
    tree = await mirror.write_tree(parent, [FileChange(b"landed.txt", "100644", content)])
    return await mirror.commit_tree(tree, parent=parent, message="land\n", when=WHEN)


async def reason(pushing: Awaitable[object]) -> str:
    with pytest.raises(GitError) as caught:
        await pushing
    return caught.value.reason


@pytest.fixture
def target(make_repository: MakeRepository) -> Repository:
    """A repository with a branch ``release`` that nobody has checked out."""
    repository = make_repository()
    repository.git("branch", "release")
    return repository


async def test_new_branch_is_made_and_an_old_one_moved(target: Repository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    commit = await candidate(mirror, base)
    assert await mirror.current("refs/heads/gatewright/run-1") is None
    await mirror.push(commit, "refs/heads/gatewright/run-1", expected=None)
    await mirror.push(commit, "refs/heads/release", expected=base)
    for name in ("refs/heads/gatewright/run-1", "refs/heads/release"):
        assert await mirror.current(name) == commit == target.head(name)
    assert target.git("show", f"{commit}:landed.txt") == b"new\n"
    target.git("fsck", "--strict")


async def test_pushing_again_is_a_success_and_changes_nothing(target: Repository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    commit = await candidate(mirror, base)
    for _ in range(2):
        await mirror.push(commit, "refs/heads/release", expected=base)
        await mirror.push(commit, "refs/heads/new", expected=None)
    assert target.head("release") == target.head("new") == commit


async def test_ref_that_moved_meanwhile_is_a_conflict(target: Repository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    commit = await candidate(mirror, base)
    moved = target.commit({"other": b"x\n"})
    target.git("branch", "--force", "release", moved)
    assert await reason(mirror.push(commit, "refs/heads/release", expected=base)) == "landing_conflict"
    assert target.head("release") == moved


async def test_ref_that_appeared_or_vanished_is_a_conflict(target: Repository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    commit = await candidate(mirror, base)
    assert await reason(mirror.push(commit, "refs/heads/release", expected=None)) == "landing_conflict"
    assert await reason(mirror.push(commit, "refs/heads/never", expected=base)) == "landing_conflict"
    assert target.head("release") == base
    assert not target.exists("refs/heads/never")


async def test_of_two_that_land_at_once_one_wins(target: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    other = await Mirrors(tmp_path / "others").open(target.url)
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    await other.ensure(base)
    commits = [await candidate(mirror, base, b"one\n"), await candidate(other, base, b"two\n")]
    pushes = [
        each.push(commit, "refs/heads/release", expected=base) for each, commit in zip((mirror, other), commits, strict=True)
    ]
    results = await asyncio.gather(*pushes, return_exceptions=True)
    (lost,) = [result for result in results if result is not None]
    assert isinstance(lost, GitError)
    assert lost.reason == "landing_conflict"
    assert target.head("release") == commits[results.index(None)]


@pytest.mark.parametrize("setting", ["refuse", "ignore", "warn", "updateInstead"])
async def test_checked_out_branch_is_refused_whatever_the_target_allows(
    target: Repository, mirrors: Mirrors, setting: str
) -> None:
    target.configure(receive__denyCurrentBranch=setting)
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    commit = await candidate(mirror, base)
    assert await reason(mirror.push(commit, "refs/heads/main", expected=base)) == "target_checked_out"
    assert target.head("main") == base
    assert not (target.path / "landed.txt").exists()
    assert target.git("status", "--porcelain") == b""


async def test_branch_of_a_linked_worktree_is_refused(target: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    target.git("clone", "--quiet", "--bare", target.url, str(bare))
    target.git("worktree", "add", "--quiet", str(tmp_path / "linked"), "release")
    target.git("--git-dir", str(bare), "worktree", "add", "--quiet", str(tmp_path / "linked-of-bare"), "release")
    for url in (target.url, str(bare)):
        mirror = await mirrors.open(url)
        base = await mirror.resolve("release")
        commit = await candidate(mirror, base)
        assert await reason(mirror.push(commit, "refs/heads/release", expected=base)) == "target_checked_out"


async def test_bare_repository_has_no_branch_in_use(target: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    target.git("clone", "--quiet", "--bare", target.url, str(tmp_path / "bare.git"))
    mirror = await mirrors.open(str(tmp_path / "bare.git"))
    base = await mirror.resolve("main")
    await mirror.push(await candidate(mirror, base), "refs/heads/main", expected=base)
    assert await mirror.current("refs/heads/main") != base


async def test_refusal_of_the_target_is_quoted(target: Repository, mirrors: Mirrors) -> None:
    target.configure(receive__denyNonFastForwards="true")
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    one = await candidate(mirror, base, b"one\n")
    await mirror.push(one, "refs/heads/release", expected=base)
    other = await candidate(mirror, base, b"two\n")
    with pytest.raises(GitError, match="non-fast-forward") as caught:
        await mirror.push(other, "refs/heads/release", expected=one)
    assert caught.value.reason == "landing_refused"
    assert target.head("release") == one


async def test_nothing_but_the_one_ref_is_pushed(target: Repository, mirrors: Mirrors) -> None:
    before = set(target.git("for-each-ref").splitlines())
    mirror = await mirrors.open(target.url)
    commit = await candidate(mirror, await mirror.resolve("main"))
    await GitCommand(mirror.path).run("tag", "stray", commit)
    await mirror.push(commit, "refs/heads/new", expected=None)
    assert set(target.git("for-each-ref").splitlines()) - before == {f"{commit} commit\trefs/heads/new".encode()}


async def test_branch_that_cannot_be_written_is_refused(target: Repository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(target.url)
    commit = await candidate(mirror, await mirror.resolve("main"))
    assert await reason(mirror.push(commit, "refs/heads/release/below", expected=None)) == "ref_in_the_way"


async def test_unknown_commit_and_broken_names_are_never_pushed(target: Repository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    assert await reason(mirror.push("1" * 40, "refs/heads/new", expected=None)) == "landing_refused"
    for commit, ref, expected in (
        ("main", "refs/heads/new", None),
        ("", "refs/heads/new", None),
        (base, "release", None),
        (base, "--all", None),
        (base, "refs/heads/a:refs/heads/b", None),
        (base, f"refs/replace/{base}", None),
        (base, "refs/heads/new", ""),
        (base, "refs/heads/new", "main"),
    ):
        with pytest.raises(MalformedError):
            await mirror.push(commit, ref, expected=expected)
    with pytest.raises(MalformedError):
        await mirror.current("main")


async def test_target_that_is_gone_is_a_failure_to_try_again(target: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    mirror = await mirrors.open(target.url)
    commit = await candidate(mirror, await mirror.resolve("main"))
    target.path.rename(tmp_path / "moved")
    assert await reason(mirror.push(commit, "refs/heads/new", expected=None)) == "repository_unreadable"
    assert await reason(mirror.current("refs/heads/new")) == "repository_unreadable"


async def test_a_push_reads_no_other_branch(target: Repository, mirrors: Mirrors) -> None:
    """What one landing costs does not grow with the landings before it: a pipe that was opened would never end."""
    mirror = await mirrors.open(target.url)
    commit = await candidate(mirror, await mirror.resolve("main"))
    others = target.path / ".git/refs/heads/gatewright"
    others.mkdir()
    for number in range(20):
        os.mkfifo(others / f"run-{number}")
    assert await mirror.current("refs/heads/gatewright/run-x") is None
    await mirror.push(commit, "refs/heads/gatewright/run-x", expected=None)
    assert await mirror.current("refs/heads/gatewright/run-x") == commit
    assert (others / "run-x").read_text().strip() == commit


async def test_a_branch_on_an_unknown_commit_is_pushed_completely(target: Repository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(target.url)
    first = await candidate(mirror, await mirror.resolve("main"), b"one\n")
    second = await candidate(mirror, first, b"two\n")
    await mirror.push(second, "refs/heads/new", expected=None)
    assert target.git("rev-list", "new", "^main").decode().split() == [second, first]
    target.git("fsck", "--strict", "--connectivity-only")


async def test_branch_with_many_files_is_kept_as_a_pack(target: Repository, mirrors: Mirrors) -> None:
    mirror = await mirrors.open(target.url)
    base = await mirror.resolve("main")
    files = [FileChange(b"many/%d.txt" % number, "100644", b"%d\n" % number) for number in range(150)]
    tree = await mirror.write_tree(base, files)
    commit = await mirror.commit_tree(tree, parent=base, message="land\n", when=WHEN)
    await mirror.push(commit, "refs/heads/new", expected=None)
    target.git("fsck", "--strict")
    assert len(target.git("ls-tree", "-r", "--name-only", "new", "many").splitlines()) == 150
    assert list((target.path / ".git/objects/pack").glob("*.pack"))


@pytest.mark.parametrize(
    ("said", "signed"),
    [
        ("remote: error: GH006: Protected branch update failed; remote: error: Commits must have verified signatures.", True),
        ("remote: - Commits must have verified signatures.; push declined due to repository rule violations", True),
        ("remote: GitLab: Commit must be signed with a GPG key", True),
        ("remote: You must sign off each commit", False),
        ("remote: error: GH013: Repository rule violations found: Changes must be made through a pull request.", False),
    ],
)
def test_a_demand_for_signed_commits_is_distinguished_from_other_refusals(said: str, signed: bool) -> None:
    assert wants_signatures(said) is signed
