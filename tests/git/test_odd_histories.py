"""Histories that git shows otherwise than they are, and refs in each other's way: judged right, or named by a code."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gatewright.errors import GitError, MalformedError
from gatewright.git.changes import FileChange
from gatewright.git.host.branch_change import BranchChange, branch_change
from gatewright.git.mirror import Mirror, Mirrors
from tests.git.repositories import MakeRepository, Repository
from tests.git.test_branch_changes import LINES, repository

__all__ = ["repository"]

WHEN = datetime(2026, 3, 1, tzinfo=UTC)


def refused(repository: Repository, branch: str = "fix", onto: str = "main") -> tuple[str, str]:
    with pytest.raises((GitError, MalformedError)) as error:
        branch_change(repository.checkout, branch, onto)
    return error.value.reason, error.value.message


def applied(repository: Repository, change: BranchChange, path: str = "src/a.py") -> bytes:
    """What a file is once the change is on ``main``."""
    repository.git("switch", "--quiet", "--detach", "main")
    repository.git("apply", "--index", "-", stdin=change.patch)
    return repository.git("show", f":{path}")


def test_octopus_merge_brings_the_changes_of_all_its_parents(repository: Repository) -> None:
    for name, at in (("one", 10), ("two", 20)):
        repository.git("switch", "--quiet", "-c", name, "main")
        repository.commit({"src/a.py": LINES.replace(b"line %d\n" % at, b"%s\n" % name.encode())})
    repository.git("switch", "--quiet", "fix")
    repository.git("merge", "--quiet", "--no-edit", "one", "two")
    assert len(repository.git("show", "--no-patch", "--format=%P", "fix").split()) == 3
    repository.git("switch", "--quiet", "main")
    repository.commit({"src/b.py": b"main\n"})
    text = applied(repository, branch_change(repository.checkout, "fix", "main"))
    assert [word in text for word in (b"fixed 0\n", b"one\n", b"two\n")] == [True] * 3


def test_target_that_an_octopus_merge_has_already_needs_the_rest_alone(repository: Repository) -> None:
    for name, at in (("one", 10), ("two", 20)):
        repository.git("switch", "--quiet", "-c", name, "main")
        repository.commit({"src/a.py": LINES.replace(b"line %d\n" % at, b"%s\n" % name.encode())})
    repository.git("switch", "--quiet", "fix")
    repository.git("merge", "--quiet", "--no-edit", "one", "two")
    repository.git("switch", "--quiet", "main")
    repository.git("merge", "--quiet", "--no-edit", "one")
    change = branch_change(repository.checkout, "fix", "main")
    assert b"one" not in b"".join(line for line in change.patch.splitlines(keepends=True) if line[:1] in b"+-")
    assert b"two\n" in applied(repository, change)


@pytest.mark.parametrize("what", ["commit", "tree", "blob"])
async def test_replaced_objects_do_not_change_the_change(repository: Repository, mirrors: Mirrors, what: str) -> None:
    honest = branch_change(repository.checkout, "fix", "main")
    repository.git("switch", "--quiet", "-c", "other", "main")
    other = repository.commit({"src/a.py": b"planted\n"})
    names = {
        "commit": ("fix", other),
        "tree": ("fix^{tree}", f"{other}^{{tree}}"),
        "blob": ("fix:src/a.py", f"{other}:src/a.py"),
    }
    repository.git("replace", *(repository.git("rev-parse", each).decode().strip() for each in names[what]))
    assert branch_change(repository.checkout, "fix", "main") == honest
    mirror = await mirrors.open(repository.url)
    files = await mirror.files(await mirror.tree_of(await mirror.resolve("fix")))
    assert b"planted" not in b"".join((await mirror.blobs(each.object_id for each in files)).values())


def test_grafts_do_not_change_the_change(repository: Repository) -> None:
    """A graft that names the target as a parent would have its commits taken for those of the branch."""
    repository.commit({"src/b.py": b"of main alone\n"})
    honest = branch_change(repository.checkout, "fix", "main")
    (repository.path / ".git/info").mkdir(exist_ok=True)
    (repository.path / ".git/info/grafts").write_text(f"{repository.head('fix')} {repository.head('main')}\n")
    assert branch_change(repository.checkout, "fix", "main") == honest


async def test_grafts_do_not_change_what_a_mirror_takes_over(repository: Repository, mirrors: Mirrors) -> None:
    root = repository.git("rev-list", "--max-parents=0", "main").decode().strip()
    repository.git("switch", "--quiet", "--orphan", "other")
    other = repository.commit({"x": b"x\n"})
    repository.git("switch", "--quiet", "main")
    (repository.path / ".git/info").mkdir(exist_ok=True)
    (repository.path / ".git/info/grafts").write_text(f"{root} {other}\n{repository.head('fix')}\n")
    mirror = await mirrors.open(repository.url)
    fix = await mirror.resolve("fix")
    assert await mirror.parents(fix) == (repository.git("rev-parse", "main").decode().strip(),)


def test_shallow_clone_without_the_common_commit_is_named(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"src/b.py": b"main\n"})
    repository.git(
        "clone", "--quiet", "--depth=1", "--no-single-branch", f"file://{repository.path}", str(tmp_path / "shallow")
    )
    shallow = Repository(tmp_path / "shallow", repository.home)
    reason, words = refused(shallow, "origin/fix", "origin/main")
    assert reason == "repository_shallow"
    assert "git fetch --unshallow" in words


def test_shallow_clone_with_the_common_commit_is_like_any_other(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"src/b.py": b"main\n"})
    repository.git(
        "clone", "--quiet", "--depth=2", "--no-single-branch", f"file://{repository.path}", str(tmp_path / "shallow")
    )
    shallow = Repository(tmp_path / "shallow", repository.home)
    assert b"fixed 0" in branch_change(shallow.checkout, "origin/fix", "origin/main").patch


def test_shallow_file_that_was_planted_hides_no_commit(repository: Repository) -> None:
    honest = branch_change(repository.checkout, "fix", "main")
    (repository.path / ".git/shallow").write_text(f"{repository.head('fix')}\n")
    reason, _ = refused(repository)
    assert reason == "repository_shallow"
    (repository.path / ".git/shallow").write_text("")
    assert branch_change(repository.checkout, "fix", "main") == honest


def test_change_that_only_moves_a_submodule_is_a_change(repository: Repository, make_repository: MakeRepository) -> None:
    inner = make_repository("inner", files={"x": b"1\n"})
    first = inner.head()
    second = inner.commit({"x": b"2\n"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{first},vendor/inner")
    repository.git("commit", "--quiet", "-m", "submodule")
    repository.git("switch", "--quiet", "-c", "move")
    repository.git("update-index", "--cacheinfo", f"160000,{second},vendor/inner")
    repository.git("commit", "--quiet", "-m", "move it")
    change = branch_change(repository.checkout, "move", "main")
    assert f"-Subproject commit {first}\n+Subproject commit {second}\n".encode() in change.patch


async def candidate(mirror: Mirror, parent: str) -> str:
    tree = await mirror.write_tree(parent, [FileChange(b"landed.txt", "100644", b"new\n")])
    return await mirror.commit_tree(tree, parent=parent, message="land\n", when=WHEN)


@pytest.mark.parametrize("packed", [False, True], ids=["loose", "packed"])
@pytest.mark.parametrize(("there", "wanted"), [("topic", "topic/one"), ("topic/one", "topic"), ("a/b/c", "a/b")])
async def test_branch_whose_name_is_in_the_way_of_another_is_named(
    repository: Repository, mirrors: Mirrors, there: str, wanted: str, packed: bool
) -> None:
    repository.git("branch", there)
    if packed:
        repository.git("pack-refs", "--all", "--prune")
    mirror = await mirrors.open(repository.url)
    base = await mirror.resolve("main")
    with pytest.raises(GitError) as error:
        await mirror.push(await candidate(mirror, base), f"refs/heads/{wanted}", expected=None)
    assert error.value.reason == "ref_in_the_way"
    assert f"refs/heads/{there}" in error.value.message


async def test_empty_folder_in_the_place_of_a_branch_is_no_hindrance(repository: Repository, mirrors: Mirrors) -> None:
    (repository.path / ".git/refs/heads/topic/one").mkdir(parents=True)
    mirror = await mirrors.open(repository.url)
    commit = await candidate(mirror, await mirror.resolve("main"))
    await mirror.push(commit, "refs/heads/topic", expected=None)
    assert repository.head("topic") == commit


async def test_alternates_that_lead_nowhere_are_named(repository: Repository, mirrors: Mirrors, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--shared", str(repository.path), str(clone))
    (clone / ".git/objects/info/alternates").write_text(f"{tmp_path}/gone/objects\n")
    with pytest.raises(GitError) as error:
        await (await mirrors.open(str(clone))).resolve("main")
    assert error.value.reason == "repository_damaged"
    reason, words = refused(Repository(clone, repository.home), "main", "main")
    assert reason == "repository_damaged"
    assert "alternates" in words


@pytest.mark.parametrize("line", ["/proc/self/root/etc", "../../../../../../../../etc", "\x00", '"/etc"', "/dev", "a\udcffb"])
async def test_alternates_that_lead_out_give_nothing_of_there(repository: Repository, mirrors: Mirrors, line: str) -> None:
    info = repository.path / ".git/objects/info"
    info.mkdir(exist_ok=True)
    (info / "alternates").write_bytes(os.fsencode(line) + b"\n")
    try:
        commit = await (await mirrors.open(repository.url)).resolve("main")
    except GitError as error:
        assert error.reason == "repository_leads_elsewhere"  # noqa: PT017
    else:
        assert commit == repository.head("main")
