"""Test reports that say more than was done, judged by the real tests gate on a real candidate."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from gatewright.bus.port import Message
from gatewright.bus.topology import Role, result_subject
from gatewright.contracts import TestReport
from gatewright.contracts.reports import TestSummary
from gatewright.contracts.vocabulary import Agent, Surroundings
from gatewright.errors import MalformedError
from gatewright.resources import schema_directory
from gatewright.services.gatekeeper.intake.result_consumer import answer_of
from tests.attacks.real_gate import RealGate, artifact, codes, evidence, make_test, make_test_report, open_gate, ran
from tests.git.repositories import MakeRepository

UNIT, LINT, SLOW = make_test("unit"), make_test("lint", must_pass=False), make_test("slow", may_rerun=True)


@pytest.fixture
async def gate(make_repository: MakeRepository, tmp_path: Path) -> AsyncIterator[RealGate]:
    async with open_gate(make_repository(), tmp_path, acceptance_tests=(UNIT, LINT, SLOW)) as opened:
        yield opened


@pytest.fixture
async def honest(gate: RealGate) -> TestReport:
    """What an honest test runner says of the candidate."""
    tree = await gate.compose(gate.patch({"src/app.py": b"two\n"}))
    return make_test_report(tree, ran(UNIT), ran(LINT), ran(SLOW))


async def test_an_honest_report_passes(gate: RealGate, honest: TestReport) -> None:
    report = await gate.tests(honest)
    assert (report.verdict, report.summary) == ("PASS", "passed")
    assert evidence(report)["unit.exit"] == "0"


Lie = Callable[[TestReport], TestReport]


def commands(*runs: object) -> Lie:
    return lambda honest: replace(honest, commands=runs)


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (commands(), "tests_incomplete"),
        (commands(ran(UNIT), ran(LINT)), "tests_incomplete"),
        (commands(ran(LINT), ran(UNIT), ran(SLOW)), "tests_incomplete"),
        (commands(ran(UNIT), ran(LINT), ran(SLOW), ran(UNIT)), "tests_incomplete"),
        (commands(ran(UNIT, cmd_argv=("python3", "empty.py")), ran(LINT), ran(SLOW)), "tests_incomplete"),
        (commands(ran(UNIT, cmd_argv=("python3", "unit.py", "--help")), ran(LINT), ran(SLOW)), "tests_incomplete"),
        (commands(ran(UNIT, must_pass=False), ran(LINT), ran(SLOW)), "tests_incomplete"),
        (commands(ran(UNIT, name="other"), ran(LINT), ran(SLOW)), "tests_incomplete"),
        (commands(ran(UNIT, timeout_sec=3600), ran(LINT), ran(SLOW)), "tests_incomplete"),
        (commands(ran(UNIT, run=2), ran(LINT), ran(SLOW)), "tests_incomplete"),
        (commands(ran(UNIT, 1), ran(UNIT, run=2), ran(LINT), ran(SLOW)), "rerun_not_allowed"),
        (commands(ran(UNIT), ran(LINT), ran(SLOW), ran(SLOW, run=2)), "rerun_not_allowed"),
        (commands(ran(UNIT), ran(LINT), ran(SLOW, 1), ran(SLOW, 1, run=2), ran(SLOW, run=2)), "tests_incomplete"),
        (commands(ran(UNIT, 1), ran(LINT), ran(SLOW)), "tests_failed"),
        (commands(ran(UNIT, timed_out=True), ran(LINT), ran(SLOW)), "tests_failed"),
        (commands(ran(UNIT, stopped="memory"), ran(LINT), ran(SLOW)), "tests_failed"),
        (commands(ran(UNIT), ran(LINT), ran(SLOW, 1)), "tests_failed"),
        (commands(ran(UNIT), ran(LINT), ran(SLOW, 1), ran(SLOW, 1, run=2)), "tests_failed"),
        (lambda honest: replace(honest, status="SKIPPED"), "tests_failed"),
        (lambda honest: replace(honest, status="ERROR", failure="sandbox_unavailable: none here"), "sandbox_unavailable"),
        (lambda honest: replace(honest, status="ERROR", failure="it just did not work"), "tests_not_run"),
        (lambda honest: replace(honest, tree="1" * 40), "tests_wrong_tree"),
        (lambda honest: replace(honest, tree=None), "tests_wrong_tree"),
        (
            lambda honest: replace(honest, surroundings=Surroundings(versions={}, host={}, image=f"x@sha256:{5:064x}")),
            "tests_wrong_image",
        ),
        (lambda honest: replace(honest, runner=Agent(role="WORKER", agent_id="worker-1")), "tests_not_run"),
        (lambda honest: replace(honest, summary=TestSummary(passed=9, failed=0, skipped=0)), "report_contradicts"),
    ],
)
async def test_a_report_that_does_not_hold_is_refused(lie: Lie, code: str, gate: RealGate, honest: TestReport) -> None:
    report = await gate.tests(lie(honest))
    assert (report.verdict, report.code) == ("FAIL", code)


async def test_the_tree_of_another_candidate_is_refused(gate: RealGate, honest: TestReport) -> None:
    """The report is about a real tree, tested in earnest: that of a patch which was not composed."""
    mirror = await gate.gates.mirrors.open(gate.repository.url)
    other = await mirror.apply(gate.run.accepted.baseline_commit, gate.patch({"src/app.py": b"assert True\n"}))
    assert codes(await gate.tests(replace(honest, tree=other))) == ["tests_wrong_tree"]
    assert codes(await gate.tests(replace(honest, tree=gate.run.accepted.baseline_tree))) == ["tests_wrong_tree"]


async def test_a_pass_after_a_failure_is_named_as_flaky(gate: RealGate, honest: TestReport) -> None:
    report = await gate.tests(replace(honest, commands=(ran(UNIT), ran(LINT, 1), ran(SLOW, 1), ran(SLOW, run=2))))
    assert report.verdict == "PASS"
    assert evidence(report)["flaky"] == "slow"
    assert (evidence(report)["slow.exit"], evidence(report)["slow.run2.exit"]) == ("1", "0")
    assert "flaky: slow passed when it was run again" in report.summary


async def test_output_that_was_never_stored_is_refused(gate: RealGate, honest: TestReport) -> None:
    ghost = "artifact:sha256:" + "0" * 64
    report = await gate.tests(replace(honest, commands=(ran(UNIT, stdout=ghost), ran(LINT), ran(SLOW))))
    assert codes(report) == ["artifact_missing"]


async def test_edits_by_the_commands_are_shown_and_do_not_land(gate: RealGate, honest: TestReport) -> None:
    note = await gate.bus.put_artifact(b"src/app.py\n")
    before = gate.run.candidate
    report = await gate.tests(replace(honest, artifacts=(artifact("workspace_changes", note),)))
    assert report.verdict == "PASS"
    assert evidence(report)["workspace_changes"] == note.rpartition(":")[2]
    assert report.summary == "passed; commands edited files of the candidate, and these edits do not land"
    assert gate.run.candidate == before


async def test_a_contract_without_a_test_that_must_pass_proves_nothing(make_repository: MakeRepository, tmp_path: Path) -> None:
    async with open_gate(make_repository(), tmp_path, acceptance_tests=(LINT,)) as gate:
        tree = await gate.compose(gate.patch({"src/app.py": b"two\n"}))
        assert codes(await gate.tests(make_test_report(tree, ran(LINT)))) == ["tests_not_run"]


@pytest.mark.parametrize(
    ("role", "name"),
    [("worker", "task_result.v1"), ("reviewer", "review_report.v1"), ("testrunner", "test_report.v1")],
)
def test_an_answer_in_another_systems_form_is_never_judged(role: Role, name: str) -> None:
    """A reference to a file for an artifact's digest, a verdict without violations: nothing that a gate could look up."""
    for example in (schema_directory() / "cortexpilot" / "examples" / name / "valid").iterdir():
        with pytest.raises(MalformedError) as refusal:
            answer_of(Message(result_subject(role), example.read_bytes(), {"Gw-Schema": name}, sequence=1))
        assert refusal.value.reason == "cortexpilot_form"
        assert refusal.value.faults


async def test_a_hidden_first_run_cannot_be_seen(gate: RealGate, honest: TestReport) -> None:
    """What is not stopped: a test runner that runs a command twice and reports the second run as the first."""
    assert (await gate.tests(honest)).verdict == "PASS"
