"""What a forge should show follows from the ledger alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gatewright.app.forge.desired import is_of, request_number
from gatewright.app.forge.port import CheckState
from gatewright.contracts.vocabulary import LandingMode
from tests.evidence.recorded_runs import COMMIT, START
from tests.forge.outward.runs import ENTRY, HEAD, ForgeRun, entry_with, view_of, wanted

OTHER = "c" * 40


def judged(**changes: object) -> ForgeRun:
    return ForgeRun(key="judged", number=7, **changes)  # type: ignore[arg-type]


def test_a_judged_head_is_pending_from_its_acceptance() -> None:
    run = judged()
    run.accept()
    check = view_of(run).check(HEAD)
    assert check is not None
    assert check.state is CheckState.PENDING


def test_success_needs_a_sealed_bundle() -> None:
    run = judged().succeed(sealed=False)
    check = view_of(run).check(HEAD)
    assert check is not None
    assert check.state is CheckState.PENDING
    run.seal()
    check = view_of(run).check(HEAD)
    assert check is not None
    assert (check.state, check.commit) == (CheckState.SUCCESS, HEAD)


def test_another_commit_has_no_check() -> None:
    view = view_of(judged().succeed())
    assert view.check(OTHER) is None
    assert not view.proven(OTHER)


@pytest.mark.parametrize(
    ("code", "state"),
    [("tests_failed", CheckState.FAILURE), ("git_timeout", CheckState.ERROR), ("path_out_of_scope", CheckState.FAILURE)],
)
def test_a_failed_run_names_its_reason(code: str, state: CheckState) -> None:
    check = view_of(judged().fail(code)).check(HEAD)
    assert check is not None
    assert (check.state, code in check.summary) == (state, True)


def test_a_landed_commit_of_any_publisher_is_proven() -> None:
    run = ForgeRun(key="landed", publisher="default").succeed()
    check = view_of(run).check(COMMIT)
    assert check is not None
    assert check.state is CheckState.SUCCESS


def test_a_run_of_another_publisher_proves_no_head() -> None:
    view = view_of(judged(publisher="default").succeed())
    assert view.check(HEAD) is None


def test_a_run_that_landed_nowhere_proves_the_head_alone() -> None:
    view = view_of(judged().succeed(mode="none", ref=""))
    assert view.proven(HEAD)
    assert view.check(COMMIT) is None


@pytest.mark.parametrize("later", ["running", "failed"])
def test_a_later_run_does_not_withdraw_a_proof(later: str) -> None:
    first = judged().succeed()
    second = ForgeRun(key="second", number=7, start=START + timedelta(hours=1))
    _ = second.begin() if later == "running" else second.fail()
    check = view_of(first, second).check(HEAD)
    assert check is not None
    assert check.state is CheckState.SUCCESS


def test_the_newest_run_decides_about_an_unproven_commit() -> None:
    first = judged().fail()
    second = ForgeRun(key="second", number=7, start=START + timedelta(hours=1)).begin()
    check = view_of(first, second).check(HEAD)
    assert check is not None
    assert check.state is CheckState.PENDING


def test_a_run_on_its_own_branch_wants_a_request() -> None:
    run = ForgeRun(key="own", publisher="default", words="Draft: tidy up @ana, closes #3").succeed()
    found = wanted(run)
    assert found.request is not None
    assert (found.request.head_branch, found.request.base) == (f"gatewright/{run.run_id}", "main")
    assert found.request.title == "Draft tidy up ana, closes 3"
    assert found.marker in found.request.body
    assert (found.commit, found.number) == (COMMIT, None)


@pytest.mark.parametrize("mode", ["target", "queue"])
def test_a_run_that_landed_on_the_target_wants_no_request(mode: LandingMode) -> None:
    assert wanted(ForgeRun(key="own").succeed(mode=mode, ref="refs/heads/main")).request is None


def test_an_entry_without_requests_opens_none() -> None:
    assert wanted(ForgeRun(key="own").succeed(), entry=entry_with(requests=False)).request is None


def test_a_judged_run_belongs_to_its_request() -> None:
    found = wanted(judged().succeed())
    assert (found.number, found.request, found.commit) == (7, None, HEAD)
    assert set(found.checks) == {HEAD, COMMIT}


@pytest.mark.parametrize(("merge", "merges"), [("never", False), ("forge", True), ("gatekeeper", False)])
def test_only_the_rule_forge_merges(merge: str, merges: bool) -> None:
    entry = entry_with(merge=merge)  # type: ignore[arg-type]
    assert wanted(judged().succeed(), entry=entry).merge is merges


def test_an_unproven_head_is_never_merged() -> None:
    assert not wanted(judged().succeed(sealed=False), entry=entry_with(merge="forge")).merge
    assert not wanted(judged().fail(), entry=entry_with(merge="forge")).merge


def test_a_request_ends_when_the_gatekeeper_has_landed_it_on_the_target() -> None:
    entry = entry_with(merge="gatekeeper", landing="target")
    assert wanted(judged().succeed(mode="target", ref="refs/heads/main"), entry=entry).close
    assert not wanted(judged().succeed(), entry=entry).close


def test_the_comment_names_verdict_gates_tests_and_bundle() -> None:
    comment = wanted(judged().succeed()).comment
    for words in ("passed", "Gates passed:", "Tests: PASS, 2 of 2", f"`sha256:{'f' * 64}`", f"`{HEAD}`", "gatewright verify"):
        assert words in comment


def test_the_comment_stays_the_same_while_the_run_works() -> None:
    run = judged()
    run.accept()
    first = wanted(run).comment
    run.plan()
    run.work()
    assert wanted(run).comment == first


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/srv/project", True),
        ("/srv/project/", True),
        ("/srv/project.git", True),
        ("/srv/project/below", False),
        ("/srv/other", False),
        ("https://git.example.org/srv/project", False),
        ("ext::sh -c x", False),
    ],
)
def test_runs_of_other_repositories_do_not_belong_to_an_entry(address: str, expected: bool) -> None:
    assert is_of(ENTRY, address) is expected


@pytest.mark.parametrize(
    ("ref", "number"),
    [
        ("refs/pull/7/head", 7),
        ("refs/merge-requests/12/head", 12),
        ("refs/pull/7/merge", None),
        ("refs/heads/7/head", None),
        ("refs/pull/x/head", None),
        ("", None),
    ],
)
def test_a_number_comes_from_the_ref_of_a_request(ref: str, number: int | None) -> None:
    assert request_number(ref) == number
