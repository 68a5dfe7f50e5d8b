"""Tests that pass without their change, judged by the policy pack and the order, and reports that contradict themselves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gatewright.contracts import TaskContract
from gatewright.contracts.reports import RedFirst, TestCommand, TestCounts, TestProof, TestReport
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, TestPurpose
from gatewright.rules.reports.proof import broken_by_red_first, in_words, proof_clauses, red_first_in_words
from gatewright.rules.reports.proof_facts import broken_by_facts
from gatewright.rules.reports.tests import Ordered
from tests.factories import make_contract

FOUND = RedFirst(tests=4, failed_count=3, passed_count=1, passed=("tests/test_a.py::test_b",))


def ordered(red: RedFirst | None, *, must_pass: bool = True, hidden: bool = False) -> Ordered:
    proof = TestProof(
        framework="pytest", complete=True, counts=TestCounts(passed=5, failed=0, skipped=0), table="data:,a", red_first=red
    )
    command = TestCommand(
        name="unit",
        cmd_argv=("pytest",),
        must_pass=must_pass,
        timeout_sec=60,
        exit_code=0,
        duration_sec=1,
        stdout="",
        stderr="",
        proof=proof,
    )
    return Ordered(AcceptanceTest(name="unit", cmd="pytest", must_pass=must_pass, hidden=hidden), (command,))


def contract(tests: TestPurpose = "change") -> TaskContract:
    return replace(make_contract(), tests=tests)


def broken(one: Ordered, tests: TestPurpose = "change") -> list[tuple[str, bytes | None, str]]:
    found = broken_by_red_first((one,), contract(tests))
    return [(each.code, each.path, each.detail) for each in found]


def test_a_test_that_passes_without_the_change_is_named() -> None:
    detail = "unit: pass without the change: tests/test_a.py::test_b"
    assert broken(ordered(FOUND)) == [("passes_without_change", b"tests/test_a.py", detail)]


def test_an_order_of_characterisation_tests_permits_it_and_the_verdict_names_that() -> None:
    assert broken(ordered(FOUND), tests="characterisation") == []
    words = red_first_in_words(FOUND, contract("characterisation"))
    assert words.endswith("; passes without it: tests/test_a.py::test_b; the order asks for characterisation tests")


@pytest.mark.parametrize("one", [ordered(FOUND, must_pass=False), ordered(FOUND, hidden=True), ordered(None)])
def test_optional_and_hidden_commands_are_not_judged(one: Ordered) -> None:
    assert broken(one) == []


def test_tests_without_a_result_are_no_fault() -> None:
    assert broken(ordered(RedFirst(tests=2, unrun_count=2, stopped="time"))) == []


def test_a_summary_shows_the_tests_that_fail_and_pass() -> None:
    words = "red first: 3 of 4 new or changed tests fail without the change; passes without it: tests/test_a.py::test_b"
    assert words in in_words(_proof(FOUND))


@pytest.mark.parametrize(
    ("red", "words", "doubtful"),
    [
        (RedFirst(tests=2, failed_count=2), "2 of 2 new or changed tests fail without the change", False),
        (
            RedFirst(tests=2, failed_count=1, unrun_count=1, stopped="time"),
            "1 of 2 new or changed tests fail without the change; 1 without a result (stopped at the limit of time)",
            True,
        ),
        (RedFirst(not_applicable="the change has tests alone"), "not applicable: the change has tests alone", False),
        (RedFirst(unproven="no framework"), "unproven: no framework", True),
    ],
)
def test_a_doubt_is_a_remark_and_a_fact_is_not(red: RedFirst, words: str, *, doubtful: bool) -> None:
    assert [clause for clause in proof_clauses(_proof(red)) if clause == (f"red first: {words}", doubtful)]


CONTRADICTIONS = {
    "more tests than pass": replace(FOUND, tests=6, failed_count=5),
    "a failed one more": replace(FOUND, failed_count=4),
    "a name less": replace(FOUND, passed=()),
    "a name twice": replace(FOUND, passed_count=2, failed_count=2, passed=FOUND.passed * 2),
    "a test of another file": replace(FOUND, passed=("tests/test_other.py::test_b",)),
    "a reason for no result beside one": replace(FOUND, unproven="no framework"),
    "neither a result nor a reason": RedFirst(),
    "two reasons": RedFirst(unproven="no framework", not_applicable="the change has tests alone"),
}


@pytest.mark.parametrize("red", CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_a_contradictory_result_is_found(red: RedFirst) -> None:
    assert facts(red) == ["report_contradicts"]


@pytest.mark.parametrize("red", [FOUND, replace(FOUND, passed=("test_a.py::test_b",)), RedFirst(unproven="no framework")])
def test_a_consistent_result_holds(red: RedFirst) -> None:
    assert facts(red) == []


def facts(red: RedFirst) -> list[str]:
    one = ordered(red)
    report = TestReport(
        run_id="run-0123456789",
        task_id="run-0123456789.test.a1",
        runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        started_at="2026-01-05T09:30:00Z",
        finished_at="2026-01-05T09:31:00Z",
        status="PASS",
        commands=one.runs,
        artifacts=(),
    )
    return list(dict.fromkeys(each.code for each in broken_by_facts(report, (one,), [b"tests/test_a.py", b"a.py"])))


def _proof(red: RedFirst) -> TestProof:
    proof = ordered(red).final.proof
    assert proof is not None
    return proof
