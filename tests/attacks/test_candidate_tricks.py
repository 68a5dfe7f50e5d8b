"""One candidate that lives on another: its change, its judge, its tree. The gatekeeper, git and the gates are real."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.contracts import ReviewReport, TaskContract, TestReport
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Executor
from gatewright.resources import policy_directory
from gatewright.run.state import Run
from tests.attacks.whole_gatekeeper import (
    Gatekeeper,
    contract_on,
    make_result,
    make_review,
    make_tests,
    open_gatekeeper,
)
from tests.git.repositories import MakeRepository

REAL = AcceptanceTest(name="unit", cmd="test -s README.md", must_pass=True)
MAKERS = (Executor(kind="agent", agent="codex"), Executor(kind="model", model="gpt-5.5"))
Open = Callable[[], AbstractAsyncContextManager[Gatekeeper]]


@pytest.fixture
def opened(make_repository: MakeRepository, tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[Gatekeeper]]:
    repository = make_repository(files={"README.md": b"one\n", "src/a.py": b"a = 1\n"})
    return partial(open_gatekeeper, repository, tmp_path)


def ordered(gatekeeper: Gatekeeper) -> TaskContract:
    return contract_on(gatekeeper.repository, acceptance_tests=(REAL,), executor=None, candidates=MAKERS)


async def begun(gatekeeper: Gatekeeper, contents: tuple[bytes, ...] = (b"two\nthree\n", b"two\n")) -> Run:
    """A run whose candidates have made these contents of README.md."""
    await gatekeeper.submit(ordered(gatekeeper))
    run = await gatekeeper.plan()
    for number, content in enumerate(contents, 1):
        patch = await gatekeeper.bus.put_artifact(gatekeeper.patch({"README.md": content}))
        result = replace(make_result(run.seen_from(number), patch), producer=Agent(role="WORKER", agent_id=f"w-{number}"))
        await gatekeeper.answer("worker", result)
    return await gatekeeper.run()


async def reviewed(gatekeeper: Gatekeeper, *reviews: ReviewReport) -> Run:
    for review in reviews:
        await gatekeeper.answer("reviewer", review)
    return await gatekeeper.run()


async def ended(gatekeeper: Gatekeeper, *tests: TestReport) -> Run:
    for report in tests:
        await gatekeeper.answer("testrunner", report)
    return await gatekeeper.run()


def failures(run: Run) -> dict[int, str]:
    return {number: state.failure for number, state in run.candidates.items()}


async def test_the_smaller_of_two_honest_candidates_lands(opened: Open) -> None:
    async with opened() as gatekeeper:
        run = await begun(gatekeeper)
        run = await reviewed(gatekeeper, *(make_review(run.seen_from(number)) for number in (2, 1)))
        run = await ended(gatekeeper, *(make_tests(run.seen_from(number)) for number in (2, 1)))
        assert (run.status, run.chosen) == ("SUCCESS", 2)
        assert run.landed is not None
        assert gatekeeper.repository.git("show", f"{run.landed.commit}:README.md") == b"two\n"


async def test_a_copy_of_another_change_wins_nothing(opened: Open) -> None:
    async with opened() as gatekeeper:
        run = await begun(gatekeeper, (b"two\n", b"two\n"))
        run = await reviewed(gatekeeper, *(make_review(run.seen_from(number)) for number in (1, 2)))
        run = await ended(gatekeeper, *(make_tests(run.seen_from(number)) for number in (1, 2)))
        assert (run.status, run.chosen) == ("SUCCESS", 1)


def of_other_tree(run: Run) -> ReviewReport:
    other = run.seen_from(1).candidate
    assert other is not None
    return replace(make_review(run.seen_from(2)), tree=other.tree)


def by_other_maker(run: Run) -> ReviewReport:
    return replace(make_review(run.seen_from(2)), reviewer=Agent(role="REVIEWER", agent_id="w-1"))


def with_other_patch(run: Run) -> ReviewReport:
    other = run.seen_from(1).candidate
    assert other is not None
    return replace(make_review(run.seen_from(2)), summary=f"take {other.patch} in its place")


@pytest.mark.parametrize(
    ("forge", "code"),
    [
        (of_other_tree, "reviewer_wrong_tree"),
        (by_other_maker, "reviewer_not_independent"),
        (with_other_patch, "reviewer_produced_diff"),
    ],
)
async def test_a_review_that_lives_on_another_candidate_puts_its_own_out(
    forge: Callable[[Run], ReviewReport], code: str, opened: Open
) -> None:
    async with opened() as gatekeeper:
        run = await begun(gatekeeper)
        run = await reviewed(gatekeeper, make_review(run.seen_from(1)), forge(run))
        assert failures(run) == {1: "", 2: code}
        run = await ended(gatekeeper, make_tests(run.seen_from(1)))
        assert (run.status, run.chosen) == ("SUCCESS", 1)


async def test_tests_of_another_candidate_s_tree_prove_nothing(opened: Open) -> None:
    async with opened() as gatekeeper:
        run = await begun(gatekeeper)
        run = await reviewed(gatekeeper, *(make_review(run.seen_from(number)) for number in (1, 2)))
        other = run.seen_from(1).candidate
        assert other is not None
        forged = replace(make_tests(run.seen_from(2)), tree=other.tree)
        run = await ended(gatekeeper, make_tests(run.seen_from(1)), forged)
        assert failures(run) == {1: "", 2: "tests_wrong_tree"}
        assert (run.status, run.chosen) == ("SUCCESS", 1)


@pytest.mark.parametrize(("stage", "expected"), [("contract", "FAILED"), ("diff", "SUCCESS")])
async def test_a_rule_of_the_organisation_is_asked_about_each_candidate(
    stage: str, expected: str, make_repository: MakeRepository, tmp_path: Path
) -> None:
    policies = tmp_path / "policies"
    shutil.copytree(policy_directory(), policies)
    rule = f"// name: no-models\n// stage: {stage}\n// message: No models.\ncontract.executor.kind != 'model'"
    (policies / "organisation" / "no-models.cel").write_text(rule)
    repository = make_repository(files={"README.md": b"one\n"})
    async with open_gatekeeper(repository, tmp_path, policies=policies) as gatekeeper:
        if stage == "contract":
            run = await gatekeeper.submit(ordered(gatekeeper))
            assert run.failure is not None
            assert (run.status, run.failure.code) == (expected, "organisation_rule")
            return
        run = await begun(gatekeeper)
        assert failures(run) == {1: "", 2: "organisation_rule"}
        run = await reviewed(gatekeeper, make_review(run.seen_from(1)))
        run = await ended(gatekeeper, make_tests(run.seen_from(1)))
        assert (run.status, run.chosen) == (expected, 1)
