"""The reviewer gate and the tests gate: a role's report is accepted only for the composed tree, and only when complete."""

from __future__ import annotations

from collections.abc import Iterable

from gatewright.contracts import ReviewReport, TaskContract, TestReport
from gatewright.environment_state import ADVICE, CHANGED
from gatewright.git.paths import display
from gatewright.patterns import TextPattern
from gatewright.rules.broken import Broken
from gatewright.rules.gate_evidence import CANDIDATE_TREE, WORKSPACE_CHANGES, of_commands, of_surroundings
from gatewright.rules.reports import audits, mutation, replays, untested
from gatewright.rules.reports import proof as proofs
from gatewright.rules.reports.proof_facts import RULE, broken_by_facts
from gatewright.rules.reports.tests import Ordered, broken_by_tests, match_commands, wrong_tree
from gatewright.rules.reviewing import not_independent, not_passed
from gatewright.run.state import Run, RunTask
from gatewright.services.gatekeeper.gates.context import GateContext
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder

#: The reason of approval rules about proofs, and the advice where there is none.
_PROOF = "proof"
_NO_RULE = "no approval rule asks a person about it: the operator can add one of the reason proof to approval_rules.json"
_URI = TextPattern(r"artifact:sha256:[0-9a-fA-F]{64}|data:[^\s\"']*,")


def judge_review(context: GateContext, review: ReviewReport, run: Run, makers: Iterable[RunTask]) -> None:
    """Judge a review.

    1. It is about the right tree.
    2. The reviewer is independent of the makers.
    3. It submits no files.
    4. It passed the candidate.

    The schema requires ``produced_diff`` to be false, so a report with true is never decoded. The gatekeeper's composed
    candidate lands, so a reviewer has no place for a change; a review that refers to other bytes tries to add one.
    """
    report = context.report
    report.checked("same_tree")
    report.saw(CANDIDATE_TREE, _candidate(run))
    for broken in wrong_tree(review.tree, _candidate(run), "reviewer_wrong_tree"):  # 1
        report.violate(*broken)
    report.checked("reviewer_gate")
    for broken in not_independent(review, makers):  # 2
        report.violate(*broken)
    report.checked("read_only")
    for uri in sorted(_handed_over(review) - _shown_files(run)):  # 3
        report.violate("reviewer_produced_diff", "read_only", f"the report points to {uri[:100]}, which it was not given")
    for broken in not_passed(review):  # 4
        report.violate(*broken)


def judge_tests(context: GateContext, tests: TestReport, run: Run, contract: TaskContract, changed: tuple[bytes, ...]) -> None:
    """Judge whether the acceptance commands prove the candidate.

    Applies the rules of ``gatewright.rules.reports.tests`` and, if the contract's pack requires proof, of ``proof`` beside it.
    Also checks that the environment is the one that the change was made with. ``changed`` are the candidate's paths.
    """
    report, candidate = context.report, _candidate(run)
    if tests.status != "ERROR":
        report.saw(CANDIDATE_TREE, candidate)
        for rule in ("same_tree", "tests_gate", "rerun", "acceptance_tests"):
            report.checked(rule)
    ordered = match_commands(tests, contract)[0] if tests.status != "ERROR" else ()
    # First: results of another copy prove nothing about the candidate.
    for broken in (*proofs.broken_by_environment(ordered), *broken_by_tests(tests, candidate, contract)):
        report.violate(*broken)
    if tests.status == "ERROR":
        return
    _judge_proof(context, ordered, run, contract, changed)
    report.checked(RULE)
    for broken in broken_by_facts(tests, ordered, changed):
        report.violate(*broken)
    _judge_mutants(context, ordered, run)
    for seen in (*of_commands(ordered), *of_surroundings(tests)):
        report.saw(*seen)
    for one in ordered:
        if one.flaky:
            report.note(f"flaky: {one.test.name} passed when it was run again")
    _same_environment(report, tests, run)
    if any(artifact.name == WORKSPACE_CHANGES for artifact in tests.artifacts):
        report.note("commands edited files of the candidate, and these edits do not land")


def _judge_proof(
    context: GateContext, ordered: tuple[Ordered, ...], run: Run, contract: TaskContract, changed: tuple[bytes, ...]
) -> None:
    """Report what is unproven, if the pack does not refuse it, and the results of the baseline's tests."""
    packs = context.policies.packs
    name = contract.policy_pack or packs.default
    pack = packs.pack(name)
    words = f"policy_pack.{name}.testing: {pack.testing}, untested_change: {pack.untested_change}"
    words += f", passes_without_change: {pack.passes_without_change}, behaviour: {pack.behaviour}"
    context.report.checked(proofs.RULE, words)
    found = [*proofs.broken_by_proof(ordered, contract, pack.testing)]
    found += proofs.broken_by_left_out(ordered, changed, pack.testing)
    found += [*untested.broken_by_coverage(ordered), *audits.broken_by_audits(ordered)]
    for broken in found:
        context.report.violate(*broken)
    _judge_by_pack(context, run, pack.passes_without_change, proofs.broken_by_red_first(ordered, contract))
    required = pack.behaviour == "required"
    _judge_by_pack(context, run, pack.behaviour, replays.broken_by_replays(ordered, contract, required=required))
    _judge_by_pack(context, run, pack.untested_change, untested.broken_by_untested(ordered))
    for words, files in untested.untested_changes(ordered).items() if pack.untested_change == "recorded" else ():
        context.report.note(f"{words}: {', '.join(files)}")
    if endings := untested.unmeasured_changes(ordered):
        context.report.note(f"not measured: whether tests use the changed {', '.join(endings)} files")
    for one in ordered:
        proof = one.final.proof
        if not one.test.must_pass or proof is None:
            continue
        notes = [f"unproven: {proof.unproven}" if proof.unproven else "", proofs.failed_before_in_words(proof)]
        if proof.red_first is not None and not one.test.hidden:
            notes.append(proofs.red_first_in_words(proof.red_first, contract))
        if proof.coverage is not None:
            notes.append(untested.coverage_in_words(proof.coverage))
        if proof.audit is not None:
            notes.append(audits.audit_in_words(proof.audit))
        if proof.baseline_tests is not None:
            notes.append(proofs.baseline_tests_in_words(proof.baseline_tests))
        for words in filter(None, notes):
            context.report.note(f"{one.test.name}: {words}")


def _judge_by_pack(context: GateContext, run: Run, rule: replays.Behaviour, found: Iterable[Broken]) -> None:
    """Refuse what the pack refuses. ``asked``: add a request for approval instead, where an approval rule asks a person."""
    has_rule = run.kind.lands and any(each.reason == _PROOF for each in run.accepted.approval_rules)
    for broken in found if rule != "recorded" else ():
        if rule != "asked":
            context.report.violate(*broken)
        elif has_rule:
            where = f": {display(broken.path)}" if broken.path is not None else ""
            context.report.asks(_PROOF, f"{broken.detail}{where}")
        else:
            context.report.violate(*broken._replace(detail=f"{broken.detail}; {_NO_RULE}"))


def _judge_mutants(context: GateContext, ordered: tuple[Ordered, ...], run: Run) -> None:
    """Judge mutants by the policy of acceptance time, which the test runner received."""
    bounds = run.accepted.mutation
    if bounds is None:
        return
    context.report.checked(mutation.RULE, mutation.asked_in_words(bounds))
    for broken in mutation.broken_by_mutants(ordered, bounds):
        context.report.violate(*broken)
    for name, sample in mutation.samples_of(ordered):
        context.report.note(f"{name}: {mutation.sample_in_words(sample)}")
        seen = mutation.evidence_of(name, sample)
        context.report.saw(seen.name, seen.digest)


def _same_environment(report: GateReportBuilder, tests: TestReport, run: Run) -> None:
    """Compare environments of one host only: another host may have a different environment at the same path."""
    tested = tests.surroundings.environment if tests.surroundings is not None else None
    if tested is None:
        return
    for task in run.workers():
        worked = task.result.surroundings if task.result is not None else None
        used = worked.environment if worked is not None else None
        if used is not None and used.place_sha256 == tested.place_sha256 and used.files_sha256 != tested.files_sha256:
            words = f"{tested.prefix} is not what it was when {task.task_id} used it; {ADVICE}"
            report.violate(CHANGED, "same_environment", words)
            return


def _handed_over(report: ReviewReport) -> set[str]:
    """Return every artifact that a review refers to, in any field."""
    words = [report.summary, *report.evidence, *report.scope_check.violations]
    words += [text for finding in report.findings for text in (finding.code, finding.message, finding.path or "")]
    return {uri for text in words for uri in _URI.findall(text)}


def _shown_files(run: Run) -> set[str]:
    """Return the files that the reviewer received."""
    uris = {run.candidate.patch, run.candidate.names} if run.candidate is not None else set()
    tasks = [task.contract for task in run.tasks.values() if task.role == "reviewer" and task.contract is not None]
    return uris | {artifact.uri for task in tasks for artifact in task.inputs.artifacts}


def _candidate(run: Run) -> str:
    return run.candidate.tree if run.candidate is not None else ""
