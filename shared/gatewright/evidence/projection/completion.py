"""Completion report of an ended run, from the records of the landing gate's definition-of-done check.

Nothing is judged here. A rule that the gate did not name was not evaluated, so it is not reported as kept. Pure.
"""

from __future__ import annotations

import hashlib

from gatewright.contracts import CompletionReport, GateReport, TestReport, codec
from gatewright.contracts.completion import CompletionCheck, CompletionOutput, CompletionShard, CompletionTest
from gatewright.contracts.reports import Violation
from gatewright.contracts.task_contract import RequiredOutput
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.evidence.projection.history import RunHistory
from gatewright.evidence.projection.summary_reports import why_not
from gatewright.rules.gate_evidence import required_output
from gatewright.rules.reports.completion import RULES
from gatewright.rules.reports.tests import passed


def completion_report(history: RunHistory) -> CompletionReport:
    """Return ``reports/completion_report.json``: ``complete`` only when the run succeeded and every rule was kept."""
    run, contract = history.run, history.run.contract
    gate = next((gate for gate in reversed(history.decisive) if gate.gate == "landing"), None)
    checks = tuple(_completion_check(rule, gate, history) for rule in RULES if run.kind.lands)
    complete = run.status == "SUCCESS" and all(check.verdict == "PASS" for check in checks)
    found = {seen.name: seen.digest for seen in gate.evidence} if gate else {}
    return CompletionReport(
        run_id=run.run_id,
        status="complete" if complete else "incomplete",
        evaluated_at=gate.evaluated_at if gate else run.finished_at,
        summary=_summary(checks, history, complete=complete),
        checks=checks,
        required_outputs=tuple(_output(each, found) for each in contract.required_outputs) if contract else (),
        acceptance_tests=tuple(_test(each, run.tests) for each in contract.acceptance_tests) if contract else (),
        shards=tuple(CompletionShard(task_id=task.task_id, status=task.status) for task in run.workers()),
        open_violations=_open_violations(history),
        contract_sha256=hashlib.sha256(codec.encode(contract)).hexdigest() if contract else None,
    )


def _completion_check(rule: str, gate: GateReport | None, history: RunHistory) -> CompletionCheck:
    named = next((each for each in gate.rules if each.rule == rule), None) if gate else None
    if named is None:
        why = "the landing gate did not name it" if gate else f"the landing was not judged: {why_not(history)}"
        return CompletionCheck(rule=rule, verdict="NOT_EVALUATED", detail=why)
    return CompletionCheck(rule=rule, verdict=named.verdict, detail=named.detail)


def _output(output: RequiredOutput, found: dict[str, str]) -> CompletionOutput:
    place = found.get(required_output(output), "")
    return CompletionOutput(name=output.name, type=output.type, acceptance=output.acceptance, found=place)


def _test(test: AcceptanceTest, report: TestReport | None) -> CompletionTest:
    runs = [command for command in report.commands if command.name == test.name] if report else []
    if not runs:
        return CompletionTest(name=test.name, must_pass=test.must_pass, passed=False)
    last = runs[-1]
    return CompletionTest(name=test.name, must_pass=test.must_pass, passed=passed(last), exit_code=last.exit_code)


def _open_violations(history: RunHistory) -> tuple[Violation, ...]:
    """Return the uncured violations; none for a run that succeeded."""
    if history.run.status == "SUCCESS":
        return ()
    return tuple(violation for gate in history.decisive for violation in gate.violations)


def _summary(checks: tuple[CompletionCheck, ...], history: RunHistory, *, complete: bool) -> str:
    kind = history.run.kind
    if not kind.lands:
        return f"A {kind.name} run has no definition of done: {kind.words if complete else why_not(history)}."
    if complete:
        return f"All {len(checks)} rules of the definition of done were kept."
    kept = sum(check.verdict == "PASS" for check in checks)
    end = f"; {why_not(history)}" if history.run.status != "SUCCESS" else ""
    return f"{kept} of {len(checks)} rules of the definition of done were kept{end}"
