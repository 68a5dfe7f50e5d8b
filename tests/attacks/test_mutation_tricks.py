"""Attacks on the sample of mutants: who says how many are tried is the policy, not the contract and not its pm."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from gatewright.contracts.vocabulary import AcceptanceTest, MutationBounds
from gatewright.contracts.vocabulary import Repository as RepositoryField
from tests.attacks.whole_gatekeeper import RUN, contract_on, open_gatekeeper
from tests.factories import make_contract, make_request
from tests.git.repositories import MakeRepository

NONE_AT_ALL = MutationBounds(time_share=0, least_seconds=0, most_mutants=1, must_kill=0)


async def test_a_publisher_cannot_lower_the_number_of_mutants(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    test = AcceptanceTest(name="unit", cmd="python -m pytest", must_pass=True)
    contract = contract_on(repository, mutation=NONE_AT_ALL, policy_pack="medium", acceptance_tests=(test,))
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(contract)
        assert run.failure is None, run.failure
        assert run.contract is not None
        assert run.contract.mutation is None
        asked = run.accepted.mutation
        assert asked is not None
        assert (asked.most_mutants, asked.time_share) == (12, 0.5)
        await gatekeeper.plan()
        await gatekeeper.work(gatekeeper.patch({"README.md": b"read me again\n"}))
        run = await gatekeeper.review()
        told = {task.role: task.contract.mutation for task in run.tasks.values() if task.contract is not None}
        assert told == {"techlead": None, "worker": None, "reviewer": None, "testrunner": asked}


async def test_a_pm_that_lowers_the_number_of_mutants_is_refused(make_repository: MakeRepository, tmp_path: Path) -> None:
    repository = make_repository()
    test = AcceptanceTest(name="unit", cmd="python -m pytest", must_pass=True)
    words = {"repository": RepositoryField(url=repository.url), "allowed_paths": ("README.md",), "acceptance_tests": (test,)}
    async with open_gatekeeper(repository, tmp_path) as gatekeeper:
        run = await gatekeeper.submit(make_request(**words, policy_pack="medium"))
        fewer = make_contract(RUN, **words, policy_pack="medium", mutation=NONE_AT_ALL)
        fewer = replace(fewer, rollback=replace(fewer.rollback, baseline_ref=run.accepted.baseline_commit))
        run = await gatekeeper.answer("pm", fewer)
        assert run.failure is not None
        assert run.failure.code == "contract_differs"
        assert "mutation" in run.failure.message
