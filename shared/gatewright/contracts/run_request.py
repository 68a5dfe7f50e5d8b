"""What people and outside systems send to have a run compiled: a request (for the pm) and an abort."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Artifact,
    Budget,
    Candidates,
    Document,
    Environment,
    Executor,
    Language,
    Needs,
    NonEmpty,
    OrderedBy,
    Person,
    PolicyPack,
    Priority,
    Repository,
    RequirementId,
    RunId,
    Scope,
    Sharding,
    SourceBranch,
    TimeoutRetry,
    keep_one_spelling,
)

#: Characters of an idempotency key, here and in a header.
KEY_LENGTHS = range(8, 129)


class RunRequest(Document):
    """A structured request. Paths, tests and executor may be missing here; the pm then refuses it and names them."""

    request: NonEmpty
    repository: Repository
    requested_by: NonEmpty
    baseline_ref: str = "HEAD"
    allowed_paths: tuple[str, ...] = ()
    acceptance_tests: tuple[AcceptanceTest, ...] = ()
    executor: Executor | None = None
    #: In place of ``executor``: the change is made once by each of these, and the best of them lands.
    candidates: Candidates | None = None
    artifacts: tuple[Artifact, ...] = ()
    sharding: Sharding | None = None
    environment: Environment | None = None
    #: Chooses the environment profile; without it the language is told from the rest of the request.
    language: Language | None = None
    scope: Scope | None = None
    budget: Budget | None = None
    policy_pack: PolicyPack = "low"
    timeout_retry: TimeoutRetry | None = None
    requirement_ids: tuple[RequirementId, ...] = ()
    strict_acceptance: bool = False
    audit_only: bool = False
    #: The publisher of the run answers what an agent asks leave for, where the shell permission wants it approved.
    interactive: bool = False
    priority: Priority = "normal"
    #: What the processes that work on the run have to have, in the operator's words (``gpu``); pools.json says which pools do.
    needs: Needs = ()
    #: The author of the landed commit; without one it is Gatewright's, who is the committer always.
    author: Person | None = None
    source_branch: SourceBranch | None = None
    #: The person who ordered it, as the publisher knows them; empty: it knows no person. Decides who may not approve the run.
    ordered_by: OrderedBy = ()
    #: The same key twice gives the same run.
    idempotency_key: Annotated[str, Meta(min_length=KEY_LENGTHS[0], max_length=KEY_LENGTHS[-1])] | None = None

    def __post_init__(self) -> None:
        keep_one_spelling(self, "baseline_ref", "policy_pack", "priority")


class RequestTask(Document):
    """What the pm is sent: the request, the id of the run it belongs to and the commit its baseline was pinned to.

    ``may_ask``: people are asked what it cannot tell.
    """

    run_id: RunId
    task_id: NonEmpty
    baseline_commit: NonEmpty
    request: RunRequest
    may_ask: bool = False


class AbortRequest(Document):
    """Ends a run that is still open; sent to ``gw.intake.abort``."""

    run_id: RunId
    reason: NonEmpty
    requested_by: NonEmpty


class SubmitReply(Document):
    """The answer of ``gw.submit``: the run is in the ledger."""

    run_id: RunId
    #: True when the idempotency key had been seen before and this is the run that it made then.
    existing: bool = False
