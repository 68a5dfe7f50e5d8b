"""11. The numbers of a report's tests are those of the tables that it stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gatewright.contracts.reports import TestProof
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Telling
from gatewright.evidence.verification.reading import MAX_DOCUMENT_BYTES, Reading

TESTS = "tests_contradict"
#: What stands in the place of a secret: it may have been longer than a line.
_REDACTED = b"[redacted:"


def check_tables(telling: Telling, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Each test of a table has a line with its outcome. A table that is not there, or had a secret in it, is not counted."""
    for task_id, tests in telling.history.tests.items():
        for number, command in enumerate(tests.commands, 1):
            path = layout.test_output(task_id, number, "tests")
            if command.proof is None or not command.proof.table or not _is_as_listed(reading, path):
                continue
            table = reading.document(path, step)
            if table is not None and _REDACTED not in table and (words := _differing(command.proof, table)):
                yield Contradiction(TESTS, layout.test(task_id), path, f"{command.name}: {words}")


def _is_as_listed(reading: Reading, path: str) -> bool:
    """Whether it is the file that was signed, which step 3 has looked at, and can be read at once."""
    listed, facts = reading.listed.get(path), reading.facts.get(path)
    return listed is not None and facts is not None and facts.sha256 == listed.sha256 and facts.size <= MAX_DOCUMENT_BYTES


def _differing(proof: TestProof, table: bytes) -> str:
    lines = Counter(line.rpartition(b"\t")[2].decode("ascii", "replace") for line in table.split(b"\n") if line)
    counts = proof.counts
    told = {} if counts is None else {"passed": counts.passed, "failed": counts.failed, "skipped": counts.skipped}
    for outcome in sorted({*told, *lines}):
        if told.get(outcome, 0) != lines[outcome]:
            return f"{told.get(outcome, 0)} {outcome} by the report, and {lines[outcome]} by its table"
    return ""
