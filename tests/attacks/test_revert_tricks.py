"""A publisher that calls another change a revert, so that its commit would name a run that it does not take back."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts.vocabulary import RevertedRun
from gatewright.run.state import Run
from tests.attacks.people import open_inbox, signed
from tests.attacks.test_pipeline_approvals import CI, FILES, WORKFLOW, worked
from tests.attacks.whole_gatekeeper import Gatekeeper, contract_on, open_gatekeeper
from tests.gatekeeper.publishing import HandClock
from tests.git.conftest import first_repository, make_repository
from tests.git.repositories import MakeRepository, Repository

__all__ = ["first_repository", "make_repository"]

LANDED = "run-landed0001"


@pytest.fixture
def repository(make_repository: MakeRepository) -> Repository:
    """A run has landed a change of README.md, and docs.md came later."""
    repository = make_repository()
    repository.commit({"README.md": b"landed\n"}, f"landed\n\nGatewright-Run: {LANDED}\n")
    repository.commit({"docs.md": b"later\n"})
    return repository


async def work(gatekeeper: Gatekeeper, content: bytes, *, run_id: str = LANDED, commit: str = "HEAD^") -> Run:
    repository = gatekeeper.repository
    contract = contract_on(repository)
    reverts = RevertedRun(run_id=run_id, commit=commit if len(commit) == 40 else repository.head(commit))
    inputs = replace(contract.inputs, spec=f"Revert: say that it landed\n\nIt reverts {run_id}: too loud.")
    await gatekeeper.submit(replace(contract, inputs=inputs, reverts=reverts))
    await gatekeeper.plan()
    return await gatekeeper.work(gatekeeper.patch({"README.md": content}))


async def test_another_change_is_no_revert(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await work(gatekeeper, b"read me\nand more\n")
        assert run.failure is not None
        assert run.failure.code == "revert_differs"
        assert gatekeeper.nothing_landed()


async def test_the_commit_of_another_run_is_no_revert(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await work(gatekeeper, b"read me\n", run_id="run-another001")
        assert run.failure is not None
        assert run.failure.code == "revert_differs"


async def test_a_missing_commit_is_no_revert(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await work(gatekeeper, b"read me\n", commit="8" * 40)
        assert run.failure is not None
        assert run.failure.code == "revert_differs"


async def test_a_revert_of_ci_files_asks_for_approval_as_any_change(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository(files=FILES)
    repository.commit({WORKFLOW: b"on: [push, pull_request]\n"}, f"landed\n\nGatewright-Run: {LANDED}\n")
    reverts = RevertedRun(run_id=LANDED, commit=repository.head())
    async with open_inbox(repository, tmp_path, CI, clock=HandClock()) as inbox:
        run = await worked(inbox, {WORKFLOW: FILES[WORKFLOW]}, reverts=reverts)
        assert (run.parked, inbox.gatekeeper.nothing_landed()) == (True, True), run.failure
        await inbox.decide(signed(await inbox.said()))
        run = await inbox.run()
    assert run.landed is not None
    assert f"Gatewright-Reverts: {LANDED}" in repository.git("log", "-1", "--format=%B", run.landed.commit).decode()


async def test_the_inverse_lands_and_its_commit_names_the_reverted_run(repository: Repository, tmp_path: Path) -> None:
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        await work(gatekeeper, b"read me\n")
        await gatekeeper.review()
        run = await gatekeeper.test()
    assert run.landed is not None, run.failure
    message = repository.git("log", "-1", "--format=%B", run.landed.commit).decode()
    assert message.startswith("Revert: say that it landed\n\n")
    assert f"Gatewright-Reverts: {LANDED}\n" in message
