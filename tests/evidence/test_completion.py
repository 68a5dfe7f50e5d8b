"""The completion report says what the landing gate recorded, and calls nothing complete that was not judged."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest
from msgspec.structs import replace

from gatewright.contracts import CompletionReport, codec
from gatewright.contracts.reports import Evidence, RuleOutcome
from gatewright.evidence.projection.completion import completion_report
from gatewright.evidence.projection.history import RunHistory, ended_history, evidence_records
from gatewright.rules.reports.completion import RULES
from tests.evidence.recorded_runs import MAKERS, RecordedRun, make_failed, make_success


def history_of(recorded: RecordedRun, *broken: str, without: str = "") -> RunHistory:
    """The history of a run whose landing gate named every rule of the definition of done."""
    history = ended_history(recorded.run, evidence_records(recorded.transitions))
    rules = tuple(
        RuleOutcome(rule=rule, verdict="FAIL" if rule in broken else "PASS", detail="said") for rule in RULES if rule != without
    )
    seen = (Evidence(name="output.patch.patch", digest="artifact:sha256:" + "0" * 64),)
    gates = tuple(replace(gate, rules=rules, evidence=seen) if gate.gate == "landing" else gate for gate in history.decisive)
    return changed(history, decisive=gates)


def test_run_that_kept_every_rule_is_complete() -> None:
    report = completion_report(history_of(make_success()))
    assert report.status == "complete"
    assert [check.rule for check in report.checks] == list(RULES)
    assert [output.found[:9] for output in report.required_outputs] == ["artifact:"]
    assert [(test.name, test.passed, test.exit_code) for test in report.acceptance_tests] == [
        ("unit", True, 0),
        ("lint", True, 0),
    ]
    assert {shard.status for shard in report.shards} == {"SUCCESS"}
    assert report.open_violations == ()


@pytest.mark.parametrize("rule", RULES)
def test_one_broken_or_unnamed_rule_makes_it_incomplete(rule: str) -> None:
    assert completion_report(history_of(make_success(), rule)).status == "incomplete"
    report = completion_report(history_of(make_success(), without=rule))
    assert report.status == "incomplete"
    assert {check.rule: check.verdict for check in report.checks}[rule] == "NOT_EVALUATED"


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_run_has_a_valid_report(name: str) -> None:
    run = MAKERS[name]()
    report = completion_report(ended_history(run.run, evidence_records(run.transitions)))
    assert codec.decode(codec.encode(report), CompletionReport) == report
    assert report.status == ("complete" if run.run.status == "SUCCESS" else "incomplete")


def test_failed_run_names_what_is_open() -> None:
    run = make_failed()
    report = completion_report(ended_history(run.run, evidence_records(run.transitions)))
    assert {check.verdict for check in report.checks} == {"NOT_EVALUATED"}
    assert [violation.code for violation in report.open_violations] == [run.run.failure.code if run.run.failure else ""]
    assert not any(test.passed for test in report.acceptance_tests)
