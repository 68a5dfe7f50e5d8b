"""Events of the work itself: answers and failures of tasks, their usage, and the candidate composed of their patches."""

from __future__ import annotations

from typing import ClassVar, Literal

from msgspec.structs import replace

from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.reports import Error, TaskResult
from gatewright.contracts.vocabulary import Artifact, Document, Environment, FurtherEnvironment, Sha256, Usage
from gatewright.errors import MalformedError
from gatewright.run.candidates import reason_of
from gatewright.run.events.base import RunEvent, role_of_task
from gatewright.run.spending import most
from gatewright.run.state import Run, RunTask, TaskStatus
from gatewright.run.states import Level
from gatewright.run.votes import withdraw_of_tasks


def _with_usage(run: Run, task: RunTask, usage: Usage) -> Run:
    return run.with_tasks(replace(task, usage={**task.usage, usage.delivery: most(task.usage.get(usage.delivery), usage)}))


class TaskFinished(RunEvent, frozen=True):
    """A worker has answered. ``accepted``: its patch passed the diff gate, and ``tree`` is what the gatekeeper computed."""

    event_type: ClassVar[str] = "task_finished"
    role_label: ClassVar[str | None] = "worker"
    result: TaskResult
    accepted: bool
    tree: str = ""

    def may_follow(self, run: Run) -> str:
        task = run.tasks.get(self.result.task_id)
        fits = task is not None and task.role == "worker" and task.status == "RUNNING" and task.attempt == run.attempt
        return "" if fits and run.state == "S2" else "no worker was at this task"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        task_id = self.result.task_id
        run = replace(run, approvals=withdraw_of_tasks(run.approvals, {task_id}))
        status: TaskStatus = "SUCCESS" if self.accepted else "FAILED"
        return run.with_tasks(replace(run.task(task_id), status=status, result=self.result, tree=self.tree))

    def of_candidate(self, run: Run) -> int:
        return run.candidate_of_task(self.result.task_id)

    def disqualifies(self) -> str:
        return reason_of(self.result.failure or "", "executor_failed") if self.result.status != "SUCCESS" else ""

    def of_task(self) -> str | None:
        return self.result.task_id

    def severity(self, run: Run) -> Level:
        del run
        return "INFO" if self.accepted else "ERROR"


class TaskFailed(RunEvent, frozen=True):
    """A role could not complete its task."""

    event_type: ClassVar[str] = "task_failed"
    level: ClassVar[Level] = "ERROR"
    error: Error

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        task_id = self.error.task_id or ""
        run = replace(run, approvals=withdraw_of_tasks(run.approvals, {task_id}))
        task = run.tasks.get(task_id)
        return run.with_tasks(replace(task, status="FAILED")) if task is not None else run

    def of_candidate(self, run: Run) -> int:
        return run.candidate_of_task(self.error.task_id)

    def disqualifies(self) -> str:
        return reason_of(self.error.code, "task_failed")

    def of_task(self) -> str | None:
        return self.error.task_id

    def speaker(self, run: Run, task_id: str | None) -> str | None:
        return role_of_task(run, task_id)


class UsageReported(RunEvent, frozen=True):
    """A task has used more than recorded so far; ``usage`` is the total of one delivery."""

    event_type: ClassVar[str] = "usage_reported"
    after_end: ClassVar[bool] = True
    task_id: str
    usage: Usage

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return _with_usage(run, run.task(self.task_id), self.usage)

    def of_task(self) -> str | None:
        return self.task_id

    def speaker(self, run: Run, task_id: str | None) -> str | None:
        return role_of_task(run, task_id)


class TaskInterrupted(RunEvent, frozen=True):
    """A delivery of a task ended without an answer; possibly after the end of the run, which interrupted it.

    ``usage`` is the total of the delivery; ``artifacts`` are the records of its model calls and other remains.
    """

    event_type: ClassVar[str] = "task_interrupted"
    after_end: ClassVar[bool] = True
    level: ClassVar[Level] = "WARN"
    task_id: str
    why: Literal["cancelled", "timed_out", "released", "failed"]
    usage: Usage
    artifacts: tuple[Artifact, ...] = ()

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Record the interruption. Raises MalformedError also for a delivery that was interrupted before."""
        del record
        task, delivery = run.task(self.task_id), self.usage.delivery
        if delivery in task.interrupted:
            raise MalformedError(f"delivery {delivery} of {task.task_id[:80]!r} was interrupted before", code="bad_event")
        return _with_usage(run, replace(task, interrupted={**task.interrupted, delivery: self}), self.usage)

    def of_task(self) -> str | None:
        return self.task_id

    def speaker(self, run: Run, task_id: str | None) -> str | None:
        return role_of_task(run, task_id)


class AnswerIgnored(RunEvent, frozen=True):
    """A role's answer without effect: its task is done, or its attempt is over. Only the first one per task is recorded."""

    event_type: ClassVar[str] = "answer_ignored"
    level: ClassVar[Level] = "WARN"
    reason: Literal["task_done", "attempt_over"]
    message_id: str
    document_sha256: str

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        return run.with_tasks(replace(run.task(record.task_id), answered_late=True))

    def speaker(self, run: Run, task_id: str | None) -> str | None:
        return role_of_task(run, task_id)


class ChangedOrder(Document, frozen=True):
    """The order of environments for the candidate's own packages: its digest, and the changed ``files`` that decide them.

    ``packages``: lines for people on what is added, removed and moved.
    """

    sha256: Sha256
    files: tuple[str, ...]
    packages: tuple[str, ...] = ()


class CandidateComposed(RunEvent, frozen=True):
    """All patches composed: the tree that is reviewed, tested and landed.

    ``patch`` is the artifact of the canonical diff, ``names`` that of the changed paths, NUL-separated; ``candidate`` is its
    number among several, 0 for the only one. By policy: ``path_kinds``, paths by risk; ``versions``, the version change if
    nothing else changes. ``order``: what its tests need pulled first, where the order permits that.
    """

    event_type: ClassVar[str] = "candidate_composed"
    role_label: ClassVar[str | None] = None
    tree: str
    patch: str
    names: str
    changed_files: int
    changed_lines: int
    candidate: int
    path_kinds: dict[str, int] | None = None
    versions: Literal["patch", "minor", "major"] | None = None
    order: ChangedOrder | None = None

    def may_follow(self, run: Run) -> str:
        ready = run.state == ("S2" if run.kind.works else "S1") and run.candidate is None
        return "" if ready else "it is not the time to compose"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, candidate=self, pulled=None)

    def of_candidate(self, run: Run) -> int:
        del run
        return self.candidate


class EnvironmentPulled(RunEvent, frozen=True):
    """The puller made the environments of the candidate's own packages. All commands on the candidate see them."""

    event_type: ClassVar[str] = "environment_pulled"
    tree: str
    order_sha256: str
    environments: tuple[OrderedEnvironment, ...]

    @property
    def words(self) -> str:
        """The environments, for people."""
        return ", ".join(each.prefix for each in self.environments) or "no file asks for packages"

    @property
    def shown(self) -> Environment | None:
        """What commands on the candidate see; None if no file asks for packages any more."""
        prefixes = [each.prefix for each in self.environments]
        others = tuple(FurtherEnvironment(prefix=each) for each in prefixes[1:])
        return Environment(prefix=prefixes[0], others=others) if prefixes else None

    def may_follow(self, run: Run) -> str:
        order = run.changed_order
        if run.state != "S4" or run.tests is not None or not run.awaits_environment:
            return "the tests need no environment of their own now"
        if run.candidate is None or order is None or (self.tree, self.order_sha256) != (run.candidate.tree, order.sha256):
            return "it is the environment of another candidate"
        network = run.contract.tool_permissions.network if run.contract is not None else "deny"
        agreed = network == "on-request" and run.has_agreed_order(self.order_sha256)
        return "" if agreed else "no approval is about this order of environments"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, pulled=self)
