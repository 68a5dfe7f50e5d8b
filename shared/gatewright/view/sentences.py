"""Events of a run as lines of text for people. Pure; the displays decide how a line looks on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gatewright.budgets import Excess, amount_words
from gatewright.clock import SystemClock, timestamp
from gatewright.contracts import (
    AgentActivity,
    Error,
    GateReport,
    OrchestratorEvent,
    ReviewReport,
    ReviewRouting,
    SummonsAnswer,
    TestReport,
)
from gatewright.contracts.consultation import Clamp, Consultation
from gatewright.contracts.reports import Violation
from gatewright.ledger.expiry import expired_words
from gatewright.order_form.words import in_options
from gatewright.rules.critic import critic_words, recommendation_of
from gatewright.rules.people.signers import key_words
from gatewright.rules.reports.proof import facts_in_words
from gatewright.run import events as e
from gatewright.run.choice import why_chosen
from gatewright.run.state import Run
from gatewright.run.states import stage_name
from gatewright.view.budgets import usage_words
from gatewright.view.run_view import Mark, RunView, seconds_between
from gatewright.view.safe_text import printable
from gatewright.work_documents.remarks import (
    RunRemark,
    advice_remarks,
    first_lines,
    gate_remarks,
    review_remarks,
    test_remarks,
    worker_remarks,
)

SIGNS: dict[Mark, str] = {"good": "✔", "bad": "✘", "given": "→", "plain": "·", "warn": "!", "more": " "}

#: Maximum violations to list; a last line has the number of the others.
MOST_VIOLATIONS = 6
#: Maximum remarks to list; documents list all of them.
MOST_REMARKS = 12
#: Maximum lines of one agent message; the bundle holds the whole message.
MOST_AGENT_LINES = 8

#: Maximum clamps to list; a last line has the number of the others.
MOST_CLAMPS = 5
_CLAMP_WIDTH = 120


@dataclass(frozen=True, slots=True)
class TimelineLine:
    """One line. ``at``: seconds since acceptance. ``stage``: name such as ``S2 execute``. ``text`` is printable."""

    at: float
    stage: str
    mark: Mark
    who: str
    text: str


#: What a role does with a question of the gatekeeper, by the form of the answer.
_ADVICE = {"critic": "judges doubts before people", "qa": "looks for missed cases"}


def lines(record: OrchestratorEvent, view: RunView) -> tuple[TimelineLine, ...]:
    """Return the lines of ``record``. ``view`` is the run after it."""
    at = seconds_between(view.run.created_at, record.ts)
    stage = stage_name(view.run.state)
    sentences = _event_sentences(record, view)
    asked = consultation_in(e.event_of(record))
    sentences += [("plain", "", f"  {words}") for words in consulted_words(asked)] if asked is not None else []
    return tuple(TimelineLine(at, stage, mark, who, printable(text)) for mark, who, text in sentences)


def event_text(line: TimelineLine) -> str:
    """Format a line as ``[  0.31s] S2 execute  ✔ diff gate: ok``."""
    who = f"{line.who}: " if line.who else ""
    return f"[{line.at:7.2f}s] {line.stage:<10} {SIGNS[line.mark]} {printable(who)}{line.text}"


def activity_lines(view: RunView, activity: AgentActivity) -> tuple[TimelineLine, ...]:
    """Return the current activity that an agent reports: an unverified claim, made printable."""
    at = seconds_between(view.run.created_at, timestamp(SystemClock().now()))
    mark: Mark = "warn" if activity.event in {"permission", "problem"} else "plain"
    stage = stage_name(view.run.state)
    words = [line.strip() for line in activity.text.splitlines() if line.strip()]
    shown = words[:MOST_AGENT_LINES]
    if len(words) > len(shown):
        shown.append(f"… {len(words) - len(shown)} more lines: gatewright show {view.run.run_id} --log")
    return tuple(TimelineLine(at, stage, mark, "agent", printable(line)) for line in shown)


def _event_sentences(record: OrchestratorEvent, view: RunView) -> list[tuple[Mark, str, str]]:  # noqa: C901, PLR0912 - one case an event
    payload = e.event_of(record)
    match payload:
        case e.RunAccepted():
            baseline = f" at {payload.baseline_commit[:12]}" if payload.baseline_commit else ""
            return [("plain", "gatekeeper", f"accepted {record.run_id}: {payload.repository_url}{baseline}")]
        case e.GateJudged(report=report):
            return _verdict_sentences(report, view)
        case e.TaskDispatched():
            return [("given", payload.role, f"starts {view.short(payload.task_id)}")]
        case e.ContractCompiled(contract=contract):
            tests = count(len(contract.acceptance_tests), "acceptance test")
            parts = [", ".join(contract.allowed_paths), tests if contract.acceptance_tests else ""]
            return [("plain", "pm", f"compiled the contract: {'; '.join(filter(None, parts)) or view.run.kind.name}")]
        case e.PlanAccepted(plan=plan):
            parts = [f"{view.short(c.task_id)}: {', '.join(c.allowed_paths)}" for c in plan.contracts]
            return [("plain", "techlead", f"{count(len(parts), 'shard')}: " + "; ".join(parts))]
        case e.LocksWaiting(holders=holders):
            return [("warn", "gatekeeper", f"waits for paths that {', '.join(holders)} has locked")]
        case e.LocksTaken(paths=paths):
            return [("plain", "gatekeeper", f"locked {', '.join(paths)}")]
        case (
            e.LocksReleased()
            | e.ApprovalRequested()
            | e.ApprovalDecided()
            | e.ApprovalByRule()
            | e.ApprovalByGrant()
            | e.ApprovalExpired()
        ):
            return [approval_sentence(payload, view)]
        case e.RosterHeld(lapsed=lapsed):
            return [("warn", "gatekeeper", words) for words in dict.fromkeys(each.words for each in lapsed)]
        case e.TargetMoved(requests=void):
            effect = "votes are void and asked again" if void else "later votes are about that"
            return [("warn", "gatekeeper", f"{payload.words}: {effect}")]
        case e.TaskFinished(result=result):
            mark: Mark = "good" if result.status == "SUCCESS" else "bad"
            words = count(len(result.git.changed_files), "file") + " changed" if mark == "good" else result.failure or ""
            line = (mark, f"worker {result.producer.agent_id}", f"{view.short(result.task_id)} {result.status}: {words}")
            return [line, *_remark_sentences(worker_remarks(result))]
        case e.UsageReported(task_id=task_id, usage=usage):
            return [("plain", record.role or "", f"{view.short(task_id)} used {usage_words(usage)}")]
        case e.TaskInterrupted(task_id=task_id, usage=usage):
            words = f"{view.short(task_id)} was interrupted ({payload.why.replace('_', ' ')}); it used {usage_words(usage)}"
            return [("warn", record.role or "", words)]
        case e.BudgetExceeded():
            whose = f" by {view.short(payload.task_id)}, of its share" if payload.task_id else ""
            used = Excess(payload.budget, payload.limit, payload.used).words
            return [("bad", "gatekeeper", f"budget: {used}{whose}")]
        case e.TaskFailed(error=error):
            return [("bad", error.role or "role", _failure_words(error, view))]
        case e.CandidateComposed():
            which = f"candidate {payload.candidate}: tree" if payload.candidate else "candidate tree"
            return [("plain", "gatekeeper", f"{which} {payload.tree[:12]}, {count(payload.changed_files, 'file')} changed")]
        case e.ReviewReceived(report=review):
            about = candidate_prefix(view, review.task_id)
            return [_review_sentence(review, about), *_remark_sentences(review_remarks(review))]
        case e.TestsReceived(report=tests):
            proved: list[tuple[Mark, str, str]] = [("plain", "", f"  {line}") for line in proof_lines(tests)]
            return [
                _tests_sentence(tests, candidate_prefix(view, tests.task_id)),
                *proved,
                *_remark_sentences(test_remarks(tests, view.run.contract)),
            ]
        case e.ReviewRouted(routing=routing):
            return [_routing_sentence(routing)]
        case e.SummonsAsked(task=task):
            about = _ADVICE.get(task.advice or "", "answers a question beside the run")
            return [("given", task.item.role, f"{about}: {task.item.question}")]
        case e.SummonsAnswered(answer=answer):
            return _answer_sentences(answer, view)
        case e.CandidateChosen(candidate=number, standings=ranked):
            return [("good", "gatekeeper", f"candidate {number} of {len(ranked)} lands: {why_chosen(ranked)}")]
        case e.EnvironmentPulled():
            return [("plain", "gatekeeper", f"the changed packages were pulled: {payload.words}")]
        case e.FixOrdered():
            return [("warn", "gatekeeper", f"orders attempt {payload.attempt}: {payload.reason}")]
        case e.Landed():
            where = f"{payload.ref} is {payload.commit[:12]}" if payload.ref else "audit only: no ref"
            return [("good", "gatekeeper", f"{where} (tree {payload.tree[:12]}, the tested one)")]
        case e.AbortRequested():
            return [("warn", "gatekeeper", f"{payload.requested_by} requested an abort: {payload.reason}")]
        case e.RunFinished(status=status):
            words = "" if status == "SUCCESS" else f": {payload.code}"
            return [("good" if status == "SUCCESS" else "bad", "gatekeeper", f"run {status}{words}")]
        case e.BundleSealed():
            return [("plain", "gatekeeper", f"sealed {payload.location}")]
        case e.RunExpired():
            return [("warn", "ledger", f"run_expired: {expired_words(view.run)}")]
        case _:
            return []


def _vote_words(payload: e.ApprovalDecided, rule: str) -> tuple[Mark, str]:
    if payload.consensus is None:
        return "plain", f"votes on {rule}"
    if payload.consensus.red:
        return "bad", f"votes on {rule}, which sends the change back,"
    return "good", f"votes on {rule}, which makes the consensus,"


def approval_sentence(
    payload: e.LocksReleased
    | e.ApprovalRequested
    | e.ApprovalDecided
    | e.ApprovalByRule
    | e.ApprovalByGrant
    | e.ApprovalExpired,
    view: RunView,
) -> tuple[Mark, str, str]:
    """Return mark, stage and sentence of an approval request, or of an answer to one."""
    match payload:
        case e.LocksReleased():
            return ("plain", "gatekeeper", "releases its paths while it waits")
        case e.ApprovalRequested(request=request):
            return ("warn", "gatekeeper", f"asks {', '.join(request.approvers)}: {request.rule} ({request.why})")
        case e.ApprovalByRule(rule=rule):
            return ("plain", "gatekeeper", f"rule {rule} approves this without a person")
        case e.ApprovalByGrant(request_id=request_id, approver=person):
            rule = view.run.approvals[request_id].request.rule
            key = key_words(payload.fingerprint, payload.signed)
            words = f"approved {rule} in advance with {key} (grant {payload.grant_id}, use {payload.use})"
            return ("good", person.name, words)
        case e.ApprovalExpired(request_id=request_id):
            return ("bad", "gatekeeper", f"request {view.run.approvals[request_id].request.rule} expired without an answer")
        case e.ApprovalDecided(verdict=verdict, approver=person):
            rule = view.run.approvals[payload.request_id].request.rule
            sentences: dict[str, tuple[Mark, str]] = {
                "approve": ("good", f"approves {rule}"),
                "reject": ("bad", f"rejects {rule}"),
                "comment": ("plain", f"comments on {rule}"),
                "vote": _vote_words(payload, rule),
                "delegate": ("plain", f"delegates {rule} to {payload.delegate.name if payload.delegate else 'none'}"),
            }
            mark, sentence = sentences[verdict]
            return (mark, person.name, f"{sentence} with {key_words(payload.fingerprint, payload.signed)}")


def _answer_sentences(answer: SummonsAnswer, view: RunView) -> list[tuple[Mark, str, str]]:
    mark: Mark = "plain"
    words = f"answers ({answer.confidence})"
    if answer.status != "ANSWERED":
        words, mark = f"did not answer: {answer.code}", "warn"
    elif answer.critique is not None:
        words, mark = critic_words(answer), "plain" if recommendation_of(answer) == "proceed" else "warn"
    elif answer.missed:
        words, mark = f"names {count(len(answer.missed), 'missed case')}: {answer.answer}", "warn"
    return [(mark, answer.role, words), *_remark_sentences(advice_remarks(view.run.summonses[answer.task_id]))]


def _routing_sentence(routing: ReviewRouting) -> tuple[Mark, str, str]:
    worst = [f"{each.signal}: {each.detail}" for each in routing.signals if each.tier == routing.tier]
    words = "; ".join(worst) if routing.tier != "low" else "no signal of a higher tier"
    return ("warn" if routing.tier == "high" else "plain", "gatekeeper", f"{routing.tier} risk: {words}")


def _verdict_sentences(report: GateReport, view: RunView) -> list[tuple[Mark, str, str]]:
    passed = report.verdict == "PASS"
    words = report.summary if passed else f"{report.code}: {in_options(report.summary)}"
    about = f" ({view.short(report.task_id)})" if report.task_id else ""
    sentences: list[tuple[Mark, str, str]] = [("good" if passed else "bad", f"{report.gate} gate", words + about)]
    sentences += [("bad", "", f"  {line}") for line in violation_lines(report)]
    return [*sentences, *_remark_sentences(gate_remarks(report))]


def _remark_sentences(remarks: Iterable[RunRemark]) -> list[tuple[Mark, str, str]]:
    """Return a marked line for each of the first remarks."""
    shown = first_lines(remarks, MOST_REMARKS)
    more = [f"... and {count(shown.more, 'more remark')}"] if shown.more else []
    return [("warn", "", f"remark of {line}") for line in shown.lines] + [("warn", "", line) for line in more]


def violation_lines(report: GateReport) -> list[str]:
    """Format the violations of a report as ``path: code (rule) detail``: the first few, and the number of the others.

    The result is empty where the summary has the same text.
    """
    if len(report.violations) == 1 and report.violations[0].path is None and report.violations[0].detail in report.summary:
        return []
    shown = [_violation(violation) for violation in report.violations[:MOST_VIOLATIONS]]
    more = len(report.violations) - len(shown)
    return [*shown, f"... and {more} more"] if more > 0 else shown


def _violation(violation: Violation) -> str:
    path = f"{violation.path}: " if violation.path else ""
    return f"{path}{violation.code} ({violation.rule}) {in_options(violation.detail)}".rstrip()


def finding_lines(review: ReviewReport) -> list[str]:
    """Format the blocking findings of a review as ``path:line: code: message``: the first few, and the number of the others."""
    blocking = [finding for finding in review.findings if finding.blocking]
    shown = []
    for finding in blocking[:MOST_VIOLATIONS]:
        place = "".join((finding.path or "", f":{finding.line}" if finding.line else ""))
        shown.append(f"{place + ': ' if place else ''}{finding.code}: {finding.message}")
    more = len(blocking) - len(shown)
    return [*shown, f"... and {more} more"] if more > 0 else shown


def _failure_words(error: Error, view: RunView) -> str:
    task = view.short(error.task_id or "")
    about = f"{task} " if task not in ("", error.role) else ""
    return f"{about}{error.code}: {error.message}"


def candidate_prefix(view: RunView, task_id: str | None) -> str:
    """Return ``candidate 2: `` for a task of one of several candidates, else an empty text."""
    task = view.run.tasks.get(task_id or "")
    return f"candidate {task.candidate}: " if task is not None and task.candidate else ""


def _review_sentence(review: ReviewReport, about: str) -> tuple[Mark, str, str]:
    blocking = sum(finding.blocking for finding in review.findings)
    findings = f"; {count(len(review.findings), 'finding')}, {blocking} blocking" if review.findings else ""
    return ("good" if review.verdict == "PASS" else "bad", "reviewer", f"{about}{review.verdict}{findings}")


def _tests_sentence(tests: TestReport, about: str) -> tuple[Mark, str, str]:
    good = sum(command.exit_code == 0 and not command.timed_out for command in tests.commands)
    words = f"{about}{tests.status}: {good} of {count(len(tests.commands), 'command')} succeeded"
    words += f" (sandbox {tests.sandbox})" if tests.sandbox else ""
    words += f"; {tests.failure}" if tests.failure else ""
    return ("good" if tests.status == "PASS" else "bad", "testrunner", words)


def proof_lines(tests: TestReport) -> list[str]:
    """Format the proof of the last run of each required command as ``name: words``: the first few, and the number of others.

    A doubtful proof is a remark (``work_documents/remarks.py``).
    """
    final = {command.name: command.proof for command in tests.commands if command.must_pass}
    proved = [f"{name}: {words}" for name, proof in final.items() if proof is not None and (words := facts_in_words(proof))]
    more = len(proved) - MOST_VIOLATIONS
    return [*proved[:MOST_VIOLATIONS], f"... and {more} more"] if more > 0 else proved


def count(number: int, noun: str) -> str:
    """Format a count: ``1 file``, ``2 files``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def consultation_in(payload: e.RunEvent) -> Consultation | None:
    """Return the model consultation of a role that an answer event carries; None for other events."""
    match payload:
        case e.ContractCompiled(contract=contract):
            return contract.consultation
        case e.PlanAccepted(plan=plan):
            return plan.consultation
        case e.ReviewReceived(report=review):
            return review.consultation
        case e.TaskFailed(error=error):
            return error.consultation
        case e.SummonsAnswered(answer=answer):
            return answer.consultation
        case _:
            return None


def consulted_words(asked: Consultation) -> list[str]:
    """Format a consultation: ``asked fast: 1 answer, 3,300 tokens, 0.0036 USD``, and a line for each rejected value."""
    answers = "1 answer" if asked.asked == 1 else f"{asked.asked} answers"
    tokens = amount_words(asked.tokens, "tokens", least=asked.incomplete)
    cost = amount_words(asked.cost_usd, "USD", least=asked.incomplete or asked.unpriced)
    lines = [f"asked {asked.model}: {answers}, {tokens}, {cost}"]
    lines += [_clamp_words(clamp) for clamp in asked.clamped[:MOST_CLAMPS]]
    more = len(asked.clamped) - MOST_CLAMPS
    return [*lines, f"... and {more} more not taken"] if more > 0 else lines


def consulting_roles(run: Run) -> Iterator[tuple[str, Consultation]]:
    """Yield the roles that consulted models in the run so far, each with its consultation."""
    pairs = (
        ("pm", run.contract.consultation if run.contract is not None else None),
        ("techlead", run.plan.consultation if run.plan is not None else None),
        ("reviewer", run.review.consultation if run.review is not None else None),
    )
    return ((role, asked) for role, asked in pairs if asked is not None)


def _clamp_words(clamp: Clamp) -> str:
    granted = f", {clamp.granted} instead" if clamp.granted else ""
    proposed = " ".join(clamp.proposed.split())
    shown = proposed if len(proposed) <= _CLAMP_WIDTH else f"{proposed[: _CLAMP_WIDTH - 1]}…"
    return f"not taken: {clamp.field} {shown}{granted} ({clamp.reason})"
