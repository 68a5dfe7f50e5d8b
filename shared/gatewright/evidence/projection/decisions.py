"""Decisions of a run, each with its reason and the check that would disprove it (OmegaOS, decisions log)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from gatewright.contracts import DecisionsLog, OrchestratorEvent, TaskContract
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.work_documents import Decision
from gatewright.run import events as e
from gatewright.run.choice import RULE, why_chosen
from gatewright.run.kinds import KINDS
from gatewright.run.state import Run

#: Titles of the decisions that bind the work; the others record its course.
BINDING = frozenset({"Baseline", "Split", "Repair"})
Size = Literal["SIMPLE", "MEDIUM", "COMPLEX", "EPIC"]


def decisions_of(run: Run, records: Sequence[OrchestratorEvent]) -> DecisionsLog:
    """Return the decision log of an open or ended run.

    Raises:
        MalformedError: an event has an invalid payload.
    """
    size = _size_class(run)
    made: list[Decision] = []
    latest: dict[str, str] = {}
    for record in records:
        parts = _decision_words(e.event_of(record))
        if parts is None:
            continue
        title, decision, rationale, falsifier = parts
        payload = e.event_of(record)
        own, subject = f"{run.run_id}.d{record.seq}", _subject(payload)
        made.append(
            Decision(
                at=record.ts,
                title=title,
                task=run.accepted.user_request,
                classification=size,
                decision=decision,
                rationale=rationale,
                falsifier=falsifier,
                event=record.seq,
                by=_decider(payload),
                id=own,
                supersedes=latest.get(subject),
            )
        )
        if subject:
            latest[subject] = own
    return DecisionsLog(run_id=run.run_id, decisions=tuple(made))


def as_markdown(log: DecisionsLog) -> list[str]:
    """Format the log as Markdown. The caller must make the result printable."""
    lines = []
    for each in log.decisions:
        lines += [
            f"### [{each.at}] {each.title}",
            f"- **Task:** {' '.join(each.task.split())}",
            f"- **Classification:** {each.classification}",
            f"- **Decision:** {each.decision}" + (f" ({each.by})" if each.by else ""),
            f"- **Rationale:** {each.rationale}",
            f"- **Falsifier:** {each.falsifier}",
            "",
        ]
    return lines


def standing(log: DecisionsLog) -> tuple[Decision, ...]:
    """Return the decisions that no later decision replaces."""
    superseded = {each.supersedes for each in log.decisions if each.supersedes is not None}
    return tuple(each for each in log.decisions if each.id not in superseded)


def _subject(payload: e.RunEvent) -> str:
    """Return the subject of a decision that a later one on the same subject replaces; empty for a permanent decision."""
    match payload:
        case e.FixOrdered():
            return "repair"
        case e.CandidateComposed(candidate=number):
            return f"candidate {number or 0}"
        case _:
            return ""


def _size_class(run: Run) -> Size:
    parts = (len(run.plan.contracts) if run.plan else 1) * run.attempt
    return "SIMPLE" if parts == 1 else "MEDIUM" if parts <= 4 else "COMPLEX" if parts <= 16 else "EPIC"


def _decision_words(payload: e.RunEvent) -> tuple[str, str, str, str] | None:
    """Return title, decision, rationale and falsifier; None for an event without a decision."""
    match payload:
        case e.RunAccepted(baseline_commit=commit) if commit:
            return "Baseline", f"work from {commit}", "a ref may move, a commit does not", "policy gate: the ref names it"
        case e.ContractCompiled(contract=contract):
            return _contract(contract)
        case e.PlanAccepted(plan=plan):
            count = len(plan.contracts)
            paths = "; ".join(", ".join(shard.allowed_paths) for shard in plan.contracts)
            why = f"their paths are disjoint{_consultation_words(plan.consultation)}"
            return "Split", f"{count} shard{'s' * (count != 1)}: {paths}", why, "plan gate: disjoint"
        case e.GateJudged(report=report) if report.verdict == "FAIL":
            rules = ", ".join(dict.fromkeys(violation.rule for violation in report.violations))
            return f"Refused by the {report.gate} gate", report.code, report.summary, f"{report.gate} gate: {rules or 'passes'}"
        case e.FixOrdered(attempt=attempt, reason=reason):
            return "Repair", f"attempt {attempt} is ordered", reason, "the same gate refuses again"
        case e.CandidateComposed(tree=tree, changed_files=count, candidate=number):
            decision = f"tree {tree} is candidate {number}" if number else f"tree {tree}"
            return "Candidate", decision, f"{count} changed files compose", "integrated gate: another tree"
        case e.EnvironmentPulled(order_sha256=order):
            return "Packages", f"the tests see {payload.words}", f"order {order}", "verify: the tests see other packages"
        case e.CandidateChosen(candidate=number, standings=ranked):
            decision = f"candidate {number} of {len(ranked)} lands"
            return "Choice", decision, f"{why_chosen(ranked)}; the rule: {RULE}", "verify: choice_contradicts"
        case e.Landed(ref=ref, commit=commit, tree=tree) if ref:
            return "Landing", f"{ref} at {commit}", "every gate has passed", f"the commit has another tree than {tree}"
        case e.AbortRequested(reason=reason, requested_by=person):
            return "Abort", "the run is ended", f"{reason} ({person})", ""
        case e.RunFinished(status=status, code=code, message=message):
            return "End", f"{status}: {code}", message, "the bundle does not verify"
        case _:
            return None


def _contract(contract: TaskContract) -> tuple[str, str, str, str]:
    tests = "; ".join(test.cmd for test in contract.acceptance_tests if not test.hidden)
    ids = f" for {', '.join(contract.requirement_ids)}" if contract.requirement_ids else ""
    about = ", ".join(contract.allowed_paths) or contract.rollback.baseline_ref
    proved = f"; proved by {tests or 'hidden checks'}" if contract.acceptance_tests else ""
    decision = f"{KINDS[contract.task_type].name} {about}{ids}{proved}"
    asked = contract.consultation
    clamped = (
        f"; not taken: {', '.join(dict.fromkeys(each.field for each in asked.clamped))}" if asked and asked.clamped else ""
    )
    return "Contract", decision, f"it follows the request{_consultation_words(asked)}{clamped}", "policy gate: request"


def _consultation_words(consultation: Consultation | None) -> str:
    return f", and what {consultation.model} proposed" if consultation is not None else ""


def _decider(payload: e.RunEvent) -> Literal["pm", "techlead", "gatekeeper", "publisher"]:
    match payload:
        case e.ContractCompiled():
            return "pm"
        case e.PlanAccepted():
            return "techlead"
        case e.AbortRequested():
            return "publisher"
        case _:
            return "gatekeeper"
