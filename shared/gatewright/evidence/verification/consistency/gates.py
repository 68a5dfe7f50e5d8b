"""4. Gates permitted every step, no refusal was skipped, and no verdict contradicts what it examined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gatewright.contracts import GateReport
from gatewright.contracts.reports import GateName
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, gate_file
from gatewright.rules.gate_evidence import ORDER, POLICIES
from gatewright.run import events as e
from gatewright.run.state import Run
from gatewright.run.states import QUEUED

MISSING = "gate_missing"
IGNORED = "gate_ignored"
CONTRADICTS = "gate_contradicts"
#: Verdicts on the order; they remain valid in a fix round.
_LASTING = frozenset({"schema", "policy", "plan"})
#: Gates that must have passed before an event, beside the diff gate.
_BEFORE: Mapping[type[e.RunEvent], tuple[GateName, ...]] = {
    e.CandidateChosen: ("integrated", "reviewer", "tests"),
    e.EnvironmentPulled: ("integrated", "environment"),
}


@dataclass
class _Standing:
    """Current verdicts with their files: by gate and task, and the last one of each gate.

    Verdicts on one of several candidates are separate from those on the others.
    """

    verdicts: dict[tuple[GateName, str | None], tuple[str, GateReport]] = field(default_factory=dict)
    by_gate: dict[GateName, tuple[str, GateReport]] = field(default_factory=dict)

    def add(self, path: str, report: GateReport) -> None:
        self.verdicts[report.gate, report.task_id] = self.by_gate[report.gate] = (path, report)

    def renew(self) -> None:
        """Invalidate the verdicts on the change for a new attempt."""
        self.verdicts = {key: verdict for key, verdict in self.verdicts.items() if key[0] in _LASTING}
        self.by_gate = {gate: verdict for gate, verdict in self.by_gate.items() if gate in _LASTING}

    def with_those(self, others: _Standing) -> _Standing:
        """Return these verdicts, overridden by ``others``."""
        return _Standing({**self.verdicts, **others.verdicts}, {**self.by_gate, **others.by_gate})

    def withdraw(self, *gates: GateName) -> None:
        """Remove the verdicts of gates that are about to judge."""
        for gate in gates:
            self.by_gate.pop(gate, None)


def check_gates(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check gates.

    1. Each verdict agrees with itself and with the run's records.
    2. Nothing continues after a refusal.
    3. Every step that needs a gate has its verdict.
    """
    standings: dict[int, _Standing] = defaultdict(_Standing)
    refused: Moment | None = None
    for moment in replayed.moments:
        standing = standings[moment.candidate]
        if refused is not None:
            yield from _passed_over(moment, refused)  # 2
        refused = None
        match moment.payload:
            case e.GateJudged(report=report):
                path = gate_file(moment.gates, report)
                standing.add(path, report)
                yield from _itself(moment, path, report)  # 1
                yield from _evidence(moment, path, report)
                # A refusal of one candidate stops only that one: ``_check_allowed`` checks whether it continued.
                refused = moment if report.verdict == "FAIL" and not moment.candidate else None
            case e.FixOrdered():
                for each in standings.values():
                    each.renew()
            case e.TaskDispatched(role="pm"):
                standing.withdraw("policy")
            case e.ReviewReceived():
                standing.withdraw("reviewer", "environment", "tests", "queue", "landing")
            case e.TestsReceived():
                standing.withdraw("tests", "queue", "landing")
            case _:
                whose = moment.candidate or _candidate_about(moment)
                yield from _check_allowed(moment, standings[0].with_those(standings[whose]))  # 3


def _candidate_about(moment: Moment) -> int:
    """Return the candidate of an event about the run, if it has one."""
    return moment.payload.candidate if isinstance(moment.payload, e.CandidateChosen) else moment.whole.chosen


def _passed_over(moment: Moment, refused: Moment) -> Iterator[Contradiction]:
    """Check that after a refusal the run ends, starts a fix round, or asks a person; a budget may end it at that moment."""
    asked = isinstance(moment.payload, e.ApprovalRequested) and moment.payload.request.stage == "round"
    turned = asked or (isinstance(moment.payload, e.StateEntered) and moment.payload.state in {"S5", "FAILED"})
    if turned or isinstance(moment.payload, e.BudgetExceeded) or not isinstance(refused.payload, e.GateJudged):
        return
    report = refused.payload.report
    words = f"the {report.gate} gate refused ({report.code}), and the run went on with {moment.record.event_type}"
    yield moment.contradiction(IGNORED, gate_file(refused.gates, report), layout.EVENTS, words)


def _itself(moment: Moment, path: str, report: GateReport) -> Iterator[Contradiction]:
    broken = bool(report.violations) or any(rule.verdict == "FAIL" for rule in report.rules)
    if report.verdict == "PASS" and (broken or report.code != "ok"):
        yield moment.contradiction(CONTRADICTS, path, path, "the verdict is PASS, and a rule was broken")
    if report.verdict == "FAIL" and (not report.violations or report.violations[0].code != report.code):
        yield moment.contradiction(CONTRADICTS, path, path, f"the verdict is FAIL as {report.code}, and no violation begins so")
    applied = {rule.rule for rule in report.rules}
    for remark in report.remarks:
        if remark.rule not in applied:
            yield moment.contradiction(CONTRADICTS, path, path, f"a remark names the rule {remark.rule}, which was not applied")


def _evidence(moment: Moment, path: str, report: GateReport) -> Iterator[Contradiction]:
    """Compare the objects that a gate examined with the state of the run at that time."""
    for name, (expected, against) in _looked_at(moment.before, report).items():
        for seen in report.evidence:
            if seen.name == name and expected and seen.digest != expected:
                yield moment.contradiction(
                    CONTRADICTS, path, against, f"the gate looked at {name} {seen.digest}, and it was {expected}"
                )


def _looked_at(run: Run, report: GateReport) -> Mapping[str, tuple[str, str]]:
    tree = run.candidate.tree if run.candidate is not None else ""
    accepted = run.accepted
    match report.gate:
        case "policy":
            # The submission is judged at acceptance. A contract that is compiled later may be judged by other policies, which
            # its verdict names.
            submitted = {} if run.tasks else {POLICIES: (accepted.policy_sha256, layout.META)}
            return submitted | {
                "baseline_commit": (accepted.baseline_commit, layout.GIT_BASELINE),
                "baseline_tree": (accepted.baseline_tree, layout.GIT_BASELINE_TREE),
            }
        case "diff" | "citations":
            task = run.tasks.get(report.task_id or "")
            if task is None or task.result is None:
                return {}
            result = layout.task_result(task.task_id)
            return {"patch": (task.result.git.patch, result), "candidate_tree": (task.tree, layout.EVENTS)}
        case "landing" if run.state == QUEUED:
            return {}  # the receipt proves the tree
        case "environment":
            order = run.changed_order
            facts = {"candidate_tree": (tree, layout.GIT_CANDIDATE)}
            return facts | ({ORDER: (order.sha256, layout.EVENTS)} if order is not None else {})
        case "reviewer" | "tests" | "approval" | "queue" | "landing":
            return {"candidate_tree": (tree, layout.GIT_CANDIDATE), "tree": (tree, layout.GIT_CANDIDATE)}
        case _:
            return {}


def _check_allowed(moment: Moment, standing: _Standing) -> Iterator[Contradiction]:
    run = moment.before
    match moment.payload:
        case e.StateEntered(state="S1") | e.ContractCompiled():
            yield from _need(moment, standing, "policy", layout.CONTRACT)
        case e.PlanAccepted(plan=plan):
            yield from _need(moment, standing, "plan", layout.task_plan(plan.task_id))
        case e.LocksTaken(token=token):
            yield from _need(moment, standing, "locks", layout.EVENTS)
            yield from _same(moment, standing, "locks", {"token": (str(token), layout.EVENTS)})
        case e.CandidateComposed(tree=tree, patch=patch):
            yield from _need(moment, standing, "integrated", layout.GIT_CANDIDATE)
            facts = {"candidate_tree": (tree, layout.GIT_CANDIDATE), "patch": (patch, layout.PATCH)}
            facts |= {task.task_id: (task.tree, layout.EVENTS) for task in run.workers()}
            yield from _same(moment, standing, "integrated", facts)
            for task in run.workers():
                yield from _need(moment, standing, run.kind.work_gate, layout.task_result(task.task_id), task.task_id)
        case e.TaskDispatched(role="reviewer") if moment.candidate:
            yield from _need(moment, standing, "integrated", layout.GIT_CANDIDATE)
        case e.TaskDispatched(role="testrunner") if moment.candidate:
            yield from _need(moment, standing, "reviewer", layout.REVIEW_REPORT)
        case e.CandidateChosen() | e.EnvironmentPulled():
            for gate in _BEFORE[type(moment.payload)]:
                yield from _need(moment, standing, gate, layout.EVENTS)
        case e.StateEntered(state="S4") if not run.candidates:
            before: GateName = "reviewer" if run.kind.reviews else "integrated"
            yield from _need(moment, standing, before, layout.REVIEW_REPORT if run.kind.reviews else layout.EVENTS)
        case e.StateEntered(state="QUEUED" | "S6") | e.Landed():
            yield from _check_end_allowed(moment, standing)
        case _:
            pass


def _check_end_allowed(moment: Moment, standing: _Standing) -> Iterator[Contradiction]:
    if isinstance(moment.payload, e.StateEntered) and moment.payload.state == "S6":
        yield from _need(moment, standing, moment.before.kind.gate, layout.MANIFEST)
        return
    yield from _need(moment, standing, "tests", layout.TEST_REPORT)
    match moment.payload:
        case e.Landed(commit=commit, tree=tree):
            yield from _need(moment, standing, "landing", layout.GIT_LANDED)
            facts = {"commit": (commit, layout.GIT_LANDED), "tree": (tree, layout.GIT_LANDED)}
            yield from _same(moment, standing, "landing", facts)
        case _:
            yield from _need(moment, standing, "queue", layout.GIT_CANDIDATE)


def _need(
    moment: Moment, standing: _Standing, gate: GateName, path: str, task_id: str | None = None
) -> Iterator[Contradiction]:
    """Require a PASS verdict of this gate, on the task where one is named."""
    found = standing.verdicts.get((gate, task_id)) if task_id is not None else standing.by_gate.get(gate)
    about = f" on {task_id}" if task_id is not None else ""
    if found is None:
        words = f"{moment.record.event_type}, and the {gate} gate gave no verdict{about}"
        yield moment.contradiction(MISSING, path, layout.EVENTS, words)
    elif found[1].verdict != "PASS":
        yield moment.contradiction(
            IGNORED, found[0], path, f"{moment.record.event_type}, and the {gate} gate had refused{about}"
        )


def _same(moment: Moment, standing: _Standing, gate: GateName, facts: Mapping[str, tuple[str, str]]) -> Iterator[Contradiction]:
    found = standing.by_gate.get(gate)
    if found is None:
        return
    path, report = found
    for seen in report.evidence:
        expected, against = facts.get(seen.name, (seen.digest, ""))
        if seen.digest != expected:
            words = f"the gate looked at {seen.name} {seen.digest}, and {expected} was recorded"
            yield moment.contradiction(CONTRADICTS, path, against, words)
