"""Reports of tests of a queue, as test runners write them."""

from __future__ import annotations

from gatewright.contracts import TestReport
from gatewright.contracts.queue_receipt import OrderedCommand, ReportPart
from gatewright.contracts.reports import TestCommand, TestSummary
from gatewright.contracts.vocabulary import Agent

STAMP = "2026-03-01T00:00:00.000Z"
SECONDS = 60.0


def command(name: str, argv: tuple[str, ...] = (), **other: object) -> TestCommand:
    """A command that passed; ``other`` are fields that differ."""
    known: dict[str, object] = {
        "name": name,
        "cmd_argv": argv or ("run", name),
        "must_pass": True,
        "timeout_sec": SECONDS,
        "exit_code": 0,
        "duration_sec": 0.5,
        "stdout": "",
        "stderr": "",
    }
    return TestCommand(**known | other)  # type: ignore[arg-type]


def report(tree: str, *commands: TestCommand, **other: object) -> TestReport:
    """A report that agrees with its commands."""
    final = {each.name: each for each in commands}
    failed = sum(each.exit_code != 0 or each.timed_out or bool(each.stopped) for each in final.values())
    known: dict[str, object] = {
        "run_id": "run-of-test",
        "task_id": "part-1",
        "runner": Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        "started_at": STAMP,
        "finished_at": STAMP,
        "status": "FAIL" if failed else "PASS",
        "commands": commands,
        "artifacts": (),
        "summary": TestSummary(passed=len(final) - failed, failed=failed, skipped=0),
        "tree": tree,
    }
    return TestReport(**known | other)  # type: ignore[arg-type]


def part(tree: str, *commands: TestCommand, runs: tuple[str, ...] = (), **other: object) -> ReportPart:
    """The part that ordered exactly these commands; ``other`` are fields of its report that differ."""
    ordered = {each.name: OrderedCommand(name=each.name, argv=each.cmd_argv, must_pass=each.must_pass) for each in commands}
    answer = report(tree, *commands, **other)
    return ReportPart(runs=runs, commands=tuple(ordered.values()), timeout_sec=SECONDS, report=answer)
