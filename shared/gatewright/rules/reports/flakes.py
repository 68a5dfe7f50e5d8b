"""Flaky tests: tests that failed and passed on one tree, according to the recorded runs of their command.

Pure. A flake is a label for people. It never changes a verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from gatewright.contracts import FlakyTest, GateReport
from gatewright.contracts.reports import PlayedTests, TestCommand
from gatewright.ecosystems.records import read_table
from gatewright.run.state import Run

#: Maximum number of failed tests of a report, and of passed ones, that are recorded.
MOST_NAMES: Final = 100
#: Characters of a recorded command, of a test id that is recorded, and bytes of a table that is read.
_LONGEST_COMMAND: Final = 2_000
_LONGEST_NAME: Final = 300
_LARGEST_TABLE: Final = 16 * 1024 * 1024


class RecordedTests(NamedTuple):
    """Results by test of one judged report. ``at``: time of the judgement."""

    run_id: str
    repository: str
    publisher: str
    at: str
    played: tuple[PlayedTests, ...]


#: A test: repository, command and id.
TestKey = tuple[str, tuple[str, ...], str]


@dataclass(slots=True)
class Tally:
    """Results of one test. ``failed`` and ``passed``: trees with that result."""

    plays: int = 0
    failures: int = 0
    last_run: str = ""
    last_failed_at: str = ""
    failed: set[str] = field(default_factory=set)
    passed: set[str] = field(default_factory=set)


def played_tests(
    command: TestCommand, outcomes: Mapping[str, str], trees: tuple[str, str], most: int
) -> tuple[PlayedTests, ...]:
    """Return the failed tests of a command on ``trees``: the candidate, and the baseline where they ran again.

    Nothing, if other tests, another runner or other modules than those of the tree ran, or the command is very long.
    ``outcomes``: its table. At most ``most`` names.
    """
    proof, argv = command.proof, command.cmd_argv
    odd = proof is None or proof.shadowed or proof.patched or proof.rewritten or len(str(argv)) > _LONGEST_COMMAND
    if proof is None or odd or not outcomes:
        return ()
    failed = tuple(sorted(name for name, outcome in outcomes.items() if outcome == "failed")[:most])
    again = tuple(name for name in failed if name in proof.failed_before)
    found = PlayedTests(cmd_argv=argv, tree=trees[0], failed=failed, table=proof.table)
    return (found, PlayedTests(cmd_argv=argv, tree=trees[1], failed=again)) if again else (found,)


def recorded_tests(run: Run, gates: Iterable[GateReport]) -> list[RecordedTests]:
    """Return the results by test in the verdicts of a run."""
    key = run.accepted.repository_key
    return [RecordedTests(run.run_id, key, run.publisher, each.evaluated_at, each.played) for each in gates if each.played]


def tally_tests(records: Iterable[RecordedTests]) -> dict[TestKey, Tally]:
    """Return the results of each test that is recorded by name.

    Tests that ran alone, on the baseline, give no rate: they were chosen because they failed on the candidate.
    """
    found: dict[TestKey, Tally] = {}
    for record in sorted(records, key=lambda each: each.at):
        for part in record.played:
            for name in (*part.failed, *part.passed, *part.passed_before):
                tally = found.setdefault((record.repository, part.cmd_argv, name), Tally())
                tally.plays += bool(part.table)
            for name in part.failed:
                tally = found[record.repository, part.cmd_argv, name]
                tally.failures += bool(part.table)
                tally.last_run, tally.last_failed_at = record.run_id, record.at
                tally.failed.add(part.tree)
            for name in (*part.passed, *part.passed_before):
                found[record.repository, part.cmd_argv, name].passed.add(part.tree)
    return found


def flaky_tests(records: Iterable[RecordedTests]) -> list[FlakyTest]:
    """Return the flaky tests, those with the most flaky trees first."""
    found = [
        FlakyTest(
            repository=repository,
            cmd_argv=argv,
            test=test,
            plays=tally.plays,
            failures=tally.failures,
            flaky_trees=len(trees),
            last_run=tally.last_run,
            last_failed_at=tally.last_failed_at,
        )
        for (repository, argv, test), tally in tally_tests(records).items()
        if (trees := tally.failed & tally.passed)
    ]
    return sorted(found, key=lambda each: (-each.flaky_trees, -each.percent, each.repository, each.test, each.cmd_argv))


def flake_words(test: str, tally: Tally, part: PlayedTests) -> str:
    """Return what is known of a test of ``part``; empty unless it is flaky, and failed there or is flaky on that tree."""
    trees, rate = tally.failed & tally.passed, f"it failed {tally.failures} of {tally.plays} times"
    if part.tree in trees:
        return f"{test} failed and passed on tree {part.tree[:12]}: it is a flake; {rate}"
    on = "one tree" if len(trees) == 1 else f"each of {len(trees)} trees"
    return f"{test} failed; it is a known flake: {rate}, with both results on {on}" if trees and test in part.failed else ""


def read_outcomes(data: bytes) -> dict[str, str]:
    """Return the outcomes of a stored table without long ids; empty for a table that is too large or unreadable."""
    try:
        table = read_table(data) if len(data) <= _LARGEST_TABLE else {}
    except UnicodeDecodeError:
        return {}
    return {name: outcome for name, outcome in table.items() if len(name) <= _LONGEST_NAME}
