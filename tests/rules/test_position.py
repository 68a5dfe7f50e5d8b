"""Only a full report of exactly the tested tree is green."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gatewright.contracts.queue_receipt import OrderedCommand, ReportPart
from gatewright.contracts.reports import TestCounts, TestProof, TestSummary
from gatewright.contracts.vocabulary import Agent, Surroundings
from gatewright.queue.commands import Test
from gatewright.rules.reports.position import conclude, outcome_of, report_part
from tests.factories import make_contract
from tests.queue.reports import command, part, report

TREE, OTHER = "1" * 40, "2" * 40
RUN = "run-00001"
UNIT = command("unit")
RED = command("unit", exit_code=1)
GREEN = part(TREE, UNIT, runs=(RUN,))
STANDING = part(TREE, command("standing-1", ("make", "lint")))
TEST = Test("test-1", 1, TREE, (RUN,), "a" * 64, (("make", "lint"),), 60)
SEEN = Surroundings(versions={}, host={}, image="image@sha256:" + "0" * 64)


def with_report(**changes: object) -> ReportPart:
    return replace(GREEN, report=replace(GREEN.report, **changes))


def of(*commands: object) -> ReportPart:
    """The answer ``commands`` to the order of one command."""
    return replace(GREEN, report=report(TREE, *commands))  # type: ignore[arg-type]


def proved(*names: str, failed: int) -> TestProof:
    return TestProof(framework="pytest", complete=True, counts=TestCounts(passed=1, failed=failed, skipped=0), failed=names)


#: What answered in place of the green part.
NO_REPORT: dict[str, ReportPart] = {
    "an error": with_report(status="ERROR", failure="sandbox_unavailable: none", commands=()),
    "tests that were skipped": with_report(status="SKIPPED", commands=()),
    "another tree": with_report(tree=OTHER),
    "no tree": with_report(tree=None),
    "no test runner": with_report(runner=Agent(role="WORKER", agent_id="worker-1")),
    "no command": of(),
    "another command": of(command("unit", ("true",))),
    "a command more": of(UNIT, command("more")),
    "a command that need not pass": of(command("unit", must_pass=False)),
    "a longer time limit": of(command("unit", timeout_sec=600.0)),
    "a repetition that was not ordered": of(RED, command("unit", run=2)),
    "a command that was stopped": of(command("unit", exit_code=137, stopped="memory")),
    "a status that its commands contradict": with_report(status="FAIL"),
    "a summary that its commands contradict": with_report(summary=TestSummary(passed=2, failed=0, skipped=0)),
    "another image": with_report(surroundings=SEEN),
    "nothing that must pass": part(TREE, command("unit", must_pass=False), runs=(RUN,)),
}


@pytest.mark.every_case
@pytest.mark.parametrize("kind", NO_REPORT)
def test_an_answer_that_is_no_full_report_is_neither_green_nor_red(kind: str) -> None:
    assert outcome_of(TREE, (STANDING, NO_REPORT[kind])) == ("infrastructure", ())


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("given", "outcome", "failed"),
    [
        (UNIT, "passed", ()),
        (RED, "failed", ("unit",)),
        (command("unit", exit_code=-9, timed_out=True), "timed_out", ("unit",)),
        (command("unit", exit_code=1, proof=proved("t::a", "t::b", failed=2)), "failed", ("t::a", "t::b")),
        (command("unit", exit_code=1, proof=proved("t::a", failed=2)), "failed", ("unit",)),
    ],
)
def test_exit_codes_decide_and_failures_are_named(given: object, outcome: str, failed: tuple[str, ...]) -> None:
    assert outcome_of(TREE, (STANDING, of(given))) == (outcome, failed)


def test_a_command_that_passes_its_ordered_repetition_passes() -> None:
    ordered = (OrderedCommand(name="unit", argv=UNIT.cmd_argv, may_rerun=True),)
    assert outcome_of(TREE, [replace(of(RED, command("unit", run=2)), commands=ordered)]) == ("passed", ())


def test_a_command_that_need_not_pass_may_fail() -> None:
    answered = part(TREE, UNIT, command("lint", exit_code=1, must_pass=False), status="PASS")
    assert outcome_of(TREE, [answered]) == ("passed", ())


@pytest.mark.parametrize(
    "parts",
    [(STANDING,), (GREEN,), (), (STANDING, GREEN, replace(GREEN, runs=("run-00002",)))],
    ids=["run", "standing", "all", "more"],
)
def test_a_test_without_one_of_its_parts_is_not_green(parts: tuple[ReportPart, ...]) -> None:
    assert conclude("repository", "main", TEST, (STANDING, GREEN)).outcome == "passed"
    assert conclude("repository", "main", TEST, parts).outcome == "infrastructure"


def test_a_part_has_the_commands_and_the_limit_of_its_task() -> None:
    contract = make_contract("run-00001")
    made = report_part((RUN,), contract, report(TREE))
    assert [each.name for each in made.commands] == [each.name for each in contract.acceptance_tests]
    assert made.timeout_sec == contract.timeout_retry.timeout_sec
