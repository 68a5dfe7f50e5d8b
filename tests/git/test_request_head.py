"""The head of a change request as one change, and what is no change of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import SourceBranch
from gatewright.errors import GitError, MalformedError
from gatewright.git import request_head
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.request_head import change_of_head, moved_fault, source_fault
from tests.git.repositories import MakeRepository, Repository

APP = "src/app.py"
REF = "refs/pull/7/head"
PERSON = ("A. Person", "person@example.org")


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    """A request of two commits left main, which went on."""
    repository = make_repository()
    repository.git("checkout", "--quiet", "-b", "topic")
    repository.commit({APP: b"one\n2\nthree\n"})
    head = repository.commit({"new.py": b"new\n"})
    repository.git("update-ref", REF, head)
    repository.git("checkout", "--quiet", "main")
    repository.commit({"docs.md": b"later\n"})
    return repository


@pytest.fixture
async def mirror(repository: Repository, tmp_path: Path) -> Mirror:
    mirror = await Mirrors(tmp_path / "mirrors").open(repository.url)
    await mirror.ensure(repository.head("main"))
    return mirror


async def source_of(mirror: Mirror, repository: Repository) -> SourceBranch:
    change = await change_of_head(mirror, repository.head(REF), repository.head("main"))
    authors = tuple(f"{name} <{email}>" for name, email in change.authors)
    return SourceBranch(name=REF, head=change.head, base=change.base, commits=change.commits, authors=authors, ref=REF)


async def test_the_change_leads_from_where_the_head_left_the_baseline(mirror: Mirror, repository: Repository) -> None:
    head, main = repository.head(REF), repository.head("main")
    change = await change_of_head(mirror, head, main)
    assert (change.base, change.commits, change.authors) == (repository.head("main^"), 2, (PERSON,))
    tree, source = await mirror.apply(main, change.patch), await source_of(mirror, repository)
    repository.git("merge", "--quiet", "--no-edit", head)
    assert tree == repository.git("rev-parse", "HEAD^{tree}").decode().strip()
    assert await source_fault(mirror, source, main, tree) == ""


async def test_a_target_merged_into_the_request_is_no_part_of_it(mirror: Mirror, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "topic")
    repository.git("merge", "--quiet", "--no-edit", "main")
    change = await change_of_head(mirror, repository.head(), repository.head("main"))
    assert (change.base, change.commits) == (repository.head("main"), 3)
    assert b"docs.md" not in change.patch


async def test_each_difference_from_the_head_is_named(mirror: Mirror, repository: Repository) -> None:
    main, source = repository.head("main"), await source_of(mirror, repository)
    tree = await mirror.apply(main, (await change_of_head(mirror, source.head, main)).patch)
    other = await mirror.tree_of(main)
    assert "is not that of commit" in await source_fault(mirror, source, main, other)
    assert "left the baseline at" in await source_fault(mirror, replace(source, base=main), main, tree)
    assert "2 commits lead to" in await source_fault(mirror, replace(source, commits=1), main, tree)
    unnamed = replace(source, authors=("Ben <ben@example.org>",))
    assert "made also by 'A. Person <person@example.org>'" in await source_fault(mirror, unnamed, main, tree)
    more = replace(source, authors=(*source.authors, "Ben <ben@example.org>"))
    assert await source_fault(mirror, more, main, tree) == ""
    with pytest.raises(GitError):
        await source_fault(mirror, replace(source, head="8" * 40), main, tree)


async def test_a_change_that_conflicts_with_the_baseline_is_a_fault(mirror: Mirror, repository: Repository) -> None:
    source = await source_of(mirror, repository)
    later = repository.commit({APP: b"one\ntwo, again\nthree\n"})
    await mirror.ensure(later)
    assert "cannot be made on the baseline" in await source_fault(mirror, source, later, await mirror.tree_of(later))


async def test_a_ref_that_moved_or_is_gone_is_a_fault(mirror: Mirror, repository: Repository) -> None:
    source = await source_of(mirror, repository)
    assert await moved_fault(mirror, source) == ""
    assert await moved_fault(mirror, replace(source, ref=None, head="8" * 40)) == ""
    repository.git("update-ref", REF, "main")
    assert f"{REF} is at {repository.head('main')}" in await moved_fault(mirror, source)
    repository.git("update-ref", "-d", REF)
    assert f"{REF} is at nothing" in await moved_fault(mirror, source)
    repository.git("tag", "-a", "-m", "a tag", "v1", source.head)
    repository.git("update-ref", REF, "v1")
    assert REF in await moved_fault(mirror, source)


@pytest.mark.parametrize("case", ["unrelated", "criss_cross", "empty", "too_long"])
async def test_a_head_that_is_no_change_has_a_reason(
    mirror: Mirror, repository: Repository, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    expected = {"empty": "source_empty", "too_long": "source_too_long"}.get(case, "source_unrelated")
    head = repository.head(REF)
    if case == "unrelated":
        repository.git("checkout", "--quiet", "--orphan", "other")
        head = repository.commit({"other.md": b"other\n"})
    elif case == "criss_cross":
        main = repository.head("main")
        repository.git("merge", "--quiet", "--no-edit", head)
        repository.git("checkout", "--quiet", "topic")
        repository.git("merge", "--quiet", "--no-edit", main)
        head = repository.head()
    elif case == "empty":
        head = repository.head("main^")
    else:
        monkeypatch.setattr(request_head, "MOST_COMMITS", 1)
    baseline = repository.head("main")
    await mirror.ensure(baseline)
    with pytest.raises(MalformedError) as caught:
        await change_of_head(mirror, head, baseline)
    assert caught.value.reason == expected
