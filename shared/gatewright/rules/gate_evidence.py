"""Objects that each gate must examine, and rules that it must apply: missing evidence is a finding, never a pass.

The gates take names and digests from here, and ``verify`` compares a report with the same list. A gate may name more, such as
files and rules of the operator's policies, which no bundle contains.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from gatewright.artifacts import stored_uri
from gatewright.contracts import GateReport, Plan, ReviewReport, RunRequest, TaskContract, TestReport, codec
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.reports import MOST_VIOLATIONS, GateName
from gatewright.contracts.task_contract import RequiredOutput
from gatewright.contracts.vocabulary import MAX_INTEGER, Artifact
from gatewright.environment_inventory.summary import ARTIFACT
from gatewright.models.recorded_transfers import records_in
from gatewright.research.findings import is_finding
from gatewright.rules.approvals import request_digest
from gatewright.rules.reports import mutation
from gatewright.rules.reports.completion import RULES as COMPLETION
from gatewright.rules.reports.tests import Ordered, match_commands
from gatewright.rules.standing import rests_on_people
from gatewright.rules.transfers import FILE as TRANSFERS
from gatewright.run import events as e
from gatewright.run.state import Run

#: Digest over all policies and, with a file name, of a policy that changed since the run was accepted.
POLICIES = "policies"
#: The rule of the policy gate whose detail is the requested baseline.
BASELINE = "baseline"
BASELINE_COMMIT, BASELINE_TREE = "baseline_commit", "baseline_tree"
#: The schema of a role's answer.
OUTPUT_SCHEMA = "output_schema"
PLAN, TOKEN, PATCH, CANDIDATE_TREE, REPORT = "plan", "token", "patch", "candidate_tree", "report"
#: Policy file with the people who may decide.
ROSTER = "approvers.json"
FILES_WRITTEN, FILES_REMOVED, FILES_LOST = "files_written", "files_removed", "files_lost"
SECRET_SCANNER, ENVIRONMENT, FLAKY = "secret_scanner", "environment", "flaky"
COMMIT, TREE, ORDER = "commit", "tree", "environment_order"
#: The rule of the integrated gate on a candidate that is taken from commits.
COMMITS_RULE = "commits"
#: Prefix of rules on commands: each is a part of one rule on all of them.
COMMANDS = "commands."
#: The test runner's record of the candidate's files that commands edited.
WORKSPACE_CHANGES = "workspace_changes"

_CHANGE = frozenset(
    {
        *("protected_paths.limits", "protected_paths.limits.names", "allowed_paths", "git_paths", "file_modes"),
        *("protected_paths.sacred", "destructive_operations", "readable_names", "path_collisions", "symlink_targets"),
        *(f"change_kinds.{kind}" for kind in ("submodule", "symlink", "executable", "mode_change", "gitattributes")),
        *(f"change_kinds.{kind}" for kind in ("gitmodules", "binary")),
    }
)
_PLAN = frozenset(
    {"dispatch.table", "dispatch.owner", "task_id", "contract", "least_privilege", "allowed_paths", "disjoint", "batches"}
    | {"candidates", "sharding", "times"}
)
#: Rules that a passing gate has always applied. Rules that depend on contracts or policies are not listed.
RULES: dict[GateName, frozenset[str]] = {
    "policy": frozenset({"danger_full_access", "allowed_paths", "protected_paths.sacred", "command_allowlist", "repository"}),
    "plan": _PLAN,
    "diff": frozenset({"patch", "task_result", "times", "artifacts", *_CHANGE}),
    "citations": frozenset({"citations", "task_result", "times", "artifacts"}),
    "integrated": frozenset({"empty_diff", "file_ownership", "secrets", *_CHANGE}),
    "reviewer": frozenset({"same_tree", "reviewer_gate", "read_only", "times"}),
    "tests": frozenset({"same_tree", "tests_gate", "rerun", "acceptance_tests"})
    | {"test_proof", "proof_facts", "times", "artifacts"},
    "environment": frozenset({"changed_packages", "puller"}),
    "queue": frozenset(COMPLETION),
    "landing": frozenset(COMPLETION),
}


#: The same for a candidate that no worker made.
_EXAMINED = frozenset({COMMITS_RULE, "secrets"})


class LookedAt(NamedTuple):
    """An object that a gate must name; ``digest`` is None where only the gate knows it."""

    name: str
    digest: str | None


_OWNS = " owns"


def owned_files(task_id: str) -> str:
    """Return the name of the integrated gate's rule on the number of files that a worker changed."""
    return f"{task_id}{_OWNS}"


def decided_request(request_id: str) -> str:
    """Return the name under which the approval gate records a decided request."""
    return f"request {request_id}"


def decided_rule(rule: str) -> str:
    """Return the name under which the approval gate lists an answered rule of the policy."""
    return f"approval.{rule}"


def required_output(output: RequiredOutput) -> str:
    """Return the name under which the landing gate records a required output."""
    return f"output.{output.type}.{output.name}"


def document_uri(document: ReviewReport | TestReport) -> str:
    """Return the artifact URI under which a gate stores a role's report."""
    return stored_uri(hashlib.sha256(codec.encode(document)).hexdigest())


def plan_digest(plan: Plan) -> str:
    """Return the digest of a plan, as the plan gate records it."""
    return hashlib.sha256(codec.encode(plan)).hexdigest()


def of_commands(ordered: Sequence[Ordered]) -> Iterator[tuple[str, str]]:
    """Yield the evidence of the tests gate on each command that ran."""
    for one in ordered:
        for command in one.runs:
            name = one.test.name if command.run == 1 else f"{one.test.name}.run{command.run}"
            yield f"{name}.stdout", command.stdout
            yield f"{name}.exit", f"{command.exit_code} {command.stopped}".strip()
            if command.proof is not None and command.proof.table:
                yield f"{name}.tests", command.proof.table
        if one.flaky:
            yield FLAKY, one.test.name


def of_surroundings(tests: TestReport) -> Iterator[tuple[str, str]]:
    """Yield the evidence of the tests gate on the environment and edits of commands."""
    tested = tests.surroundings.environment if tests.surroundings is not None else None
    if tested is not None:
        yield ENVIRONMENT, tested.files_sha256
    for artifact in tests.artifacts:
        if artifact.name in {WORKSPACE_CHANGES, ARTIFACT}:
            yield artifact.name, artifact.sha256


Decision = e.ApprovalDecided | e.ApprovalByGrant


def expected_evidence(
    run: Run,
    report: GateReport,
    decisions: Sequence[Decision] = (),
    following: Sequence[e.RunEvent] = (),
    held: e.RosterHeld | None = None,
) -> tuple[LookedAt, ...]:
    """Return what the report must name.

    A refusing gate may stop early: of those, only the reviewer, tests and approval gates examine everything.

    Args:
        run: the run before the verdict, seen from the candidate of the verdict.
        report: the verdict.
        decisions: the decisions of people that the verdict is about.
        following: the events that resulted.
        held: the roster comparison recorded right before it.
    """
    match report.gate:
        case "reviewer" if run.review is not None:
            found = (*_candidate(run), LookedAt(REPORT, document_uri(run.review)), *_calls(run, run.review.consultation))
            return tuple(found)
        case "tests" if run.tests is not None:
            return (*_examined_tests(run, run.tests), LookedAt(REPORT, document_uri(run.tests)))
        case "approval":
            return tuple(_approval(run, decisions))
        case _ if report.verdict != "PASS":
            return ()
        case "policy":
            return tuple(_policy(run, _first_event(following, e.ContractCompiled)))
        case "plan":
            return tuple(_plan(run, _first_event(following, e.PlanAccepted)))
        case "locks":
            taken = _first_event(following, e.LocksTaken)
            return (LookedAt(TOKEN, str(taken.token) if taken is not None else None),)
        case "diff":
            return tuple(_diff(run, report))
        case "citations":
            return tuple(_citations(run, report))
        case "integrated":
            return tuple(_integrated_evidence(run, _first_event(following, e.CandidateComposed)))
        case _:
            return tuple(_after_review(run, report.gate, _first_event(following, e.Landed), held))


def faults_of_evidence(report: GateReport, expected: Sequence[LookedAt]) -> Iterator[str]:
    """Yield as text which required evidence the report lacks, or names differently or repeatedly."""
    wanted: dict[str, list[str | None]] = {}
    for name, digest in expected:
        wanted.setdefault(name, []).append(digest)
    for name, digests in wanted.items():
        named = [seen.digest for seen in report.evidence if seen.name == name]
        if len(named) != len(digests):
            yield f"the {report.gate} gate names {name} {len(named)} times, and it looks at {len(digests)}"
            continue
        known = Counter(digest for digest in digests if digest is not None)
        if known - Counter(named):
            yield f"the {report.gate} gate looked at {name} {', '.join(named)}, and it was {', '.join(sorted(known))}"


def missing_rules(run: Run, report: GateReport, decisions: Sequence[Decision] = ()) -> tuple[str, ...]:
    """Return the rules that a gate must have applied but does not name.

    A refusing gate may stop early, except the reviewer gate and the tests gate on executable tests.
    """
    whole = report.gate == "reviewer" or (report.gate == "tests" and run.tests is not None and run.tests.status != "ERROR")
    if report.verdict != "PASS" and not whole:
        return ()
    asked = [run.approvals.get(each.request_id) for each in decisions if report.gate == "approval"]
    rules = _EXAMINED if run.kind.examines and report.gate == "integrated" else RULES.get(report.gate, frozenset())
    wanted = rules | {decided_rule(each.request.rule) for each in asked if each is not None}
    return tuple(sorted(wanted - {rule.rule for rule in report.rules}))


def faults_of_violations(report: GateReport) -> Iterator[str]:
    """Yield as text repeated rules, and violations of a refusal that match none of its broken rules."""
    names = [rule.rule for rule in report.rules]
    if len(names) != len(set(names)):
        yield "it names a rule twice"
    if report.verdict == "PASS" or len(report.violations) == MOST_VIOLATIONS:
        return
    broken = {rule.rule for rule in report.rules if rule.verdict == "FAIL" and not rule.rule.startswith(COMMANDS)}
    violated = {violation.rule for violation in report.violations}
    if broken != violated:
        yield f"it refuses for {', '.join(sorted(violated))}, and calls {', '.join(sorted(broken)) or 'no rule'} broken"


def faults_of_counts(report: GateReport, composed: e.CandidateComposed | None) -> Iterator[str]:
    """Yield as text inconsistent file counts of an integrated candidate ``composed``."""
    if report.gate != "integrated" or composed is None:
        return
    number = composed.changed_files
    written = [_count(seen.digest) for seen in report.evidence if seen.name in {FILES_WRITTEN, FILES_REMOVED}]
    lost = [_count(seen.digest) for seen in report.evidence if seen.name == FILES_LOST]
    if None in (*written, *lost) or sum(filter(None, written)) > number or sum(filter(None, lost)) > number:
        yield f"{number} files were changed, and it counts others that were written, removed or lost"
    owned = [seen.digest for seen in report.evidence if seen.name.endswith(_OWNS)]
    parts = [_count(words.removesuffix(f" of {number} changed files")) for words in owned]
    if None in parts or sum(filter(None, parts)) != number:
        yield f"{number} files were changed, and its workers own {', '.join(owned)}"


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < len(str(MAX_INTEGER)) else None


def _candidate(run: Run) -> Iterator[LookedAt]:
    if run.candidate is not None:
        yield LookedAt(CANDIDATE_TREE, run.candidate.tree)


def _after_review(run: Run, gate: GateName, landed: e.Landed | None, held: e.RosterHeld | None) -> Iterator[LookedAt]:
    if gate in {"queue", "landing"}:
        yield from _landing(run, landed, held)
    elif gate == "environment":
        yield from _pulled(run)


def _pulled(run: Run) -> Iterator[LookedAt]:
    yield from _candidate(run)
    if run.changed_order is not None:
        yield LookedAt(ORDER, run.changed_order.sha256)


def _calls(run: Run, asked: Consultation | Sequence[Artifact] | None) -> Iterator[LookedAt]:
    """Yield the records of model calls, where a policy controls transfers to providers."""
    artifacts = asked.artifacts if isinstance(asked, Consultation) else asked or ()
    if TRANSFERS in run.accepted.policies and (kept := records_in(artifacts)) is not None:
        yield LookedAt(kept.name, kept.sha256)


_P = TypeVar("_P", bound=e.RunEvent)


def _first_event(events: Sequence[e.RunEvent], kind: type[_P]) -> _P | None:
    return next((event for event in events if isinstance(event, kind)), None)


def _policy(run: Run, compiled: e.ContractCompiled | None) -> Iterator[LookedAt]:
    accepted = run.accepted
    if run.tasks:
        if compiled is not None:
            yield LookedAt(f"{OUTPUT_SCHEMA}.{compiled.contract.assigned_agent.role.lower()}", None)
            yield from _calls(run, compiled.contract.consultation)
        return
    order: RunRequest | TaskContract | None = accepted.request or accepted.contract
    yield LookedAt(POLICIES, accepted.policy_sha256)
    if order is not None and order.repository is not None:
        yield LookedAt(BASELINE_COMMIT, accepted.baseline_commit)
        yield LookedAt(BASELINE_TREE, accepted.baseline_tree)
    if isinstance(order, TaskContract):
        yield LookedAt(f"{OUTPUT_SCHEMA}.{order.assigned_agent.role.lower()}", None)
    given = () if order is None else order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    yield from (LookedAt(artifact.name, artifact.sha256) for artifact in given)


def _plan(run: Run, accepted: e.PlanAccepted | None) -> Iterator[LookedAt]:
    yield LookedAt(PLAN, plan_digest(accepted.plan) if accepted is not None else None)
    if accepted is not None:
        yield from _calls(run, accepted.plan.consultation)


def _diff(run: Run, report: GateReport) -> Iterator[LookedAt]:
    task = run.tasks.get(report.task_id or "")
    if task is None or task.result is None:
        return
    yield LookedAt(PATCH, task.result.git.patch)
    yield LookedAt(CANDIDATE_TREE, task.tree)
    yield from (LookedAt(name, None) for name in (FILES_WRITTEN, FILES_REMOVED, FILES_LOST))
    yield from _calls(run, task.result.artifacts)


def _citations(run: Run, report: GateReport) -> Iterator[LookedAt]:
    task = run.tasks.get(report.task_id or "")
    if task is None or task.result is None:
        return
    yield from (LookedAt(each.name, each.sha256) for each in task.result.artifacts if is_finding(each.name))
    yield from _calls(run, task.result.artifacts)


def _integrated_evidence(run: Run, composed: e.CandidateComposed | None) -> Iterator[LookedAt]:
    yield LookedAt(CANDIDATE_TREE, composed.tree if composed is not None else None)
    yield LookedAt(PATCH, composed.patch if composed is not None else None)
    for task in () if run.kind.examines else run.workers():
        yield LookedAt(task.task_id, task.tree)
        yield LookedAt(owned_files(task.task_id), None)
    counted = () if run.kind.examines else (FILES_WRITTEN, FILES_REMOVED, FILES_LOST)
    yield from (LookedAt(name, None) for name in (*counted, SECRET_SCANNER))


def _examined_tests(run: Run, tests: TestReport) -> Iterator[LookedAt]:
    if tests.status == "ERROR" or run.contract is None:
        return
    yield from _candidate(run)
    ordered = match_commands(tests, run.contract)[0]
    if run.accepted.mutation is not None:
        for name, sample in mutation.samples_of(ordered):
            yield LookedAt(f"{name}{mutation.EVIDENCE}", mutation.sample_digest(sample))
    for pair in (*of_commands(ordered), *of_surroundings(tests)):
        yield LookedAt(*pair)


def _approval(run: Run, decisions: Sequence[Decision]) -> Iterator[LookedAt]:
    yield from (LookedAt(ROSTER, sha256) for sha256 in sorted({each.roster_sha256 for each in decisions}))
    for each in decisions:
        asked = run.approvals.get(each.request_id)
        if isinstance(each, e.ApprovalDecided) and asked is not None:
            yield LookedAt(decided_request(each.request_id), request_digest(asked.request))
    yield from _candidate(run)


def _landing(run: Run, landed: e.Landed | None, held: e.RosterHeld | None) -> Iterator[LookedAt]:
    if held is not None or rests_on_people(run):
        yield LookedAt(ROSTER, held.roster_sha256 if held is not None else None)
    yield LookedAt(TREE, landed.tree if landed is not None else None)
    if landed is not None and landed.commit:
        yield LookedAt(COMMIT, landed.commit)
    for output in run.contract.required_outputs if run.contract is not None else ():
        yield LookedAt(required_output(output), _output_place(output, run))


def _output_place(output: RequiredOutput, run: Run) -> str | None:
    """Return the location of a required output, as far as the run records it."""
    if run.candidate is None:
        return None
    return {"patch": run.candidate.patch, "commit": run.candidate.tree}.get(output.type)
