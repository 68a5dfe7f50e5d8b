"""What a branch adds to another one, in histories of every shape, and in repositories that lack objects or are damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gatewright.errors import GitError, MalformedError
from gatewright.git.host.branch_change import BranchChange, branch_change
from gatewright.git.mirror import Mirrors
from tests.git.repositories import MakeRepository, Repository

LINES = b"".join(b"line %d\n" % number for number in range(30))


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    """Has the branch ``fix``, which changes the first line of src/a.py; ``main`` is checked out."""
    made = make_repository(files={"src/a.py": LINES, "src/b.py": LINES})
    made.git("switch", "--quiet", "-c", "fix")
    made.commit({"src/a.py": LINES.replace(b"line 0\n", b"fixed 0\n")})
    made.git("switch", "--quiet", "main")
    return made


def refused(repository: Repository, branch: str = "fix", onto: str = "main") -> str:
    with pytest.raises((GitError, MalformedError)) as error:
        branch_change(repository.checkout, branch, onto)
    return error.value.reason


def applied(repository: Repository, change: BranchChange) -> bytes:
    """What src/a.py is once the change is on ``main``."""
    repository.git("switch", "--quiet", "--detach", "main")
    repository.git("apply", "--index", "-", stdin=change.patch)
    return repository.git("show", ":src/a.py")


def file_of(repository: Repository, name: str) -> Path:
    object_id = repository.git("rev-parse", name).decode().strip()
    path = repository.path / ".git/objects" / object_id[:2] / object_id[2:]
    path.chmod(0o644)
    return path


def test_branch_that_is_ahead_is_taken_whole(repository: Repository) -> None:
    assert applied(repository, branch_change(repository.checkout, "fix", "main")).startswith(b"fixed 0\n")


def test_change_beside_a_changed_line_is_merged(repository: Repository) -> None:
    repository.commit({"src/a.py": LINES.replace(b"line 2\n", b"other 2\n")})
    assert applied(repository, branch_change(repository.checkout, "fix", "main")).startswith(b"fixed 0\nline 1\nother 2\n")


def test_criss_cross_merge_is_taken_as_git_merges_it(repository: Repository) -> None:
    repository.commit({"src/a.py": LINES.replace(b"line 9\n", b"main 9\n")})
    before = repository.head("main")
    repository.git("merge", "--quiet", "--no-edit", "fix")
    repository.git("switch", "--quiet", "fix")
    repository.git("merge", "--quiet", "--no-edit", before)
    text = repository.git("show", "HEAD:src/a.py")
    repository.commit({"src/a.py": text.replace(b"line 20\n", b"fixed 20\n")})
    assert len(repository.git("merge-base", "--all", "main", "fix").split()) == 2
    merged = applied(repository, branch_change(repository.checkout, "fix", "main"))
    assert merged.startswith(b"fixed 0\n")
    assert b"main 9\n" in merged
    assert b"fixed 20\n" in merged


def test_branch_that_was_squashed_has_nothing_to_land(repository: Repository) -> None:
    repository.git("merge", "--quiet", "--squash", "fix")
    repository.git("commit", "--quiet", "-m", "squashed")
    repository.commit({"src/b.py": b"later\n"})
    assert refused(repository) == "branch_has_nothing"


def test_branch_of_commits_that_undo_each_other_has_nothing_to_land(repository: Repository) -> None:
    repository.git("switch", "--quiet", "fix")
    repository.commit({"src/a.py": LINES})
    assert refused(repository) == "branch_has_nothing"


def test_branch_behind_its_target_has_nothing_to_land(repository: Repository) -> None:
    assert refused(repository, "main", "fix") == "branch_has_nothing"


def test_conflicting_files_are_named(repository: Repository) -> None:
    repository.commit({"src/a.py": LINES.replace(b"line 0\n", b"other 0\n")})
    with pytest.raises(GitError, match=r"'src/a\.py'") as error:
        branch_change(repository.checkout, "fix", "main")
    assert error.value.reason == "branch_conflicts"


def test_no_merge_driver_of_the_repository_is_started(repository: Repository, tmp_path: Path) -> None:
    trap = tmp_path / "started"
    repository.configure(merge__trap__driver=f"touch {trap}")
    repository.commit({".gitattributes": b"*.py merge=trap\n", "src/a.py": LINES.replace(b"line 2\n", b"other 2\n")})
    branch_change(repository.checkout, "fix", "main")
    assert not trap.exists()


def test_nothing_is_written_to_the_repository(repository: Repository) -> None:
    repository.commit({"src/a.py": LINES.replace(b"line 2\n", b"other 2\n")})
    before = sorted(repository.path.rglob("*"))
    branch_change(repository.checkout, "fix", "main")
    assert sorted(repository.path.rglob("*")) == before


def test_unrelated_histories_have_no_common_commit(repository: Repository) -> None:
    repository.git("switch", "--quiet", "--orphan", "other")
    repository.commit({"src/a.py": b"other\n"})
    assert refused(repository, "other") == "no_common_history"


def test_damaged_file_of_the_branch_is_named(repository: Repository) -> None:
    object_id = repository.git("rev-parse", "fix:src/a.py").decode().strip()
    file_of(repository, "fix:src/a.py").write_bytes(b"damaged")
    with pytest.raises(GitError, match=object_id) as error:
        branch_change(repository.checkout, "fix", "main")
    assert error.value.reason == "repository_damaged"


@pytest.mark.parametrize("how", ["damaged", "missing"])
async def test_damaged_commit_is_no_ref_that_is_missing(how: str, repository: Repository, mirrors: Mirrors) -> None:
    path = file_of(repository, "fix")
    if how == "damaged":
        path.write_bytes(b"damaged")
    else:
        path.unlink()
    assert refused(repository) == "repository_damaged"
    mirror = await mirrors.open(repository.url)
    with pytest.raises(GitError) as error:
        await mirror.resolve("fix")
    assert error.value.reason == "repository_damaged"


def test_partial_clone_without_files_is_distinguished_from_a_damaged_one(repository: Repository, tmp_path: Path) -> None:
    repository.configure(uploadpack__allowFilter="true")
    words = ("clone", "--quiet", "--no-checkout", "--filter=blob:none", f"file://{repository.path}", str(tmp_path / "partial"))
    repository.git(*words)
    partial = Repository(tmp_path / "partial", repository.home)
    assert refused(partial, "origin/fix", "origin/main") == "repository_partial"


def test_tag_of_a_file_is_no_commit(repository: Repository) -> None:
    repository.git("tag", "file", "main:src/a.py")
    with pytest.raises(GitError, match="no commit") as error:
        repository.checkout.commit_named("file")
    assert error.value.reason == "ref_not_found"


@pytest.mark.parametrize("name", ["topic", "refs/heads/topic"])
async def test_folder_of_branches_is_no_branch(name: str, repository: Repository, mirrors: Mirrors) -> None:
    repository.git("branch", "topic/one")
    mirror = await mirrors.open(repository.url)
    with pytest.raises(GitError) as error:
        await mirror.resolve(name)
    assert error.value.reason == "ref_not_found"
