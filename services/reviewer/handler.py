"""A candidate in, a review out: rebuilt from baseline and patch, looked at, never changed."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from pydantic import Field

from gatewright.bounded.judge import BeyondLimitError, BoundedJudge, ProcessBounds
from gatewright.clock import timestamp
from gatewright.confinement import confine_writes
from gatewright.contracts import Error, EvidenceBundle, ReviewReport, TaskContract, codec
from gatewright.contracts.reports import Finding, ScopeCheck
from gatewright.contracts.vocabulary import Agent
from gatewright.errors import PatchError
from gatewright.git.changes import TreeChange
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.modes import NO_CONTENT
from gatewright.git.process import OutputTooLargeError
from gatewright.host_facts import surroundings
from gatewright.prompts.library import PromptLibrary
from gatewright.research.findings import FINDINGS
from gatewright.service.settings import ServiceSettings
from gatewright.services.reviewer.checks import CHECKS
from gatewright.services.reviewer.checks.files import OUT_OF_SCOPE
from gatewright.services.reviewer.citations import CitationReview
from gatewright.services.reviewer.consulting import Opinion, ReviewConsultant
from gatewright.services.reviewer.judging import FUNCTION, findings_in, question_about
from gatewright.services.reviewer.subject import ChangedFile, Subject
from gatewright.structured.session import RoleModels
from gatewright.tasks.handler import TaskContext
from gatewright.tasks.inputs import RebuiltCandidate, find_artifact, read_artifact, rebuild_candidate
from gatewright.tasks.protocol import CANDIDATE
from gatewright.worker_role import WORKER


class Settings(ServiceSettings):
    """``agent_id`` signs the reviews; ``max_file_bytes`` is the size from which on a file is too large to be source.

    ``review_seconds``: a change that cannot be judged within them fails its review (``review_limit``).
    """

    agent_id: str = Field(default="reviewer-1", min_length=1)
    max_file_bytes: int = Field(default=1 << 20, ge=1)
    review_seconds: float = Field(default=60.0, gt=0)


#: Bytes of old and new content that are reviewed; more is no change that anybody reads.
MOST_CONTENT = 256 << 20
BEYOND = "review_limit"


def confine(settings: Settings) -> str:
    """Leave this process its mirrors, and the place of its model's socket, to write to, and nothing else; how, or why not."""
    places = [_mirrors(settings), *([sockets_of(settings)] if "reviewer" in settings.consult else ())]
    for place in places:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return confine_writes(places)


def make_handler(settings: Settings) -> ReviewerHandler:
    """The handler of a process with these settings."""
    mirrors = _mirrors(settings)
    mirrors.mkdir(mode=0o700, parents=True, exist_ok=True)
    judge = BoundedJudge(FUNCTION, ProcessBounds(settings.review_seconds))
    rules = RuleReview(judge, settings.max_file_bytes)
    models = RoleModels.of("reviewer", settings, sockets=sockets_of(settings))
    consulting = ReviewConsultant(models, PromptLibrary(settings.prompts))
    opened = settings.open_mirrors("reviewer")
    return ReviewerHandler(settings.agent_id, opened, rules, consulting, confined=_is_confined(mirrors))


@dataclass(frozen=True)
class RuleReview:
    """Every check, in a process of its own: a hostile change must not hold up the reviews beside it."""

    judge: BoundedJudge
    max_file_bytes: int

    async def findings(self, subject: Subject) -> tuple[Finding, ...]:
        """Return the findings; a change that exceeds the bounds is refused."""
        try:
            question = await asyncio.to_thread(question_about, subject)
            return findings_in(await self.judge.ask(question))
        except BeyondLimitError as error:
            return (Finding(code=BEYOND, message=error.message, blocking=True),)


class ReviewerHandler:
    """The reviewer of id ``agent_id``. It has objects only: no workspace, no sandbox, nothing that could make a diff.

    ``confined``: its process was tried, and cannot write anywhere but into its mirrors. Without ``consulting`` the rules judge
    alone.
    """

    def __init__(
        self, agent_id: str, mirrors: Mirrors, rules: RuleReview, consulting: ReviewConsultant | None = None, *, confined: bool
    ) -> None:
        self._citations = CitationReview()
        self._confined = confined
        self._agent = Agent(role="REVIEWER", agent_id=agent_id)
        self._mirrors = mirrors
        self._rules = rules
        self._consulting = consulting

    async def handle(self, task: TaskContract, context: TaskContext) -> ReviewReport | Error:
        """PASS, FAIL with the blocking findings, or BLOCKED where there is nothing that this reviewer may judge.

        An Error where a model was to be asked and gave no answer that can be used: then nothing was reviewed.
        Raises MalformedError, GitError, ArtifactError, and what a model's gateway does.
        """
        tree: str | None = None
        opinion = Opinion(())
        blocked = self._dependence(task)
        if blocked is None:
            self._rules.judge.prepare()
            try:
                candidate = await rebuild_candidate(task, self._mirrors, context.artifacts)
            except PatchError as error:
                blocked = Finding(code=error.reason, message=error.message, blocking=True)
            else:
                tree = candidate.tree
                answer = await self._findings(task, candidate, context)
                if isinstance(answer, Error):
                    return answer
                opinion = answer
        reviewed_at = timestamp(context.clock.now())
        report = review_report(
            task,
            self._agent,
            reviewed_at,
            tree=tree,
            findings=opinion.findings,
            blocked=blocked,
            evidence=self._evidence(task, opinion),
        )
        report = replace(report, surroundings=await asyncio.to_thread(surroundings), consultation=opinion.consultation)
        context.log.info("reviewed", verdict=report.verdict, findings=len(report.findings))
        return report

    def _evidence(self, task: TaskContract, opinion: Opinion) -> tuple[str, ...]:
        socket = " and its model's socket" if self._consulting is not None and self._consulting.wanted else ""
        seen = (
            f"baseline {task.rollback.baseline_ref}",
            f"{CANDIDATE} {find_artifact(task, CANDIDATE).uri}",
            f"could write to its mirrors{socket} only" if self._confined else "its writes were not confined by the kernel",
        )
        asked = opinion.consultation
        return (*seen, f"model {asked.model}") if asked is not None else seen

    async def _findings(self, task: TaskContract, candidate: RebuiltCandidate, context: TaskContext) -> Opinion | Error:
        """What the rules find; and where they refuse nothing, what a model does besides."""
        if any(each.name == FINDINGS for each in task.inputs.artifacts):
            return await self._judge_search(task, context)
        try:
            subject = Subject(task, await _changed_files(candidate), self._rules.max_file_bytes)
        except OutputTooLargeError as error:
            return Opinion((Finding(code=BEYOND, message=error.message, blocking=True),))
        found = await self._rules.findings(subject)
        if self._consulting is None or not self._consulting.wanted or any(finding.blocking for finding in found):
            return Opinion(found)
        patch = await read_artifact(task, CANDIDATE, context.artifacts)
        answer = await self._consulting.judge(task, subject, patch, context)
        if isinstance(answer, Error):
            return answer
        return Opinion(tuple(sorted((*found, *answer.findings), key=lambda each: not each.blocking)), answer.consultation)

    async def _judge_search(self, task: TaskContract, context: TaskContext) -> Opinion | Error:
        """What is wrong with the citations; and where nothing is, what a model finds about the claims."""
        bundle = codec.decode(await read_artifact(task, FINDINGS, context.artifacts), EvidenceBundle)
        found = await self._citations.findings(task, bundle, context.artifacts)
        if found or self._consulting is None or not self._consulting.wanted:
            return Opinion(found)
        return await self._consulting.judge_claims(task, bundle, context)

    def _dependence(self, task: TaskContract) -> Finding | None:
        """Who implemented or ordered the change does not review it (specification 8, mechanism 2)."""
        mine = self._agent.agent_id
        if task.assigned_agent.role == "REVIEWER" and mine not in {task.owner_agent.agent_id, WORKER.agent_id}:
            return None
        return Finding(code="reviewer_not_independent", message=f"{mine} may not review this change", blocking=True)


def _mirrors(settings: Settings) -> Path:
    return settings.mirrors("reviewer")


def sockets_of(settings: Settings) -> Path:
    """Where the socket of its model's gateway may lie."""
    return settings.directory("reviewer") / "sockets"


def _is_confined(mirrors: Path) -> bool:
    """By trying: a word about oneself proves nothing."""
    try:
        with tempfile.TemporaryFile(dir=mirrors.parent):
            return False
    except PermissionError:
        return True


async def _changed_files(candidate: RebuiltCandidate) -> tuple[ChangedFile, ...]:
    changes = await candidate.mirror.changes(candidate.baseline_tree, candidate.tree)
    contents = await _changed_contents(changes, candidate.mirror)
    return tuple(
        ChangedFile(
            change,
            contents[change.old_id] if change.old_mode not in NO_CONTENT else None,
            contents[change.new_id] if change.new_mode not in NO_CONTENT else None,
        )
        for change in changes
    )


async def _changed_contents(changes: tuple[TreeChange, ...], mirror: Mirror) -> dict[str, bytes]:
    old = {change.old_id for change in changes if change.old_mode not in NO_CONTENT}
    new = {change.new_id for change in changes if change.new_mode not in NO_CONTENT}
    return await mirror.blobs(old | new, MOST_CONTENT)


# The review report about findings. Pure.
def review_report(
    task: TaskContract,
    reviewer: Agent,
    reviewed_at: str,
    *,
    tree: str | None,
    findings: Sequence[Finding],
    blocked: Finding | None,
    evidence: Sequence[str],
) -> ReviewReport:
    """BLOCKED for ``blocked``, FAIL for a blocking finding, else PASS. ``tree`` is the candidate that was looked at."""
    outside = tuple(finding.path or "" for finding in findings if finding.code == OUT_OF_SCOPE)
    seen = (*evidence, f"tree {tree}", f"checks {', '.join(CHECKS)}") if tree else tuple(evidence)
    return ReviewReport(
        run_id=task.log_refs.run_id,
        task_id=task.task_id,
        reviewer=reviewer,
        reviewed_at=reviewed_at,
        verdict="BLOCKED" if blocked else "FAIL" if any(finding.blocking for finding in findings) else "PASS",
        summary=_summary([blocked] if blocked else findings),
        scope_check=ScopeCheck(passed=tree is not None and not outside, violations=outside),
        evidence=seen,
        produced_diff=False,
        tree=tree,
        findings=(blocked,) if blocked else tuple(findings),
    )


def _summary(findings: Sequence[Finding]) -> str:
    blocking = [finding for finding in findings if finding.blocking]
    if not blocking:
        return f"nothing blocks it; {len(findings)} remark(s)" if findings else "nothing was found"
    first = blocking[0]
    place = ":".join(str(part) for part in (first.path, first.line) if part is not None)
    more = f" (and {len(blocking) - 1} more)" if len(blocking) > 1 else ""
    return f"{first.code}: {place + ' ' if place else ''}{first.message}{more}"
