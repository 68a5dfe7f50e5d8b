"""What people and outside systems send to have a run compiled: a request (for the pm) and an abort."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gatewright.contracts.order import Order
from gatewright.contracts.task_contract import TaskType
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Artifact,
    Document,
    Language,
    NonEmpty,
    PackagePull,
    PolicyPack,
    Repository,
    RunId,
    TimeoutRetry,
    ToolName,
    keep_one_spelling,
)

#: Characters of an idempotency key, here and in a header.
KEY_LENGTHS = range(8, 129)


class RunRequest(Order):
    """A structured request, which the pm compiles into a task contract.

    Paths, tests and executor may be missing here; the pm's refusal then names them.
    """

    request: NonEmpty
    """The change that is wanted, in words. It becomes the contract's inputs.spec."""
    repository: Repository
    """Where the change belongs."""
    requested_by: NonEmpty
    """The person or system that wants it. A claim, for the record."""
    baseline_ref: str = "HEAD"
    """Branch, tag or commit that the change is made from; pinned to a commit id at intake."""
    allowed_paths: tuple[str, ...] = ()
    """Where files may change: exact paths or directory prefixes. A run needs at least one."""
    acceptance_tests: tuple[AcceptanceTest, ...] = ()
    """The commands that prove the change. A run needs at least one."""
    artifacts: tuple[Artifact, ...] = ()
    """Named blobs for the executor. They become the contract's inputs.artifacts."""
    language: Language | None = None
    """Chooses the environment profile. Without it, the language is derived from the rest of the request."""
    policy_pack: PolicyPack = "low"
    """Risk tier of the change."""
    timeout_retry: TimeoutRetry | None = None
    """How long and how often; the pm has defaults."""
    strict_acceptance: bool = False
    """Refuse acceptance tests that prove nothing, such as true or echo."""
    idempotency_key: Annotated[str, Meta(min_length=KEY_LENGTHS[0], max_length=KEY_LENGTHS[-1])] | None = None
    """Key of the sender. The same key twice gives the same run."""
    task_type: TaskType = "IMPLEMENT"
    """Kind of the run: a change, or a plan, review or test that lands nothing."""
    mcp_tools: Annotated[tuple[ToolName, ...], Meta(max_length=64)] = ()
    """Tools of the operator's servers that coding agents may call, as SERVER.TOOL."""
    network: PackagePull = "deny"
    """Whether the packages of a changed lock are pulled for its tests: never, or after people agreed."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "baseline_ref", "policy_pack", "priority", "task_type", "tests", "network")


class RequestTask(Document):
    """The task of the pm: an accepted request, its run, and the commit that its baseline was pinned to."""

    run_id: RunId
    task_id: NonEmpty
    """Id of this task; the answer names it."""
    baseline_commit: NonEmpty
    """Full id of the commit that baseline_ref named at intake."""
    request: RunRequest
    """The request as it was accepted."""
    may_ask: bool = False
    """Whether the pm may put questions that it cannot answer to people."""


class AbortRequest(Document):
    """Ends a run that is still open. A finished run stays as it is."""

    run_id: RunId
    reason: NonEmpty
    """The reason, which is written into the ledger and the bundle."""
    requested_by: NonEmpty
    """Who requests it. A claim, for the record."""


class SubmitReply(Document):
    """The answer of the submit service: the run is in the ledger. A refusal is an ``error.v1`` instead."""

    run_id: RunId
    existing: bool = False
    """True if the idempotency key had been seen before: this is the run that it made then."""
