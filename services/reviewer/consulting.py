"""Asks a model to judge a change, or the claims of a search, that passed the rules. It can refuse them, with existing places.

It can approve nothing. A statement about a line that does not exist is dropped and reported. A verdict without a place is
invalid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gatewright.contracts import Error, EvidenceBundle, ReviewOpinion, TaskContract
from gatewright.contracts.consultation import Clamp, Consultation
from gatewright.contracts.reports import Finding
from gatewright.errors import Fault
from gatewright.git.paths import display
from gatewright.prompts.library import PromptLibrary
from gatewright.prompts.orders import MAX_PATCH, citations_order, reviewer_order
from gatewright.prompts.prompt import Prompt
from gatewright.research.findings import FINDINGS
from gatewright.rules.reviewing import MODEL_FINDING
from gatewright.services.reviewer.subject import Subject
from gatewright.structured.answers import UNANSWERED, StructuredQuestion
from gatewright.structured.asking import Asking
from gatewright.structured.blocks import blocks_of
from gatewright.structured.recording import consultation_of, failure_of
from gatewright.structured.session import RoleModels
from gatewright.tasks.handler import TaskContext

TOO_LARGE = "review_limit"
UNFOUNDED = "review_unfounded"
#: Path, as it is displayed -> how many lines the candidate's file has; 0 for one that it does not have, or that is binary.
Lines = dict[str, int]
_NOT_THERE = "line_not_there"


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the model adds to a review."""

    findings: tuple[Finding, ...]
    consultation: Consultation | None = None


class ReviewConsultant:
    """Of a reviewer. Keeps nothing between tasks."""

    def __init__(self, models: RoleModels, library: PromptLibrary) -> None:
        self._models = models
        self._library = library

    @property
    def wanted(self) -> bool:
        """Whether to ask a model."""
        return self._models.configured

    async def judge(self, task: TaskContract, subject: Subject, patch: bytes, context: TaskContext) -> Opinion | Error:
        """The model's findings on ``patch``. Raises GatewrightError where no model can be had: then nothing is reviewed.

        An answer that cannot be used, or that rests on nothing, is an Error.
        """
        if len(patch) > MAX_PATCH:
            words = f"the change has {len(patch)} bytes; a model is shown at most {MAX_PATCH}"
            return Opinion((Finding(code=TOO_LARGE, message=words, blocking=True),))
        prompt = reviewer_order(self._library, task, patch, may_ask=task.questions is not None)
        return await self._ask(task, prompt, candidate_lines(subject), context)

    async def judge_claims(self, task: TaskContract, bundle: EvidenceBundle, context: TaskContext) -> Opinion | Error:
        """The model's findings on the claims of a search that their quotes do not support. Raises as ``judge``."""
        lines = tuple(_claim_lines(bundle))
        if (size := sum(map(len, lines))) > MAX_PATCH:
            words = f"the findings have {size} characters; a model is shown at most {MAX_PATCH}"
            return Opinion((Finding(code=TOO_LARGE, message=words, blocking=True),))
        prompt = citations_order(self._library, task, lines, may_ask=task.questions is not None)
        return await self._ask(task, prompt, {FINDINGS: len(lines)}, context)

    async def _ask(self, task: TaskContract, prompt: Prompt, lines: Lines, context: TaskContext) -> Opinion | Error:
        async def rules(opinion: ReviewOpinion) -> Sequence[Fault]:
            return tuple(unfounded_verdict(opinion, lines))

        asking = Asking(StructuredQuestion(prompt, ReviewOpinion, rules))
        async with self._models.session(task.budget, context, task.log_refs.run_id, task.task_id, task.transfer) as session:
            try:
                opinion = await asking.ask(session)
            except UNANSWERED as error:
                failure = await failure_of(asking, error, session.spent, context.artifacts)
                unfounded_one = bool(failure.faults) and failure.faults[0].code == UNFOUNDED
                return replace(failure, code=UNFOUNDED) if unfounded_one else failure
        findings, dropped = anchor_findings(opinion, lines)
        context.log.info("consulted", model=session.spent.model, asked=len(asking.answers), dropped=len(dropped))
        blocked, left = blocks_of(opinion, task.task_id, context.clock.now(), may_ask=task.questions is not None)
        kept, clamped = context.artifacts, (*dropped, *left)
        record = await consultation_of(asking, opinion, session.spent, kept, clamped=clamped, blocked=blocked)
        return Opinion(findings, record)


def _claim_lines(bundle: EvidenceBundle) -> Iterator[str]:
    """Write each claim, each quote and each limitation of a search as one line."""
    places = {each.name: each.uri for each in bundle.sources}
    yield f"question: {_one_line(bundle.query)}"
    for number, claim in enumerate(bundle.claims, 1):
        yield f"claim {number}: {_one_line(claim.claim)}"
        yield from (f"  quote from {places.get(each.source, each.source)}: {_one_line(each.text)}" for each in claim.quotes)
    yield from (f"not examined: {_one_line(each)}" for each in bundle.limitations)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def candidate_lines(subject: Subject) -> Lines:
    """Of every changed file."""
    return {display(file.path): _count_lines(file.new) if not file.is_binary else 0 for file in subject.files}


def anchor_findings(opinion: ReviewOpinion, lines: Lines) -> tuple[tuple[Finding, ...], tuple[Clamp, ...]]:
    """The findings at places that exist, and what was dropped. A FAIL without a blocking finding gets one: its summary."""
    found: list[Finding] = []
    dropped: list[Clamp] = []
    for finding in opinion.findings:
        if _exists(finding.path, finding.line, lines):
            made = Finding(
                code=MODEL_FINDING, message=finding.message, blocking=finding.blocking, path=finding.path, line=finding.line
            )
            found.append(made)
        else:
            place = f"{finding.path}:{finding.line or '-'}"
            dropped.append(Clamp(field="findings", proposed=f"{place} {finding.message}", granted="", reason=_NOT_THERE))
    for seen in opinion.evidence:
        if not _exists(seen.path, seen.line, lines):
            proposed = f"{seen.path}:{seen.line} {seen.note}"
            dropped.append(Clamp(field="evidence", proposed=proposed, granted="", reason=_NOT_THERE))
    if opinion.verdict == "FAIL" and not any(each.blocking for each in found):
        found.insert(0, Finding(code=MODEL_FINDING, message=opinion.summary, blocking=True))
    return tuple(found), tuple(dropped)


def unfounded_verdict(opinion: ReviewOpinion, lines: Lines) -> Iterator[Fault]:
    """A verdict rests on a place of the change: without one it is asked for again, and then refused."""
    places = [(each.path, each.line) for each in opinion.evidence]
    findings = [(each.path, each.line) for each in opinion.findings]
    if not any(_exists(path, line, lines) for path, line in (*places, *findings)):
        known = ", ".join(f"{path} ({count} lines)" for path, count in sorted(lines.items())[:20])
        yield Fault("/evidence", UNFOUNDED, f"names no line that was shown; there are {known or 'none'}")


def _exists(path: str, line: int | None, lines: Lines) -> bool:
    if path not in lines:
        return False
    # A file that is gone, or is no text, has no lines to name: the file itself is the place.
    return lines[path] == 0 if line is None else 1 <= line <= lines[path]


def _count_lines(content: bytes | None) -> int:
    if not content:
        return 0
    return content.count(b"\n") + (not content.endswith(b"\n"))
