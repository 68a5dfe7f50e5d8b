"""Proof of successful acceptance commands: tests ran, all of them, on the candidate, and could have failed.

A disproof is a violation under every policy pack. Missing proof is only reported, unless the pack requires proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from gatewright import scope
from gatewright.contracts import TaskContract
from gatewright.contracts.reports import BaselineTests, RedFirst, TestCommand, TestCounts, TestProof
from gatewright.ecosystems.runner.names import is_runner_setting, is_test
from gatewright.git.paths import display
from gatewright.rules.broken import Broken
from gatewright.rules.reports import audits, replays, untested
from gatewright.rules.reports.mutation import is_doubtful, sample_in_words
from gatewright.rules.reports.tests import Ordered, passed

#: Requirement of a policy pack: record the proof, or require one.
Testing = Literal["recorded", "proved"]

UNPROVEN: Final = replays.UNPROVEN
PASSES_BEFORE: Final = "passes_without_change"
SHADOWED: Final = "environment_shadows_candidate"
#: Codes of the rules here.
CODES: Final = frozenset(
    {
        "report_missing",
        "runner_patched",
        SHADOWED,
        "tests_lost",
        "tests_none",
        "tests_not_alive",
        UNPROVEN,
        PASSES_BEFORE,
    }
    | untested.CODES
    | audits.CODES
)
RULE: Final = replays.RULE
#: Maximum number of names in a refusal.
_QUOTED = 3


def broken_by_proof(ordered: Sequence[Ordered], contract: TaskContract, testing: Testing) -> tuple[Broken, ...]:
    """Return the faults in the proofs of required commands that all succeeded.

    1. Nothing is disproved.
    2. If proof is required, at least one command has a proof, and the baseline's tests ran on the candidate to their end. Their
       failures are no fault: tests that are meant to change do fail.
    """
    broken: list[Broken] = []
    proved = False
    demanded = [one for one in ordered if one.test.must_pass]
    for one in demanded:
        if not passed(one.final):
            return ()
        if why_unproven(one.final) and not _is_instrumented(one.final):
            continue
        found = tuple(_check_proof(one.final, contract))  # 1
        broken += found
        proved = proved or (not found and not why_unproven(one.final))
    if testing == "proved" and not proved and not broken:  # 2
        reasons = "; ".join(f"{one.test.name}: {words}" for one in demanded if (words := why_unproven(one.final)))
        broken.append(Broken(UNPROVEN, RULE, f"no command is shown to test anything: {reasons or 'none has to pass'}"))
    if testing == "proved":
        broken += _unended_baseline_tests(demanded)
    return tuple(broken)


def _unended_baseline_tests(demanded: Iterable[Ordered]) -> Iterator[Broken]:
    for one in demanded:
        tests = one.final.proof.baseline_tests if one.final.proof is not None else None
        if tests is not None and not tests.complete:
            words = (
                f"{one.test.name}: {baseline_tests_in_words(tests)}; land the change of {_quote_tests(tests.paths)} by itself"
            )
            yield Broken(UNPROVEN, RULE, words)


def broken_by_left_out(ordered: Sequence[Ordered], changed: Iterable[bytes], testing: Testing) -> Iterator[Broken]:
    """Yield, if proof is required, changes of tests or runner settings for which the baseline's tests should have run.

    Uses only the names in ``changed``, the paths of the change; the test runner checks more.
    """
    deciding = [path for path in changed if is_test(path) or is_runner_setting(path)]
    for one in ordered if deciding and testing == "proved" else ():
        proof = one.final.proof
        if not one.test.must_pass or not passed(one.final) or proof is None or proof.baseline_tests is not None:
            continue
        if proof.framework and proof.collected_before:  # else the baseline has no tests
            words = f"{display(deciding[0])} is changed, but the results of the baseline's tests on the candidate are missing"
            yield Broken(UNPROVEN, RULE, f"{one.test.name}: {words}")


def broken_by_environment(ordered: Sequence[Ordered]) -> Iterator[Broken]:
    """Yield commands that tested another copy instead of the candidate. Even their failures prove nothing about the change."""
    for one in ordered:
        if one.test.must_pass and one.final.proof is not None and one.final.proof.shadowed:
            words = f"{one.test.name}: not from the candidate: {_quote_tests(one.final.proof.shadowed)}"
            yield Broken(SHADOWED, RULE, words)


def broken_by_red_first(ordered: Sequence[Ordered], contract: TaskContract) -> Iterator[Broken]:
    """Yield new and changed tests that pass without the change, if the contract does not allow them.

    Tests without a result are no fault: a test that waits for the change is stopped at a limit.
    """
    for one in ordered if contract.tests == "change" else ():
        red = one.final.proof.red_first if one.final.proof is not None else None
        if one.test.must_pass and not one.test.hidden and red is not None:
            yield from _by_file(red.passed, f"{one.test.name}: pass without the change", PASSES_BEFORE)


def red_first_in_words(red: RedFirst, contract: TaskContract | None = None) -> str:
    """Return in one line for people whether the new tests fail without the change, and the contract's exemption."""
    if red.not_applicable or red.unproven:
        return f"red first: {'not applicable' if red.not_applicable else 'unproven'}: {red.not_applicable or red.unproven}"
    parts = [f"{red.failed_count} of {red.tests} new or changed tests fail without the change"]
    parts += [f"{'passes' if red.passed_count == 1 else 'pass'} without it: {_quote_tests(red.passed)}"] if red.passed else []
    stopped = f" (stopped at the limit of {red.stopped})" if red.stopped else ""
    parts += [f"{red.unrun_count} without a result{stopped}"] if red.unrun_count else []
    exempt = contract is not None and contract.tests == "characterisation" and red.passed
    return f"red first: {'; '.join(parts)}{'; the order asks for characterisation tests' if exempt else ''}"


def why_unproven(command: TestCommand) -> str:
    """Return as text why a command has no proof; empty when it is proved or disproved."""
    if command.proof is None:
        return "the test runner recorded no proof"
    return command.proof.unproven


class ProofClause(NamedTuple):
    """A part of a proof's summary. ``doubtful``: people should see it although the command succeeded."""

    words: str
    doubtful: bool = False


def in_words(proof: TestProof) -> str:
    """Return the summary of a proof in one line for people; empty without reported tests."""
    return "; ".join(clause.words for clause in proof_clauses(proof))


def facts_in_words(proof: TestProof) -> str:
    """Return the summary without doubtful parts, which displays show as remarks; may be empty."""
    return "; ".join(clause.words for clause in proof_clauses(proof) if not clause.doubtful)


def proof_clauses(proof: TestProof, contract: TaskContract | None = None) -> tuple[ProofClause, ...]:
    """Return the parts of a proof's summary for people; empty without reported tests."""
    clauses = []
    if not proof.framework or proof.counts is None:
        clauses.append(ProofClause(f"unproven: {proof.unproven}" if proof.unproven else "", doubtful=True))
        doubtful = proof.check is not None and not (proof.check.noticed and not proof.check.switched_off)
        clauses.append(ProofClause(check_in_words(proof), doubtful=doubtful))
    else:
        clauses += _clauses_of_counts(proof, proof.counts, contract)
        clauses.append(ProofClause(f"unproven: {proof.unproven}" if proof.unproven else "", doubtful=True))
    if (found := proof.coverage) is not None:
        clauses.append(ProofClause(untested.coverage_in_words(found), doubtful=bool(found.fault or found.uncovered)))
    if (audit := proof.audit) is not None:
        clauses.append(ProofClause(audits.audit_in_words(audit), doubtful=bool(audit.fault or audit.new_count)))
    clauses.append(ProofClause(failed_before_in_words(proof), doubtful=True))
    return tuple(clause for clause in clauses if clause.words)


def _clauses_of_counts(proof: TestProof, counts: TestCounts, contract: TaskContract | None) -> Iterator[ProofClause]:
    now = counts.passed + counts.failed + counts.skipped
    if proof.collected_before is None:
        yield ProofClause(f"{_count_tests(now)}, those before are not known")
    else:
        before = f"{_count_tests(proof.collected_before)} before, {now} now"
        yield ProofClause(f"{before}: {proof.lost_count} lost, {proof.new_count} new")
    if proof.newly_skipped:
        yield ProofClause(f"{len(proof.newly_skipped)} newly skipped", doubtful=True)
    if not proof.complete:
        yield ProofClause("its report is not complete", doubtful=True)
    if proof.patched:
        yield ProofClause(f"{len(proof.patched)} changed in the runner itself", doubtful=True)
    for words, paths in untested.group_by_words(untested.untested_by(proof)).items():
        yield ProofClause(f"{words}: {_quote_tests(paths)}", doubtful=True)
    if proof.control is not None and alive(proof):
        yield ProofClause("the control failed as it must")
    elif proof.control is not None:
        yield ProofClause("the control did not fail as it must", doubtful=True)
    if proof.replay is not None and (proof.replay.functions or proof.replay.unproven):
        yield ProofClause(replays.replay_in_words(proof.replay), doubtful=replays.is_doubtful(proof.replay))
    if (red := proof.red_first) is not None:
        yield ProofClause(red_first_in_words(red, contract), doubtful=bool(red.passed or red.unrun_count or red.unproven))
    if (tests := proof.baseline_tests) is not None:
        passed_whole = tests.complete and tests.counts is not None and not (tests.counts.failed or tests.unrun_count)
        yield ProofClause(baseline_tests_in_words(tests), doubtful=not passed_whole)
    if proof.mutation is not None:
        yield ProofClause(sample_in_words(proof.mutation), doubtful=is_doubtful(proof.mutation))


def check_in_words(proof: TestProof) -> str:
    """Return for people whether a source checker covers the change; empty when that was not tried."""
    check = proof.check
    if check is None:
        return ""
    noticed = f"{'noticed' if check.noticed else 'did not notice'} an error planted in {check.path}"
    if check.switched_off:
        return f"{check.tool} is switched off by the text of {_quote_tests(check.switched_off)}; it {noticed}"
    return f"{check.tool} {noticed}"


def failed_before_in_words(proof: TestProof) -> str:
    """Return for people the result of a failed command without the change; empty when it succeeds there or is unknown."""
    if proof.failed_before:
        return f"failed before the change too: {_quote_tests(proof.failed_before)}"
    return f"it failed before the change too (it ended with {proof.exit_before})" if proof.exit_before else ""


def baseline_tests_in_words(tests: BaselineTests) -> str:
    """Return the results of the baseline's tests on the candidate in one line for people."""
    counts = tests.counts
    if counts is None:
        results = f"could not be loaded, and the command ended with {tests.exit_code}"
    else:
        parts = [f"{counts.passed} passed"]
        parts += [f"{counts.failed} failed"] if counts.failed else []
        parts += [f"{counts.skipped} skipped"] if counts.skipped else []
        parts += [f"{tests.unrun_count} did not run"] if tests.unrun_count else []
        parts += [f"the command ended with {tests.exit_code}"] if tests.exit_code and not counts.failed else []
        results = ", ".join(parts) + (f": {_quote_tests(tests.failed)}" if tests.failed else "")
    return f"the baseline's tests on this change: {results}{_why_unended(tests)}"


def _why_unended(tests: BaselineTests) -> str:
    if tests.complete:
        return ""
    if tests.stopped:
        return f"; they were stopped at the limit of {tests.stopped}"
    if tests.rewritten:
        return f"; {_quote_tests(tests.rewritten)} was changed while they ran"
    return "; they did not all report an outcome"


def alive(proof: TestProof) -> bool:
    """Return whether the command failed because of the planted failing test, and only because of it."""
    control = proof.control
    if control is None:
        return False
    return control.exit_code != 0 and (control.failing_outcome, control.passing_outcome) == ("failed", "passed")


def file_of(test: str) -> str:
    """Return the file at the beginning of a test id, where there is one."""
    return test.partition("::")[0]


def test_of_case(name: str) -> str:
    """Return the test that a case belongs to, by its id; empty for a test without cases."""
    return name.partition("[")[0] if name.endswith("]") and "::" in name.partition("[")[0] else ""


def _is_instrumented(command: TestCommand) -> bool:
    return command.proof is not None and bool(command.proof.framework)


def _check_proof(command: TestCommand, contract: TaskContract) -> Iterator[Broken]:
    """Check a proof.

    1. The runner was not modified.
    2. All tests were reported, in their current form.
    3. Something ran.
    4. It could have failed.
    5. No test is lost.
    """
    proof, name = command.proof, command.name
    if proof is None:
        return
    counts = proof.counts
    contradictory = counts is not None and _contradict(proof, counts)
    if patched := [each for each in proof.patched if not _name_tests(file_of(each), contract)]:  # 1
        yield from _by_patch(patched, name)
        return
    if not proof.complete or counts is None or counts.failed or proof.duplicates or proof.rewritten or contradictory:  # 2
        yield Broken("report_missing", RULE, f"{name}: {_what_is_missing(proof)}")
        return
    if not counts.passed:  # 3
        skipped = f", {counts.skipped} were skipped" if counts.skipped else ""
        yield Broken("tests_none", RULE, f"{name}: no test ran{skipped}")
        return
    if not alive(proof) and not proof.unproven:  # 4
        yield Broken("tests_not_alive", RULE, f"{name}: {_how_the_control_ended(proof)}")
    yield from _check_lost_tests(proof, name, contract)  # 5


def _name_tests(path: str, contract: TaskContract) -> bool:
    """Return whether the contract opens exactly this file. An opened folder does not allow its files to modify the runner."""
    return bool(path) and contract.scope is not None and path in contract.scope.allow_protected_paths


def _by_patch(patched: Iterable[str], name: str) -> Iterator[Broken]:
    found: dict[str, list[str]] = {}
    for each in patched:
        path, _, what = each.partition("::")
        found.setdefault(path, []).append(what)
    for path, its in found.items():
        words = f"{name}: not as the runner brought it: {_quote_tests(its)}"
        yield Broken("runner_patched", RULE, words, path.encode("utf-8", "surrogatepass") or None)


def _contradict(proof: TestProof, counts: TestCounts) -> bool:
    """Return whether the counts are impossible: current tests are new, or existed before and are not lost."""
    now = counts.passed + counts.failed + counts.skipped
    before = now if proof.collected_before is None else proof.collected_before
    stayed = now - proof.new_count
    return (
        stayed < 0
        or stayed + proof.lost_count > before
        or len(proof.lost) > proof.lost_count
        or (proof.lost_count > 0 and not proof.lost)
        or len(proof.newly_skipped) > counts.skipped
    )


def _what_is_missing(proof: TestProof) -> str:
    if proof.rewritten:
        return f"{_quote_tests(proof.rewritten)} was changed while the tests ran"
    if proof.duplicates:
        return f"tests were reported twice: {_quote_tests(proof.duplicates)}"
    if proof.counts is not None and proof.counts.failed:
        return f"{_count_tests(proof.counts.failed)} failed, and yet the command succeeded"
    if proof.counts is not None and _contradict(proof, proof.counts):
        return "the numbers of tests before, now, lost and new contradict each other"
    return f"it succeeded, and {proof.framework} did not report a final outcome for every test"


def _how_the_control_ended(proof: TestProof) -> str:
    control = proof.control
    if control is None:
        return "the command was not run with a test that must fail"
    if control.failing_outcome != "failed":
        outcome = control.failing_outcome or "not reported"
        return f"a planted test that must fail was {outcome}, and the command ended with {control.exit_code}"
    if control.exit_code == 0:
        return "a planted test failed, and yet the command succeeded"
    return f"a planted test that must pass was {control.passing_outcome or 'not reported'}"


def _check_lost_tests(proof: TestProof, name: str, contract: TaskContract) -> Iterator[Broken]:
    """Yield lost tests. The contract permits losses in files that it opens."""
    opened = scope.AllowedPaths(contract.scope.allow_protected_paths if contract.scope is not None else ())
    lost = [test for test in proof.lost if not _covers(opened, test)]
    files = {file_of(test) for test in proof.lost}
    # The list has one test of each file before the second of any, so a second one proves that all files are listed.
    all_listed = proof.lost_count == len(proof.lost) or len(files) < len(proof.lost)
    if not all_listed:
        words = f"{name}: {_count_tests(proof.lost_count)} of the baseline did not run: {_quote_tests(lost or proof.lost)}"
        yield Broken("tests_lost", RULE, words)
    else:
        yield from _by_file(lost, f"{name}: of the baseline did not run")
    skipped = [test for test in proof.newly_skipped if not _covers(opened, test)]
    yield from _by_file(skipped, f"{name}: ran on the baseline and is skipped now")


def _by_file(tests: Iterable[str], words: str, code: str = "tests_lost") -> Iterator[Broken]:
    """Yield one fault per file, since a contract opens files."""
    found: dict[str, list[str]] = {}
    for test in tests:
        found.setdefault(file_of(test), []).append(test)
    for file, its in found.items():
        detail = f"{words}: {_quote_tests(its)}"
        yield Broken(code, RULE, detail, file.encode("utf-8", "surrogatepass"))


def _covers(opened: scope.AllowedPaths, test: str) -> bool:
    return opened.cover(file_of(test).encode("utf-8", "surrogatepass"))


def _quote_tests(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _QUOTED} more" if len(listed) > _QUOTED else ""
    return ", ".join(listed[:_QUOTED]) + more


def _count_tests(number: int) -> str:
    return f"{number} test" if number == 1 else f"{number} tests"
