"""What an executor is: a job in, a change on the baseline out. Executors know neither the bus nor each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gatewright.artifacts import ArtifactPort
from gatewright.budgets import Spend, spend_freely
from gatewright.contracts import TaskContract
from gatewright.contracts.consultation import RefusedQuestion
from gatewright.contracts.reports import LeftOut
from gatewright.environment_state import EnvironmentSnapshot
from gatewright.git.mirror import Mirror
from gatewright.sandbox.port import NetworkAttempts
from gatewright.services.worker.executors.blocked_file import NO_FILE, BlockedFile
from gatewright.tasks.activity import ReportActivity, ignore_activity
from gatewright.tasks.questions import AskPublisher, refuse_question


@dataclass(frozen=True, slots=True)
class Job:
    """``answer`` is the executor's entry for this attempt: a command line, or the name of an input artifact.

    ``baseline`` is a commit id that ``mirror`` has. ``spend`` receives the usage since the last call, as soon as it is known;
    it raises BudgetError when the budget is exceeded, and the job is cancelled. ``kept``: artifacts to keep however the job
    ends. ``live`` sends reports to observers; ``ask`` sends a question to the publisher of the run.
    """

    contract: TaskContract
    answer: str
    mirror: Mirror
    baseline: str
    artifacts: ArtifactPort
    spend: Spend = spend_freely
    kept: dict[str, bytes] = field(default_factory=dict)
    live: ReportActivity = ignore_activity
    ask: AskPublisher = refuse_question


@dataclass(frozen=True, slots=True)
class ExecutionFailure:
    """Why there is no change: a stable code, and words. ``blocked``: this host cannot do the task, another might."""

    code: str
    message: str
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """Result of a job. ``tree`` is the baseline with the change; ``patch`` leads to it, empty for no change.

    ``logs`` are kept as artifacts under their names, empty ones left out. With a ``failure``, tree and patch are empty.
    ``environment`` describes what commands saw of the host, ``blocked`` is the file of questions. ``refused``: permission
    requests decided without a person. ``left_out``: files of tools that are not part of the change. ``attempts``: to
    reach the network, if that was counted.
    """

    tree: str = ""
    patch: bytes = b""
    logs: Mapping[str, bytes] = field(default_factory=dict)
    summary: str = ""
    failure: ExecutionFailure | None = None
    environment: EnvironmentSnapshot | None = None
    blocked: BlockedFile = NO_FILE
    refused: tuple[RefusedQuestion, ...] = ()
    left_out: LeftOut | None = None
    attempts: NetworkAttempts | None = None


class ChangeExecutor(Protocol):
    """One way to make a change."""

    async def execute(self, job: Job) -> ExecutionResult:
        """Make the change of ``job``.

        A DeniedError or MalformedError ends the task as FAILED with its reason, SandboxError as BLOCKED; other kinds of
        UnavailableError have it tried again.
        """
