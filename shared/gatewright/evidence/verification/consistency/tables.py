"""11. The test counts of a report match its stored tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gatewright.contracts.reports import TestProof
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun
from gatewright.evidence.verification.reading import MAX_DOCUMENT_BYTES, Reading
from gatewright.rules.reports.proof import test_of_case

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
