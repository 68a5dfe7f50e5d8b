"""What is done again: the order of a bundle that verifies, landing nowhere; and what the comparison calls the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.app.replay.reexecution import compare, read_order
from gatewright.contracts import RunRequest
from gatewright.errors import MalformedError, VerificationError
from gatewright.evidence import layout
from gatewright.evidence.signing import keys
from gatewright.run.state import RunFailure
from tests.evidence.conftest import MakeBundle
from tests.evidence.recorded_runs import MAKERS
from tests.evidence.tampering import put, remake_manifest

WHEN = "2026-01-02T03:04:05Z"


def test_the_repeated_order_uses_its_own_commit_and_lands_nowhere(
    sealed_bundles: dict[str, Path], private_key: keys.PrivateKey
) -> None:
    run, order = read_order(sealed_bundles["success"], [private_key.public], "elsewhere")
    assert isinstance(order.document, RunRequest)
    assert run.request
    assert order.document.repository == replace(run.request.repository, url="elsewhere", landing="none")
    assert order.document.baseline_ref == run.accepted.baseline_commit
    assert order.document.idempotency_key is None
    assert [artifact for artifact, _ in order.attachments] == list(run.request.artifacts)


def test_a_forged_order_is_not_carried_out(make_bundle: MakeBundle, private_key: keys.PrivateKey) -> None:
    bundle = make_bundle("success")
    put(bundle / layout.REQUEST, (bundle / layout.REQUEST).read_bytes().replace(b"src", b"etc"))
    remake_manifest(bundle)
    with pytest.raises(VerificationError) as caught:
        read_order(bundle, [private_key.public])
    assert caught.value.reason == "bundle_not_verified"


def test_without_a_trusted_key_nothing_is_run(sealed_bundles: dict[str, Path]) -> None:
    with pytest.raises(VerificationError):
        read_order(sealed_bundles["success"], [])


def test_an_aborted_run_has_nothing_to_compare_with(sealed_bundles: dict[str, Path], private_key: keys.PrivateKey) -> None:
    with pytest.raises(MalformedError) as caught:
        read_order(sealed_bundles["aborted"], [private_key.public])
    assert caught.value.reason == "not_reexecutable"


def test_the_same_result_passes_in_full() -> None:
    report = compare(MAKERS["success"]().run, MAKERS["success"]().run, WHEN)
    assert (report.status, report.hard_diffs, report.soft_diffs) == ("pass", (), ())


def test_another_patch_other_tests_or_another_end_are_hard() -> None:
    run = MAKERS["success"]().run
    assert run.candidate
    assert run.tests
    command = replace(run.tests.commands[0], exit_code=7)
    others = {
        "patch.diff": replace(run, candidate=replace(run.candidate, patch="artifact:sha256:" + "0" * 64)),
        "candidate.tree": replace(run, candidate=replace(run.candidate, tree="9" * 40)),
        "tests": replace(run, tests=replace(run.tests, commands=(command, *run.tests.commands[1:]))),
        "status": replace(run, state="FAILED"),
        "failure.code": replace(run, failure=RunFailure("tests_failed", "no")),
        "attempts": replace(run, attempt=2),
    }
    for key, other in others.items():
        report = compare(run, other, WHEN)
        assert report.status == "fail"
        assert key in {difference.key for difference in report.hard_diffs}


def test_other_words_versions_and_much_longer_times_are_soft() -> None:
    run = MAKERS["success"]().run
    assert run.tests
    slow = replace(run.tests.commands[0], duration_sec=run.tests.commands[0].duration_sec + 60, stdout="artifact:other")
    other = replace(
        run,
        tests=replace(run.tests, commands=(slow, *run.tests.commands[1:])),
        accepted=replace(run.accepted, policy_sha256="0" * 64, versions={**run.accepted.versions, "git": "0.1"}),
    )
    report = compare(run, other, WHEN)
    assert report.status == "pass"
    assert not report.soft_equal_pass
    assert {difference.key for difference in report.soft_diffs} >= {
        "policy_sha256",
        "versions.git",
        "tests.1.stdout",
        "tests.1.duration_sec",
    }


def test_differing_mutants_are_soft_differences_and_untried_ones_none() -> None:
    run = MAKERS["success"]().run
    assert run.tests
    first = run.tests.commands[0]
    assert first.proof
    assert first.proof.mutation
    killed = tuple(replace(mutant, outcome="killed") for mutant in first.proof.mutation.mutants)
    for mutants, told in ((killed, True), (first.proof.mutation.mutants[:1], False)):
        proof = replace(first.proof, mutation=replace(first.proof.mutation, mutants=mutants))
        tests = replace(run.tests, commands=(replace(first, proof=proof), *run.tests.commands[1:]))
        report = compare(run, replace(run, tests=tests), WHEN)
        assert report.status == "pass"
        assert ("tests.1.mutants" in {difference.key for difference in report.soft_diffs}) is told
