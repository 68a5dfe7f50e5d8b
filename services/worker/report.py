"""The worker's documents about a finished job. Pure. The gates in them are the worker's own view; nothing is decided by it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from gatewright import scope
from gatewright.contracts import Blocked, TaskContract, TaskResult, WorkReport
from gatewright.contracts.consultation import RefusedQuestion
from gatewright.contracts.reports import GateOutcome, GateOutcomes, GitOutcome, NextSteps
from gatewright.contracts.vocabulary import Agent, Artifact, Usage
from gatewright.git.changes import TreeChange
from gatewright.git.paths import display
from gatewright.services.worker.executors.port import ExecutionResult
from gatewright.tasks.command_host import reported_attempts

#: Paths and violations that a result lists; the summary counts all.
MAX_LISTED = 1000

_STATUS_WORDS = {"A": "added", "D": "deleted", "M": "modified", "T": "of another type"}
_NOT_JUDGED = GateOutcome(passed=False, violations=("not judged by the worker",))


@dataclass(frozen=True, slots=True)
class Outcome:
    """Everything that is known when a job is done. ``patch`` is an artifact URI, empty for no change."""

    contract: TaskContract
    agent: Agent
    started_at: str
    finished_at: str
    execution: ExecutionResult
    changes: tuple[TreeChange, ...]
    patch: str
    logs: tuple[Artifact, ...]
    usage: Usage | None = None
    blocked: tuple[Blocked, ...] = ()
    refused: tuple[RefusedQuestion, ...] = ()

    @property
    def failure(self) -> str | None:
        """``code: message``, or None."""
        failure = self.execution.failure
        return None if failure is None else f"{failure.code}: {failure.message}"

    @property
    def status(self) -> Literal["SUCCESS", "FAILED", "BLOCKED"]:
        failure = self.execution.failure
        if failure is None:
            return "SUCCESS"
        return "BLOCKED" if failure.blocked else "FAILED"

    @property
    def summary(self) -> str:
        return self.failure or f"{self.diff_summary}; {self.execution.summary}"

    @property
    def diff_summary(self) -> str:
        """``3 files changed: 1 added, 2 modified``."""
        if not self.changes:
            return "no file changed"
        kinds = Counter(_STATUS_WORDS.get(change.status, change.status) for change in self.changes)
        noun = "file" if len(self.changes) == 1 else "files"
        return f"{len(self.changes)} {noun} changed: " + ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def work_report(outcome: Outcome) -> WorkReport:
    """The short report that goes with the result."""
    return WorkReport(
        task_id=outcome.contract.task_id,
        status="success" if outcome.failure is None else "fail",
        patch_ref=outcome.patch,
        diff_summary=outcome.diff_summary,
        evidence_refs=tuple(artifact.uri for artifact in outcome.logs),
        failure_reason=outcome.failure,
        usage=outcome.usage,
    )


def task_result(outcome: Outcome, report: Artifact) -> TaskResult:
    """The result that is published; ``report`` is the stored work report."""
    contract = outcome.contract
    return TaskResult(
        run_id=contract.log_refs.run_id,
        task_id=contract.task_id,
        producer=outcome.agent,
        status=outcome.status,
        started_at=outcome.started_at,
        finished_at=outcome.finished_at,
        summary=outcome.summary,
        artifacts=(report, *outcome.logs),
        git=GitOutcome(
            baseline_ref=contract.rollback.baseline_ref,
            head_ref=outcome.execution.tree,
            changed_files=tuple(display(change.path) for change in outcome.changes[:MAX_LISTED]),
            patch=outcome.patch,
        ),
        gates=GateOutcomes(
            diff_gate=_own_view(outcome), policy_gate=_NOT_JUDGED, review_gate=_NOT_JUDGED, tests_gate=_NOT_JUDGED
        ),
        next_steps=_next_steps(outcome),
        attempt=contract.attempt,
        failure=outcome.failure,
        usage=outcome.usage,
        blocked=outcome.blocked,
        questions_refused=outcome.refused,
        left_out=outcome.execution.left_out,
        attempts=reported_attempts(outcome.execution.attempts),
    )


def _own_view(outcome: Outcome) -> GateOutcome:
    if outcome.failure is not None:
        return GateOutcome(passed=False, violations=("there is no change to judge",))
    outside = scope.outside(outcome.contract.allowed_paths, [change.path for change in outcome.changes])
    violations = tuple(f"path_out_of_scope: {display(path)}" for path in outside[:MAX_LISTED])
    return GateOutcome(passed=not violations, violations=violations)


def _next_steps(outcome: Outcome) -> NextSteps:
    if outcome.failure is not None:
        return NextSteps(suggested_action="correct the cause and run it again", notes=outcome.failure)
    if not outcome.changes:
        return NextSteps(suggested_action="check that the executor was meant to change nothing", notes="the diff is empty")
    return NextSteps(suggested_action="judge the patch", notes=outcome.execution.summary)
