"""11. The test counts of a report, and the results by test in a verdict, match the stored tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gatewright.contracts.reports import PlayedTests, TestProof
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun, gate_file
from gatewright.evidence.verification.reading import MAX_DOCUMENT_BYTES, Reading
from gatewright.rules.reports.flakes import MOST_NAMES, played_tests, read_outcomes
from gatewright.rules.reports.proof import test_of_case
from gatewright.rules.reports.tests import match_commands
from gatewright.run import events as e
from gatewright.run.state import Run

TESTS = "tests_contradict"
#: Replacement of a secret, which may have been longer than a line.
_REDACTED = b"[redacted:"


def check_tables(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check that each test of a table has a line with its outcome. Missing or redacted tables are skipped."""
    for task_id, tests in replayed.history.tests.items():
        for number, command in enumerate(tests.commands, 1):
            path = layout.test_output(task_id, number, "tests")
            if command.proof is None or not command.proof.table or not _is_as_listed(reading, path):
                continue
            table = reading.document(path, step)
            if table is not None and _REDACTED not in table and (words := _differing(command.proof, table)):
                yield Contradiction(TESTS, layout.test(task_id), path, f"{command.name}: {words}")


def check_played(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check the results by test in verdicts. A verdict without any, and missing or redacted tables are skipped."""
    for moment in replayed.moments:
        match moment.payload:
            case e.GateJudged(report=report) if report.played:
                found = _played_by(moment.before, reading, step)
                named = [(part.cmd_argv, part.tree, part.failed, part.table) for part in report.played]
                if (found is not None and named != found) or not all(map(_is_consistent, report.played)):
                    words = "the results by test do not follow from the report and its tables"
                    yield moment.contradiction(TESTS, gate_file(moment.gates, report), layout.test(report.task_id or ""), words)


def _is_consistent(part: PlayedTests) -> bool:
    return set(part.passed).isdisjoint(part.failed) and set(part.passed_before) <= set(part.failed)


def _played_by(run: Run, reading: Reading, step: int) -> list[tuple[tuple[str, ...], str, tuple[str, ...], str]] | None:
    """Return command, tree, failed tests and table of each result that the last report leads to; None if it is not known."""
    tests, contract = run.tests, run.contract
    if tests is None or contract is None or run.candidate is None:
        return None
    trees, most = (run.candidate.tree, run.accepted.baseline_tree), MOST_NAMES // max(len(tests.commands), 1)
    numbers = {id(command): number for number, command in enumerate(tests.commands, 1)}
    found: list[PlayedTests] = []
    for command in (command for one in match_commands(tests, contract)[0] if not one.test.hidden for command in one.runs):
        path = layout.test_output(tests.task_id, numbers[id(command)], "tests")
        if command.proof is None or not command.proof.table:
            continue
        table = reading.document(path, step) if _is_as_listed(reading, path) else None
        if table is None or _REDACTED in table:
            return None
        found += played_tests(command, read_outcomes(table), trees, most)
    return [(part.cmd_argv, part.tree, part.failed, part.table) for part in found]


def _is_as_listed(reading: Reading, path: str) -> bool:
    """Return whether the file is the signed one, which step 3 checks, and is small enough to read."""
    listed, facts = reading.listed.get(path), reading.facts.get(path)
    return listed is not None and facts is not None and facts.sha256 == listed.sha256 and facts.size <= MAX_DOCUMENT_BYTES


def _differing(proof: TestProof, table: bytes) -> str:
    lines = Counter(line.rpartition(b"\t")[2].decode("ascii", "replace") for line in table.split(b"\n") if line)
    counts = proof.counts
    counted = {} if counts is None else {"passed": counts.passed, "failed": counts.failed, "skipped": counts.skipped}
    for outcome in sorted({*counted, *lines}):
        if counted.get(outcome, 0) != lines[outcome]:
            return f"{counted.get(outcome, 0)} {outcome} in the report, but {lines[outcome]} in its table"
    named = proof.red_first.passed if proof.red_first is not None else ()
    passed = [line.partition(b"\t")[0].decode("utf-8", "replace") for line in table.split(b"\n") if line.endswith(b"\tpassed")]
    known = {*passed, *map(test_of_case, passed)}
    return next((f"{each} passes without the change, and not in the table" for each in named if each not in known), "")
