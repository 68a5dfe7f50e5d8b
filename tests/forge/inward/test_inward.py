"""From a change request to the run that judges its exact head: one run for each head, and none by anything else."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from gatewright.app.forge.inward import Ordered, Skipped, SkipReason
from gatewright.contracts.vocabulary import SourceBranch
from tests.forge.inward.conftest import REF, JudgedProject
from tests.forge.inward.known_forge import make_request


async def skipped(project: JudgedProject) -> SkipReason:
    outcome = await project.inward.judge(7)
    assert isinstance(outcome, Skipped)
    assert not await project.intake.runs()
    return outcome.reason


async def test_the_run_judges_the_exact_head(project: JudgedProject) -> None:
    head = project.repository.head(REF)
    outcome = await project.inward.judge(7)
    assert isinstance(outcome, Ordered)
    run = await project.intake.run(outcome.run_id)
    assert run is not None
    assert run.failure is None, run.failure
    assert run.request is not None
    authors = ("A. Person <person@example.org>",)
    base = project.repository.head("main")
    expected = SourceBranch(name=REF, head=head, base=base, commits=1, authors=authors, ref=REF)
    assert run.request.source_branch == expected
    assert run.accepted.baseline_commit == base


async def test_fifty_deliveries_are_one_run(project: JudgedProject) -> None:
    outcomes = await asyncio.gather(*(project.inward.judge(7) for _ in range(50)))
    assert len({outcome.run_id for outcome in outcomes if isinstance(outcome, Ordered)}) == 1
    assert len(await project.intake.runs()) == 1
    await project.read_ledger()
    outcome = await project.inward.judge(7)
    assert isinstance(outcome, Skipped)
    assert outcome.reason == SkipReason.HAS_RUN


async def test_a_changed_text_or_target_orders_no_second_run(project: JudgedProject) -> None:
    first = await project.inward.judge(7)
    assert isinstance(first, Ordered)
    project.forge.requests[7] = dataclasses.replace(project.forge.requests[7], title="Another title")
    project.repository.commit({"docs.md": b"later\n"})
    assert await project.inward.judge(7) == dataclasses.replace(first, repeated=True)
    assert len(await project.intake.runs()) == 1


async def test_a_comment_changes_nothing(project: JudgedProject) -> None:
    await project.inward.judge(7)
    await project.read_ledger()
    (before,) = project.rows
    for words in ("/gatewright approve", "/gatewright retry", "@gatewright land this", f"approve {before.run_id}"):
        project.forge.comments.append(words)
        assert isinstance(await project.inward.judge(7), Skipped)
    project.rows.clear()
    await project.read_ledger()
    assert project.rows == [before]


@pytest.mark.parametrize(("code", "repeated"), [("git_timeout", True), ("tests_failed", False)])
async def test_a_run_that_a_fault_ended_is_repeated_once(project: JudgedProject, code: str, repeated: bool) -> None:
    first = await project.inward.judge(7)
    assert isinstance(first, Ordered)
    await project.read_ledger()
    (row,) = project.rows
    project.rows[:] = [dataclasses.replace(row, stage="failed", state="FAILED", code=code, finished_at="2026-01-02T03:04:05Z")]
    outcomes = await asyncio.gather(*(project.inward.judge(7) for _ in range(10)))
    runs = {outcome.run_id for outcome in outcomes if isinstance(outcome, Ordered)}
    assert len(runs) == repeated
    assert first.run_id not in runs
    assert len(await project.intake.runs()) == 1 + repeated


async def test_each_new_head_has_a_run_of_its_own(project: JudgedProject) -> None:
    outcomes = [await project.inward.judge(7)]
    project.push(b"one\n3\nthree\n")
    outcomes += [await project.inward.judge(7)]
    assert len({outcome.run_id for outcome in outcomes if isinstance(outcome, Ordered)}) == 2


async def test_a_head_missing_from_the_ref_is_not_judged(project: JudgedProject) -> None:
    project.forge.requests[7] = make_request(head=project.repository.head("main"))
    assert await skipped(project) == SkipReason.MOVED
    project.repository.git("update-ref", "-d", REF)
    assert await skipped(project) == SkipReason.MOVED


async def test_a_request_without_a_change_is_not_judged(project: JudgedProject) -> None:
    project.repository.git("update-ref", REF, "main")
    project.forge.requests[7] = make_request(head=project.repository.head("main"))
    assert await skipped(project) == SkipReason.UNFIT


@pytest.mark.every_case
@pytest.mark.parametrize("reason", [SkipReason.AUTHOR, SkipReason.FORK, SkipReason.CLOSED, SkipReason.MISSING])
async def test_a_request_that_the_policy_excludes_is_not_fetched(project: JudgedProject, reason: SkipReason) -> None:
    request = project.forge.requests.pop(7)
    changes = {
        SkipReason.AUTHOR: {"author": "mallory"},
        SkipReason.FORK: {"fork": True},
        SkipReason.CLOSED: {"state": "closed"},
    }
    if reason in changes:
        project.forge.requests[7] = dataclasses.replace(request, **changes[reason])  # type: ignore[arg-type]
    project.repository.git("update-ref", "-d", REF)
    assert await skipped(project) == reason


async def test_an_odd_request_is_skipped_without_an_error(project: JudgedProject) -> None:
    repository = project.repository
    good = project.forge.requests.pop(7)
    blob = repository.git("rev-parse", "main:README.md").decode().strip()
    repository.git("update-ref", "refs/pull/5/head", blob)
    odd = {
        4: {"head_ref": "--upload-pack=touch", "head": good.head},
        5: {"head_ref": "refs/pull/5/head", "head": blob},
        6: {
            "head_ref": REF,
            "head": good.head,
            "body": "-----BEGIN OPENSSH PRIVATE KEY-----\n" + "b3BlbnNzaC1rZXktdjEAAAAA\n" * 20,
        },
    }
    project.forge.requests |= {number: make_request(number=number, **changes) for number, changes in odd.items()} | {7: good}
    outcomes = {number: await project.inward.judge(number) for number in (4, 5, 6, 7)}
    reasons = [outcome.reason for outcome in outcomes.values() if isinstance(outcome, Skipped)]
    assert reasons[:2] == [SkipReason.UNFIT, SkipReason.UNREADABLE]
    assert isinstance(outcomes[7], Ordered)
