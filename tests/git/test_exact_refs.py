"""Names that only a person's own git understands, in a form that the gatekeeper finds."""

from __future__ import annotations

import pytest

from gatewright.errors import GitError, MalformedError
from gatewright.git.mirror import Mirrors
from tests.git.repositories import MakeRepository, Repository


@pytest.fixture
def clone(make_repository: MakeRepository) -> Repository:
    """Has the remote ``origin`` with ``main`` and ``fix``, of which ``main`` alone is a branch here, and the tag ``v1``."""
    source = make_repository()
    source.git("branch", "fix")
    cloned = source.path.with_name("cloned")
    source.git("clone", "--quiet", str(source.path), str(cloned))
    made = Repository(cloned, source.home)
    made.commit({"a": b"second\n"})
    made.git("tag", "v1")
    return made


@pytest.mark.parametrize("name", ["HEAD", "main", "v1", "refs/heads/main", "refs/remotes/origin/main"])
def test_name_that_everyone_understands_stays(name: str, clone: Repository) -> None:
    assert clone.checkout.exact_ref(name) == name


@pytest.mark.parametrize("name", ["origin/main", "origin/fix"])
async def test_branch_of_a_remote_gets_its_full_name(name: str, clone: Repository, mirrors: Mirrors) -> None:
    exact = clone.checkout.exact_ref(name)
    assert exact == f"refs/remotes/{name}"
    mirror = await mirrors.open(clone.url)
    assert await mirror.resolve(exact) == clone.head(exact)


@pytest.mark.parametrize("revision", ["HEAD~1", "HEAD^", "main@{upstream}", "@", "origin", "v1^{}", "main^{commit}"])
def test_revision_becomes_the_full_id_of_its_commit(revision: str, clone: Repository) -> None:
    assert clone.checkout.exact_ref(revision) == clone.head(f"{revision}^{{commit}}")


@pytest.mark.parametrize("digits", [4, 7, 12, 39])
def test_short_id_becomes_the_full_id(digits: int, clone: Repository) -> None:
    full = clone.head()
    assert clone.checkout.exact_ref(full[:digits].upper()) == full
    assert clone.checkout.exact_ref(full) == full


def test_branch_that_looks_like_a_short_id_is_the_branch(clone: Repository) -> None:
    clone.git("branch", clone.head()[:7], "HEAD~1")
    assert clone.checkout.exact_ref(clone.head()[:7]) == clone.head()[:7]


def test_branch_that_only_a_remote_has_is_suggested(clone: Repository) -> None:
    with pytest.raises(GitError, match=r"'fix'; did you mean origin/fix\?") as error:
        clone.checkout.exact_ref("fix")
    assert error.value.reason == "ref_not_found"


def test_beginning_of_several_ids_is_ambiguous(clone: Repository) -> None:
    seen: dict[str, str] = {}
    for number in range(20_000):
        object_id = clone.git("hash-object", "-w", "--stdin", stdin=b"%d" % number).decode().strip()
        if (start := object_id[:4]) in seen:
            break
        seen[start] = object_id
    with pytest.raises(GitError, match="2 object ids") as error:
        clone.checkout.exact_ref(start)
    assert error.value.reason == "ref_ambiguous"


@pytest.mark.parametrize("name", ["", "-x", "--all", "a\nb", "a\0b", "a" * 2000, "\udc80"])
def test_what_cannot_be_a_name_never_reaches_git(name: str, clone: Repository) -> None:
    with pytest.raises(MalformedError) as error:
        clone.checkout.exact_ref(name)
    assert error.value.reason == "bad_ref"


@pytest.mark.parametrize("name", ["none", "HEAD~99", ":/no such subject", "main:a", "main^{tree}", "a..b", "deadbeef"])
def test_name_of_no_commit_is_not_found(name: str, clone: Repository) -> None:
    with pytest.raises(GitError) as error:
        clone.checkout.exact_ref(name)
    assert error.value.reason == "ref_not_found"
