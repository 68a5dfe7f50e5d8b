"""The stages of a run for people: one line for each relevant stage; gates that passed are folded into it. Pure.

``sentences`` covers every event. ``gatewright run``, ``watch`` and ``show`` print these lines unless they are verbose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Final

from gatewright.contracts import GateReport, OrchestratorEvent, TestReport
from gatewright.order_form.words import in_options
from gatewright.run import events as e
from gatewright.run.choice import why_chosen
from gatewright.run.state import Run
from gatewright.view import sentences
from gatewright.view.rows import seconds_since, tasks_in_hand
from gatewright.view.run_view import Mark, RunView, StageLine, advance
from gatewright.view.safe_text import fit, hang, printable
from gatewright.work_documents import remarks

#: Page width without a terminal, and the column where the text of a line begins.
PAGE_WIDTH: Final = 80
MARGIN: Final = 12
#: Display name of the stage of a gate or role; others keep their own name.
_STAGES: Final = {"diff": "scope", "integrated": "scope", "locks": "paths", "reviewer": "review"}
_STAGES_OF_ROLES: Final = {"pm": "order", "techlead": "plan", "worker": "change", "reviewer": "review", "testrunner": "tests"}
_WORK: Final = {
    "pm": "compiling the contract",
    "techlead": "planning",
    "worker": "making the change",
    "reviewer": "reviewing the change",
    "testrunner": "running the tests",
}
#: Maximum allowed paths in a line.
_MOST_PATHS: Final = 3
_Line = tuple[Mark, str, str]


def stage_lines(record: OrchestratorEvent, view: RunView) -> tuple[StageLine, ...]:
    """Return the lines that ``record`` adds; most events add none. ``view`` is the run after it."""
    return tuple(StageLine(mark, name, printable(text)) for mark, name, text in _lines_of(e.event_of(record), view))


def view_with_stages(records: Iterable[OrchestratorEvent]) -> RunView | None:
    """Fold the events of a run into its view with stages; None without events. Raises MalformedError as ``evolve`` does."""
    view: RunView | None = None
    stages: list[StageLine] = []
    for record in records:
        view = advance(view, record)
        stages += stage_lines(record, view)
    return replace(view, stages=tuple(stages)) if view is not None else None


def stage_text(line: StageLine, width: int | None = None) -> str:
    """Format a line as ``✔ scope     1 file changed, inside src``, wrapped at ``width``."""
    words = f"{sentences.SIGNS[line.mark]} {line.name:<9} {line.text}"
    return words if width is None or len(words) <= width else hang(words, width, MARGIN)


def title_lines(run: Run, width: int = PAGE_WIDTH) -> list[str]:
    """Return request and run id, on one line where both fit into ``width``."""
    title, space = printable(" ".join(run.accepted.user_request.split())), width - len(run.run_id) - 2
    return [f"{title:<{space}}  {run.run_id}"] if len(title) <= space else [fit(title, width), run.run_id]


def work_lines(view: RunView, now: datetime) -> list[str]:
    """Return a line for each role at work in an open run: ``worker · making the change · 12 s``."""
    by_role: dict[str, list[float]] = {}
    for task in tasks_in_hand(view.run, view.dispatched):
        by_role.setdefault(task.role, []).append(seconds_since(task.since, now))
    return [
        f"{role if len(ages) == 1 else f'{len(ages)} {role}s'} · {_WORK[role]} · {max(ages):.0f} s"
        for role, ages in by_role.items()
    ]


def refusal_stages(report: GateReport, allowed: tuple[str, ...]) -> tuple[StageLine, ...]:
    """Return the lines of a gate's refusal outside a run. ``allowed``: paths that may change."""
    first, *others = _refusal_texts(report, allowed)
    stages = [StageLine("bad", _STAGES.get(report.gate, report.gate), printable(first))]
    return (*stages, *(StageLine("more", "", printable(text)) for text in others))


def _refusal_texts(report: GateReport, allowed: tuple[str, ...]) -> list[str]:
    """Return a sentence with the code of each of the first violations, and the number of the others."""
    broken = report.violations
    if not broken or (len(broken) == 1 and broken[0].path is None and broken[0].detail in report.summary):
        return [f"{in_options(report.summary)} [{report.code}]"]
    texts = []
    for each in broken[: sentences.MOST_VIOLATIONS]:
        if each.code == "path_out_of_scope" and each.rule == "allowed_paths" and allowed:
            texts.append(f"{each.path} is outside the allowed paths ({_join_paths(allowed)}) [{each.code}]")
        else:
            texts.append(f"{f'{each.path}: ' if each.path else ''}{in_options(each.detail)} [{each.code}]")
    more = len(broken) - len(texts)
    return [*texts, f"... and {more} more"] if more else texts


def _lines_of(event: e.RunEvent, view: RunView) -> Iterator[_Line]:  # noqa: C901, PLR0912 - one case an event
    run = view.run
    match event:
        case e.GateJudged(report=report):
            yield from _verdict_lines(report, view)
        case e.PlanAccepted(plan=plan) if len(plan.contracts) > 1 or not run.kind.lands:
            parts = (", ".join(contract.allowed_paths) for contract in plan.contracts)
            yield "good", "plan", f"{sentences.count(len(plan.contracts), 'shard')}: {'; '.join(parts)}"
        case e.TaskFinished(result=result):
            if result.status != "SUCCESS":
                code, _, words = (result.failure or result.status).partition(": ")
                yield "bad", "change", f"{words or result.summary} [{code}]"
            yield from _remark_lines(remarks.worker_remarks(result))
        case e.TaskFailed(error=error):
            yield "bad", _STAGES_OF_ROLES.get(error.role or "", "run"), f"{error.message} [{error.code}]"
        case e.CandidateComposed(changed_files=files, candidate=number) if run.kind.reviews and not run.kind.searches:
            allowed = run.contract.allowed_paths if run.contract is not None and files else ()
            inside = f", inside {_join_paths(allowed)}" if allowed else ""
            prefix = f"candidate {number}: " if number else ""
            yield "good", "scope", f"{prefix}{sentences.count(files, 'file')} changed{inside}"
        case e.ApprovalRequested() | e.ApprovalDecided() | e.ApprovalByRule() | e.ApprovalByGrant() | e.ApprovalExpired():
            mark, who, words = sentences.approval_sentence(event, view)
            yield mark, "approval", words if who == "gatekeeper" else f"{who} {words}"
        case e.TargetMoved():
            yield "warn", "approval", f"{event.words}: the votes before count no more"
        case e.SummonsAnswered(answer=answer):
            yield from _remark_lines(remarks.advice_remarks(run.summonses[answer.task_id]))
        case e.CandidateChosen(candidate=number, standings=ranked):
            yield "good", "choice", f"candidate {number} of {len(ranked)}: {why_chosen(ranked)}"
        case e.EnvironmentPulled():
            yield "good", "packages", f"the changed packages were pulled: {event.words}"
        case e.FixOrdered():
            yield "warn", "fix", f"attempt {event.attempt} starts: {event.reason}"
        case e.Landed():
            ref = event.ref.removeprefix("refs/heads/")
            yield "good", "landed", f"{ref} ({event.commit[:7]})" if ref else "nothing: the run was audit only"
        case e.RunFinished():
            yield from _remark_lines(remarks.unanswered_remarks(run))
            if event.status != "SUCCESS" and event.code not in _reported_codes(view):
                yield "bad", "run", f"{event.message} [{event.code}]"
        case _:
            pass


def _verdict_lines(report: GateReport, view: RunView) -> Iterator[_Line]:
    about, name = sentences.candidate_prefix(view, report.task_id), _STAGES.get(report.gate, report.gate)
    review, tests = view.run.review, view.run.tests
    if report.gate == "reviewer":
        review = view.reviews.get(report.task_id or "", review)
    if report.gate == "tests":
        tests = view.tests.get(report.task_id or "", tests)
    found = [*remarks.gate_remarks(report)]
    if report.gate == "reviewer" and review is not None:
        found += remarks.review_remarks(review)
    if report.gate == "tests" and tests is not None:
        found += remarks.test_remarks(tests, view.run.contract)
    if report.verdict == "FAIL":
        texts = _refusal_texts(report, view.run.contract.allowed_paths if view.run.contract is not None else ())
        if report.code == "review_failed" and review is not None:
            texts += sentences.finding_lines(review)
        yield "bad", name, about + texts[0]
        yield from (("more", "", text) for text in texts[1:])
    elif report.gate == "citations":
        yield "good", name, "every quote stands in its stored source"
    elif report.gate == "reviewer":
        yield "good", name, f"{about}passed" + (f", {sentences.count(len(found), 'remark')}" if found else "")
    elif report.gate == "tests" and tests is not None:
        yield "good", name, about + _tests_text(tests)
    yield from _remark_lines(found)


def _tests_text(tests: TestReport) -> str:
    """Return ``128 passed, 2 new`` where the commands report their tests, else how many commands succeeded."""
    final = {command.name: command for command in tests.commands}.values()
    proofs = [command.proof for command in final if command.proof is not None]
    counts = [proof.counts for proof in proofs if proof.counts is not None]
    if not counts:
        return f"{sentences.count(sum(command.exit_code == 0 for command in final), 'command')} succeeded"
    amounts = {
        "passed": sum(each.passed for each in counts),
        "failed": sum(each.failed for each in counts),
        "skipped": sum(each.skipped for each in counts),
        "new": sum(proof.new_count for proof in proofs),
    }
    parts = [f"{number:,} {word}" for word, number in amounts.items() if number or word == "passed"]
    return ", ".join([f"{len(final)} commands", *parts] if len(final) > 1 else parts)


def _remark_lines(found: Iterable[remarks.RunRemark]) -> Iterator[_Line]:
    every = [*found]
    for each in every[: sentences.MOST_REMARKS]:
        place = "".join((each.path or "", f":{each.line}" if each.line else ""))
        rule = "" if each.rule == remarks.PROOF else f" [{each.rule}]"
        yield "warn", "remark", " ".join(f"{f'{place}: ' if place else ''}{each.message}{rule}".split())
    more = len(every) - sentences.MOST_REMARKS
    if more > 0:
        yield "warn", "remark", f"... and {more} more; the JSON document lists all"


def _reported_codes(view: RunView) -> set[str]:
    """Return the codes of refusals and failures that have their own lines."""
    codes = {gate.code for gate in view.gates if gate.verdict == "FAIL"} | {error.code for error in view.errors.values()}
    return codes | {(result.failure or "").partition(":")[0] for result in view.results.values()}


def _join_paths(paths: tuple[str, ...]) -> str:
    more = len(paths) - _MOST_PATHS
    return ", ".join(paths[:_MOST_PATHS]) + (f" and {more} more" if more > 0 else "")
