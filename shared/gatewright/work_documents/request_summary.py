"""What a person decides, in brief: the one summary that every list and page of approvals shows. Pure.

The ledger is its only source. Words of roles and agents stand in ``quoted`` alone, so that none can pass as the system's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from gatewright.contracts import ApprovalRequest, GateReport
from gatewright.contracts.people.approvals import ApprovalSummary, GateSummary, PersonsComment, QuotedWords
from gatewright.contracts.run_status import GateStanding
from gatewright.rules.approvals import ON_YES
from gatewright.rules.landing import landing_ref
from gatewright.run.state import AskedApproval, Run

#: Characters of the title, and of each of the quoted words.
MOST_TITLE: Final = 200
MOST_QUOTED: Final = 2_000
#: Gates that judge the order and not a round of its change.
_OF_THE_ORDER: Final = frozenset({"schema", "policy", "plan", "locks"})


def gate_standing(report: GateReport) -> GateStanding:
    """A verdict without what it rests on."""
    return GateStanding(
        gate=report.gate,
        verdict=report.verdict,
        code=report.code,
        at=report.evaluated_at,
        attempt=report.attempt,
        task_id=report.task_id,
    )


def request_summary(run: Run, asked: AskedApproval, gates: Iterable[GateStanding]) -> ApprovalSummary:
    """The summary of a request of ``run``; ``gates`` are all verdicts on the run, in order."""
    request = asked.request
    candidate = run.candidate if request.candidate_tree == _tree_of(run) or request.stage == "contract" else None
    repository = run.contract.repository if run.contract is not None else None
    why, on_silence = _why(run, request), request.on_silence
    if request.blocked is not None:
        on_silence = "the run goes on as it does now"
    return ApprovalSummary(
        title=_cut(" ".join(request.user_request.split()), MOST_TITLE),
        ordered_by=run.accepted.orderers,
        publisher=request.publisher,
        requested_by=request.requested_by,
        repository=request.repository,
        lands_on=landing_ref(run.run_id, repository) if repository is not None else "",
        why="; ".join(filter(None, (f"{request.rule}: {why}", asked.progress))),
        on_silence=on_silence,
        gates=tuple(_last_verdicts(run, request, gates)),
        changed_files=candidate.changed_files if candidate is not None else None,
        changed_lines=candidate.changed_lines if candidate is not None else None,
        quoted=tuple(_quoted_words(run, request)),
        comments=asked.remarks,
    )


def order_words(summary: ApprovalSummary) -> str:
    """Who ordered the run, on one line."""
    through = f"through publisher {summary.publisher}"
    if summary.ordered_by:
        return f"{', '.join(summary.ordered_by)}, {through}"
    return f"not known who, {through}, which claims: {summary.requested_by}"


def size_words(summary: ApprovalSummary) -> str:
    """Return the size of the change: ``3 files, 17 lines``."""
    return "none yet" if summary.changed_files is None else change_size(summary.changed_files, summary.changed_lines)


def change_size(files: int, lines: int | None) -> str:
    """Return the size of a change: ``3 files, 17 lines``."""
    shown = "lines not counted" if lines is None else f"{lines:,} line{'' if lines == 1 else 's'}"
    return f"{files:,} file{'' if files == 1 else 's'}, {shown}"


def change_words(summary: ApprovalSummary) -> str:
    """Return the size of the change and its target, on one line."""
    if summary.changed_files is None:
        return size_words(summary)
    return f"{size_words(summary)}; it lands on {summary.lands_on or 'no branch'}"


def gate_words(summary: ApprovalSummary) -> str:
    """The verdict of all gates, on one line."""
    refused = [f"{each.gate} refused ({each.code})" for each in summary.gates if each.verdict == "FAIL"]
    passed = [each.gate for each in summary.gates if each.verdict == "PASS"]
    if not summary.gates:
        return "no gate has judged yet"
    if not refused:
        return f"all {len(passed)} passed: {', '.join(passed)}"
    return f"{'; '.join(refused)}; {len(passed)} passed" + (f": {', '.join(passed)}" if passed else "")


def target_words(summary: ApprovalSummary) -> str:
    """Return that the target has moved, and what to do; empty when it has not, as far as known."""
    moved = summary.moved
    if moved is None:
        return ""
    branch = moved.ref.removeprefix("refs/heads/")
    now = f"now at {moved.found[:12]}" if moved.found else "now gone"
    return (
        f"{branch} has moved since the run began: it was at {moved.expected[:12]} and is {now}, so this change cannot land. "
        f"End the run (gatewright abort RUN) and order the change again on the new commit (gatewright run ... --ref {branch})."
    )


def yes_words(request: ApprovalRequest, summary: ApprovalSummary) -> str:
    """Return the effect of an approval now."""
    if summary.moved is None or request.stage == "beside":
        return request.on_yes
    if request.on_yes == ON_YES["candidate"]:
        return "the run ends (landing_conflict) and nothing lands, because the target has moved"
    return f"{request.on_yes}, and nothing lands afterwards, because the target has moved (landing_conflict)"


def verdict_words(summary: ApprovalSummary) -> str:
    """The verdict of all gates in a few words, for a narrow column."""
    refused = sum(each.verdict == "FAIL" for each in summary.gates)
    if not summary.gates:
        return "none yet"
    return f"{refused} refused" if refused else f"{len(summary.gates)} passed"


def summary_facts(summary: ApprovalSummary) -> dict[str, str]:
    """The summary as names and lines, in the order of reading; quotation marks stand around words from outside."""
    facts = {
        "asked": f'"{summary.title}"',
        "ordered by": order_words(summary),
        "change": change_words(summary),
        "gates": gate_words(summary),
        "why": summary.why,
    }
    if summary.moved is not None:
        facts["target"] = target_words(summary)
    quoted = {each.about: f'{each.speaker} wrote: "{each.text}"' for each in summary.quoted}
    return facts | quoted | ({"comments": " ".join(map(comment_words, summary.comments))} if summary.comments else {})


def comment_words(comment: PersonsComment) -> str:
    """A comment of a person, on one line."""
    return f'{comment.person} ({comment.verdict}, {comment.at}): "{" ".join(comment.text.split())}"'


def _tree_of(run: Run) -> str:
    return run.candidate.tree if run.candidate is not None else ""


def _last_verdicts(run: Run, request: ApprovalRequest, gates: Iterable[GateStanding]) -> Iterator[GateSummary]:
    """One for each gate that judged the order or this round of the change; a gate that refused one task has refused."""
    last: dict[str, dict[str, GateStanding]] = {}
    for each in gates:
        task = run.tasks.get(each.task_id or "")
        of_another = run.chosen and task is not None and task.candidate not in {0, run.chosen}
        this_round = each.gate in _OF_THE_ORDER or each.attempt == request.attempt
        if each.gate != "approval" and this_round and not of_another:
            last.setdefault(each.gate, {})[each.task_id or ""] = each
    for verdicts in last.values():
        worst = next((each for each in verdicts.values() if each.verdict == "FAIL"), None) or next(iter(verdicts.values()))
        yield GateSummary(gate=worst.gate, verdict=worst.verdict, code=worst.code)


def _why(run: Run, request: ApprovalRequest) -> str:
    """Why a person is asked, without a word of roles and agents."""
    if (block := request.blocked) is not None:
        need = f", which needs a person for: {block.human_required_for}" if block.human_required_for is not None else ""
        return f"a task asks a question{need}"
    if request.question is not None:
        return "an agent asks whether it may run a command"
    refusal = run.refusal if request.stage == "round" else None
    if refusal is not None:
        return f"refused {request.attempt} times in a row, at last by the {refusal.gate} gate ({refusal.code})"
    return request.why


def _quoted_words(run: Run, request: ApprovalRequest) -> Iterator[QuotedWords]:
    """The words of roles and agents that the request is about."""
    if (block := request.blocked) is not None:
        for about, text in (
            ("question", block.question),
            ("best guess", block.best_guess),
            ("meanwhile", block.fallback_action),
        ):
            yield _quote(block.session, about, text)
    if (question := request.question) is not None:
        yield _quote(f"{question.agent} in {question.task_id}", "command", question.subject)
    if request.stage == "round" and run.refusal is not None and run.refusal.summary:
        yield _quote(f"the {run.refusal.gate} gate's report", "refusal", run.refusal.summary)


def _quote(speaker: str, about: str, text: str) -> QuotedWords:
    return QuotedWords(speaker=_cut(speaker, MOST_TITLE), about=about, text=_cut(text, MOST_QUOTED))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
