"""5. Review, tests and results support their verdicts: judged again, by the rules of the gates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gatewright.contracts import GateReport
from gatewright.contracts.reports import MOST_VIOLATIONS
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, gate_file, moment_of
from gatewright.rules import reviewing
from gatewright.rules.broken import Broken
from gatewright.rules.gate_evidence import CANDIDATE_TREE
from gatewright.rules.reports import audits, mutation, replays, times, untested
from gatewright.rules.reports import proof as proofs
from gatewright.rules.reports import tests as test_rules
from gatewright.rules.reports.artifacts import broken_by_addresses, broken_by_artifacts, broken_by_consultation
from gatewright.rules.reports.proof_facts import broken_by_facts
from gatewright.rules.reports.results import broken_by_result
from gatewright.run import events as e
from gatewright.run.candidates import makers
from gatewright.run.state import Run, TaskRole

UNFOUNDED = "refusal_unfounded"
RESULT = "result_contradicts"
#: Second place of a contradiction by its code; otherwise the verdict.
_AGAINST = {
    "reviewer_wrong_tree": layout.GIT_CANDIDATE,
    "tests_wrong_tree": layout.GIT_CANDIDATE,
    "tests_incomplete": layout.CONTRACT,
    "rerun_not_allowed": layout.CONTRACT,
}


def check_reports(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check reports.

    1. A review that the reviewer gate passed does pass.
    2. A test report that the tests gate passed proves the candidate.
    3. Refusals have an actual reason.
    4. An accepted result is about its task, and has a tree.
    """
    for moment in replayed.moments:
        match moment.payload:
            case e.GateJudged(report=report) if report.gate == "reviewer":
                yield from _check_review(moment, report)  # 1, 3
            case e.GateJudged(report=report) if report.gate == "tests":
                yield from _check_tests(moment, report, replayed)  # 2, 3
            case e.TaskFinished():
                yield from _check_result(moment, moment.payload)  # 4
            case _:
                pass


def _check_review(moment: Moment, gate: GateReport) -> Iterator[Contradiction]:
    run, review = moment.before, moment.before.review
    verdict = gate_file(moment.gates, gate)
    if review is None:
        yield moment.contradiction(UNFOUNDED, verdict, layout.REVIEW_REPORT, "a verdict on a review that never came")
        return
    path = layout.review(_last_task(run, "reviewer"))
    broken = [
        *test_rules.wrong_tree(review.tree, _tree(run), "reviewer_wrong_tree"),
        *reviewing.not_independent(review, makers(moment.whole)),
        *_out_of_time(moment, review.reviewed_at),
    ]
    broken += broken_by_consultation(review.consultation)
    yield from _compare_with_verdict(
        moment, gate, path, [*broken, *reviewing.not_passed(review)], reviewing.CODES | {times.CODE}
    )


def _check_tests(moment: Moment, gate: GateReport, replayed: ReplayedRun) -> Iterator[Contradiction]:
    run, tests = moment.before, moment.before.tests
    changed = replayed.changed_by(run.candidate)
    verdict = gate_file(moment.gates, gate)
    if tests is None or run.contract is None:
        yield moment.contradiction(UNFOUNDED, verdict, layout.TEST_REPORT, "a verdict on tests that never came")
        return
    path = layout.test(_last_task(run, "testrunner"))
    # The pack's requirement is in the gatekeeper's policies: only the refused requirement is checked again.
    testing: proofs.Testing = "proved" if gate.code == proofs.UNPROVEN else "recorded"
    broken = [*test_rules.broken_by_tests(tests, _tree(run), run.contract)]
    broken += _out_of_time(moment, tests.started_at, tests.finished_at)
    broken += broken_by_artifacts(tests.artifacts)
    broken += broken_by_addresses(uri for command in tests.commands for uri in test_rules.stored_by(command))
    if tests.status == "ERROR" and any(seen.name == CANDIDATE_TREE for seen in gate.evidence):
        yield moment.contradiction(RESULT, path, verdict, "no command could be run, but the gate judged results")
    if tests.status != "ERROR":
        ordered = test_rules.match_commands(tests, run.contract)[0]
        broken += proofs.broken_by_red_first(ordered, run.contract) if gate.code == proofs.PASSES_BEFORE else ()
        broken += [*proofs.broken_by_environment(ordered), *proofs.broken_by_proof(ordered, run.contract, testing)]
        broken += proofs.broken_by_left_out(ordered, changed, testing)
        broken += untested.broken_by_untested(ordered) if gate.code == untested.UNTESTED else ()
        broken += [*untested.broken_by_coverage(ordered), *audits.broken_by_audits(ordered)]
        if gate.code in {replays.CODE, replays.UNPROVEN}:
            broken += replays.broken_by_replays(ordered, run.contract, required=gate.code == replays.UNPROVEN)
        broken += broken_by_facts(tests, ordered, replayed.known_changes(run.candidate))
        if run.accepted.mutation is not None:
            broken += mutation.broken_by_mutants(ordered, run.accepted.mutation)
            yield from _other_samples(moment, gate, ordered)
    yield from _compare_with_verdict(
        moment, gate, path, broken, test_rules.CODES | proofs.CODES | mutation.CODES | {times.CODE, replays.CODE}
    )


def _other_samples(moment: Moment, gate: GateReport, ordered: Sequence[test_rules.Ordered]) -> Iterator[Contradiction]:
    """Check that the report has the mutants that the gate recorded; a report with others, or with none, is another one."""
    reported = {mutation.evidence_of(name, sample) for name, sample in mutation.samples_of(ordered)}
    seen = {evidence for evidence in gate.evidence if evidence.name.endswith(mutation.EVIDENCE)}
    for other in sorted(evidence.name for evidence in reported ^ seen):
        path = layout.test(_last_task(moment.before, "testrunner"))
        yield moment.contradiction(RESULT, path, gate_file(moment.gates, gate), f"{other}: the gate saw other mutants")


def _compare_with_verdict(
    moment: Moment, gate: GateReport, path: str, broken: Iterable[Broken], codes: frozenset[str]
) -> Iterator[Contradiction]:
    verdict, found = gate_file(moment.gates, gate), tuple(broken)
    if gate.verdict == "PASS":
        for each in found:
            yield moment.contradiction(each.code, path, _AGAINST.get(each.code, verdict), each.detail)
        return
    if gate.code in codes and gate.code not in {each.code for each in found}:
        yield moment.contradiction(UNFOUNDED, verdict, path, f"refused as {gate.code}, and the report does not bear it out")
    named = {violation.code for violation in gate.violations}
    for each in found:
        if each.code not in named and len(gate.violations) < MOST_VIOLATIONS:
            yield moment.contradiction(each.code, path, verdict, f"{each.detail}, and the gate that refused does not name it")


def _check_result(moment: Moment, event: e.TaskFinished) -> Iterator[Contradiction]:
    result, path = event.result, layout.task_result(event.result.task_id)
    task = moment.before.tasks.get(result.task_id)
    if task is None or not event.accepted:
        return
    stamps = _out_of_time(moment, result.started_at, result.finished_at)
    artifacts = (*broken_by_artifacts(result.artifacts), *broken_by_addresses((result.git.patch,)))
    for broken in (*broken_by_result(result, task, moment.before), *stamps, *artifacts):
        yield moment.contradiction(broken.code, path, layout.task_contract(task.task_id), broken.detail)
    if result.usage is not None and (known := task.usage.get(result.usage.delivery)) != result.usage:
        words = f"it used {result.usage}, and {known or 'nothing'} was recorded"
        yield moment.contradiction(RESULT, path, layout.EVENTS, words)
    if result.status != "SUCCESS" or not event.tree:
        yield moment.contradiction(
            RESULT, path, layout.EVENTS, f"it was accepted as {result.status} with tree {event.tree or 'none'}"
        )


def _out_of_time(moment: Moment, *stamps: str) -> list[Broken]:
    """Return implausible times of a role's document; another check reports invalid times of the ledger itself."""
    if moment.when is None or moment_of(moment.before.created_at) is None:
        return []
    return list(times.broken_by_times(moment.whole, moment.when, *stamps))


def _tree(run: Run) -> str:
    return run.candidate.tree if run.candidate is not None else ""


def _last_task(run: Run, role: TaskRole) -> str:
    """Return the last task of the role."""
    task = run.last_task(role)
    return task.task_id if task is not None else "unknown"
