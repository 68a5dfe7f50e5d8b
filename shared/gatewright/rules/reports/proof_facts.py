"""Consistency of the facts that a test runner recorded about a command. Pure; the records are claims.

An inconsistent report proves nothing, even if its commands succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gatewright.contracts.reports import BaselineTests, RedFirst, TestCommand, TestProof, TestReport
from gatewright.rules.broken import Broken
from gatewright.rules.reports.audits import contradictions_of_audit
from gatewright.rules.reports.proof import file_of
from gatewright.rules.reports.replays import contradictions_of_replay
from gatewright.rules.reports.results import seconds_between
from gatewright.rules.reports.tests import Ordered, passed
from gatewright.rules.reports.untested import contradictions_of_coverage

CODE = "report_contradicts"
RULE = "proof_facts"
#: Maximum length of a list of names.
_MOST_NAMES = 100
#: Exit codes from here on mean that a signal ended the command.
_BY_A_SIGNAL = 128
#: Seconds that ending a command may take beyond its limit.
_CLOSING = 60.0
#: Relative clock drift while a host's clock is adjusted, and a rounding margin.
_DRIFT, _ROUNDING = 0.02, 1.0


def broken_by_facts(report: TestReport, ordered: Sequence[Ordered], changed: Iterable[bytes] | None) -> Iterator[Broken]:
    """Check the consistency of a test report.

    1. No command exceeds its time limit, and their sum does not exceed the report's duration.
    2. The containment of commands agrees with the surroundings.
    3. Each proof agrees with its command, framework, tests and the baseline's tests.

    Args:
        report: the test report.
        ordered: the commands with their tests.
        changed: the candidate's paths; None when unknown.
    """
    for words in _durations(report):  # 1
        yield Broken(CODE, RULE, words)
    seen = report.surroundings.sandbox if report.surroundings is not None else None
    if seen is not None and seen.get("sandbox", report.sandbox) != report.sandbox:  # 2
        words = f"commands ran in the sandbox {report.sandbox}, and the surroundings name {seen['sandbox']}"
        yield Broken(CODE, RULE, words)
    paths = frozenset(path.decode("utf-8", "replace") for path in changed) if changed is not None else None
    for one in ordered:  # 3
        for command in one.runs:
            if command.proof is not None:
                for words in _proof(command, command.proof, paths):
                    yield Broken(CODE, RULE, f"{command.name}: {words}")


def _durations(report: TestReport) -> Iterator[str]:
    for command in report.commands:
        if command.duration_sec > command.timeout_sec + _CLOSING:
            yield f"{command.name} took {command.duration_sec:g} s, and its limit was {command.timeout_sec:g} s"
        if command.timed_out and command.duration_sec < command.timeout_sec * (1 - _DRIFT) - _ROUNDING:
            yield f"{command.name} was ended at {command.timeout_sec:g} s, and took {command.duration_sec:g} s"
    taken, whole = (
        sum(command.duration_sec for command in report.commands),
        seconds_between(report.started_at, report.finished_at),
    )
    if whole is not None and taken > whole * (1 + _DRIFT) + _ROUNDING:
        yield f"its commands took {taken:g} s, and all of it took {whole:g} s"


def _proof(command: TestCommand, proof: TestProof, changed: frozenset[str] | None) -> Iterator[str]:
    """Check one proof.

    1. The command can start the framework; without a framework nothing is known about tests.
    2. There are two planted tests.
    3. Only a failed command was tried on the baseline.
    4. Reported tests have a table, and names of failed ones agree with their number.
    5. Mutants are of changed files.
    6. So are the baseline's tests, whose end agrees with their outcomes.
    7. New and changed tests that pass without the change are in changed files, and their numbers agree.
    8. The file with the planted error is a changed one, as are the files where the tool is disabled.
    9. Repeated calls are of changed files, and their numbers agree.
    10. Covered lines are some of the written lines, in changed files.
    11. The numbers of an audit agree.
    """
    if proof.framework and not _may_start(proof.framework, command.cmd_argv):  # 1
        yield f"{proof.framework} reported its tests, but {command.cmd_argv[0]} does not start it"
    if not proof.framework and (known := _known_of_tests(proof)):
        yield f"no framework was recognised, and {', '.join(known)} is known of its tests"
    if not proof.framework and not proof.unproven:
        yield "no framework was recognised, and the report does not state why"
    if proof.control is not None and proof.control.failing == proof.control.passing:  # 2
        yield "one planted test had to pass and to fail"
    if proof.exit_before is None and proof.failed_before:
        yield "tests failed before the change, and the command was not run there"
    if passed(command) and proof.exit_before is not None:  # 3
        yield "it passed, and was run on the baseline as only a command is that failed"
    yield from _counted(proof)  # 4
    if proof.collected_before is None and (proof.lost_count or proof.lost or proof.new_count or proof.newly_skipped):
        yield "the tests of the baseline are not known, and some are called lost, new or newly skipped"
    mutants = proof.mutation.mutants if proof.mutation is not None else ()
    if changed is not None and (strange := sorted({mutant.path for mutant in mutants} - changed)):  # 5
        yield f"mutants were made of {strange[0]}, which the change does not touch"
    if proof.baseline_tests is not None:  # 6
        yield from _baseline(proof.baseline_tests, changed)
    if proof.red_first is not None:  # 7
        yield from _red_first(proof.red_first, proof.counts.passed if proof.counts is not None else 0, changed)
    yield from contradictions_of_replay(proof, changed)  # 9
    yield from contradictions_of_coverage(proof, changed)  # 10
    yield from contradictions_of_audit(proof)  # 11
    named = {proof.check.path, *proof.check.switched_off} if proof.check is not None else set()
    if changed is not None and (strange := sorted(named - changed)):  # 8
        yield f"a tool was tried on {strange[0]}, which the change does not touch"


def _may_start(framework: str, argv: Sequence[str]) -> bool:
    # Imported late: most bundles name one framework, and importing all takes a while.
    from gatewright.ecosystems.registry import FRAMEWORKS

    return any(each.name == framework and each.may_start(argv) for each in FRAMEWORKS)


def _counted(proof: TestProof) -> Iterator[str]:
    counts = proof.counts
    if counts is not None and counts.passed + counts.failed + counts.skipped > 0 and not proof.table:
        yield "tests were reported without a table"
    failed = counts.failed if counts is not None else 0
    if proof.failed and len(proof.failed) != min(failed, _MOST_NAMES):
        yield f"{failed} tests failed, and {len(proof.failed)} are named"


def _known_of_tests(proof: TestProof) -> list[str]:
    facts = {
        "version": proof.version,
        "complete": proof.complete,
        "counts": proof.counts,
        "failed": proof.failed,
        "collected_before": proof.collected_before,
        "control": proof.control,
        "baseline_tests": proof.baseline_tests,
        "red_first": proof.red_first,
        "mutation": proof.mutation,
        "replay": proof.replay,
        "table": proof.table,
    }
    return [name for name, value in facts.items() if value not in (None, "", False, ())]


def _baseline(tests: BaselineTests, changed: frozenset[str] | None) -> Iterator[str]:
    """Check the baseline's tests.

    1. Their paths are changed ones.
    2. Names agree with numbers.
    3. A complete run ended as its tests did.
    """
    if not tests.paths or (changed is not None and not changed.issuperset(tests.paths)):  # 1
        yield f"the baseline's tests are those of {', '.join(tests.paths[:3]) or 'no file'}, which the change does not touch"
    failed = tests.counts.failed if tests.counts is not None else 0
    if len(tests.failed) != min(failed, _MOST_NAMES):  # 2
        yield f"{failed} of the baseline's tests failed, and {len(tests.failed)} are named"
    if not tests.complete:
        return
    if tests.stopped or tests.rewritten:  # 3
        yield "the baseline's tests all reported an outcome, but were stopped or changed while they ran"
    if tests.exit_code == 0 and tests.failed:
        yield "the baseline's tests failed, and their command succeeded"
    if tests.counts is None and not 0 < tests.exit_code < _BY_A_SIGNAL:
        yield "none of the baseline's tests was loaded, and their command did not fail by itself"


def _red_first(red: RedFirst, passed_now: int, changed: frozenset[str] | None) -> Iterator[str]:
    """Check the new and changed tests.

    1. There is a result, or a reason for none.
    2. Numbers agree with each other, with the names, and with the tests that pass on the candidate.
    3. Each named test is in a changed file. Its id may name the file from a folder above it.
    """
    if (red.tests == 0) != bool(red.not_applicable or red.unproven) or (red.not_applicable and red.unproven):  # 1
        yield f"{red.tests} tests were tried without the change; reason for none: {red.not_applicable + red.unproven}"
    if red.failed_count + red.passed_count + red.unrun_count != red.tests or red.tests > passed_now:  # 2
        yield f"the numbers of tests without the change contradict each other: {red.tests} tried, {passed_now} pass with it"
    if not len(set(red.passed)) == len(red.passed) == min(red.passed_count, _MOST_NAMES):
        yield f"{red.passed_count} tests pass without the change, and {len(set(red.passed))} are named"
    for file in sorted({file_of(each) for each in red.passed}):  # 3
        if changed is not None and file not in changed and not any(path.endswith(f"/{file}") for path in changed):
            yield f"tests of {file} were tried without the change, which does not touch it"
