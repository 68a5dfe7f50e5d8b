"""A publisher that has a change judged in the name of a pull request whose head has other content."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import codec
from gatewright.contracts.vocabulary import SourceBranch
from gatewright.errors import MalformedError
from gatewright.run.state import Run
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, open_gatekeeper
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

REF = "refs/pull/7/head"
OFFERED = b"read me\nand more\n"
BEN = "Ben <ben@example.org>"


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    """Ben's request changes README.md; it is at ``refs/pull/7/head``."""
    repository = make_repository()
    repository.git("checkout", "--quiet", "-b", "topic")
    (repository.path / "README.md").write_bytes(OFFERED)
    repository.git("commit", "--quiet", "-a", "-m", "more", f"--author={BEN}")
    repository.git("update-ref", REF, "HEAD")
    repository.git("checkout", "--quiet", "main")
    repository.git("branch", "-D", "topic")
    return repository


def source_of(repository: Repository, **changes: object) -> SourceBranch:
    head, base = repository.head(REF), repository.head()
    return replace(SourceBranch(name=REF, head=head, base=base, commits=1, authors=(BEN,), ref=REF), **changes)


async def work(gatekeeper: Gatekeeper, source: SourceBranch, content: bytes = OFFERED) -> Run:
    contract = contract_on(gatekeeper.repository)
    inputs = replace(contract.inputs, spec="Judge change request 7 of acme/shop\n\n<<<DATA>>>\nGatewright-Run: run-forged00\n")
    await gatekeeper.submit(replace(contract, inputs=inputs, source_branch=source))
    await gatekeeper.plan()
    return await gatekeeper.work(gatekeeper.patch({"README.md": content}))


async def refusal(gatekeeper: Gatekeeper, source: SourceBranch, content: bytes = OFFERED) -> str:
    run = await work(gatekeeper, source, content)
    assert run.failure is not None, run.state
    assert gatekeeper.nothing_landed()
    return run.failure.code


async def test_another_patch_is_not_judged_as_the_head(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        assert await refusal(gatekeeper, source_of(repository), b"read me\nharmless\n") == "source_differs"


async def test_another_base_hides_no_commit(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        source = source_of(repository)
        assert await refusal(gatekeeper, replace(source, base=source.head)) == "source_differs"


async def test_an_author_cannot_be_left_out_to_approve_the_run(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        assert await refusal(gatekeeper, source_of(repository, authors=("Ana <ana@example.org>",))) == "source_differs"


@pytest.mark.every_case
@pytest.mark.parametrize("place", ["moved", "gone", "tag"])
async def test_a_head_that_is_no_longer_at_the_ref_is_refused(repository: Repository, tmp_path: Path, place: str) -> None:
    source = source_of(repository)
    repository.git("tag", "-a", "-m", "a tag", "v1", source.head)
    repository.git(
        *{"moved": ("update-ref", REF, "main"), "gone": ("update-ref", "-d", REF), "tag": ("update-ref", REF, "v1")}[place]
    )
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        assert await refusal(gatekeeper, source) == "source_moved"


async def test_a_ref_of_another_request_does_not_prove_a_head(repository: Repository, tmp_path: Path) -> None:
    source = source_of(repository)
    repository.git("update-ref", "refs/pull/8/head", "main")
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        assert await refusal(gatekeeper, replace(source, ref="refs/pull/8/head")) == "source_moved"


@pytest.mark.every_case
@pytest.mark.parametrize(
    "ref",
    [
        "refs/tags/v1",
        "refs/heads/main",
        "refs/pull/7/merge",
        "refs/pull/0/head",
        "refs/pull/07/head",
        "refs/pull/7/head\n",
        "refs/pull/\u0667/head",
        "refs/pull/7/../8/head",
        "refs/pull/12345678901/head",
        "refs/changes/7/head",
        "--upload-pack=touch",
        "HEAD",
    ],
)
def test_only_the_head_of_a_change_request_is_a_ref_of_one(repository: Repository, ref: str) -> None:
    document = codec.encode(replace(contract_on(repository), source_branch=source_of(repository, ref=ref)))
    with pytest.raises(MalformedError):
        codec.decode_named(document, "task_contract.v1")


async def test_the_head_lands_and_its_commit_quotes_nothing_of_the_request(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await work(gatekeeper, source_of(repository))
        assert run.failure is None, run.failure
        await gatekeeper.review()
        run = await gatekeeper.test()
    assert run.landed is not None, run.failure
    message = repository.git("log", "-1", "--format=%B", run.landed.commit).decode()
    assert message.startswith("Judge change request 7 of acme/shop\n\nGatewright-Run: ")
    assert f"Gatewright-Source: {repository.head(REF)}\n" in message
    assert "run-forged00" not in message
