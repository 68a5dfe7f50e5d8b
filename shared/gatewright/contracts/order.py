"""What a request orders and a task contract carries on: the fields that both have, defined once."""

from __future__ import annotations

from gatewright.contracts.vocabulary import (
    Budget,
    Candidates,
    CommandLimits,
    Document,
    Environment,
    Executor,
    Needs,
    OrderedBy,
    Person,
    Priority,
    RequirementId,
    RevertedRun,
    RunId,
    Scope,
    Sharding,
    SourceBranch,
    TestPurpose,
)


class Order(Document, kw_only=True):
    """The part of an order that reaches the contract as the request has it, except for the environment of a profile."""

    executor: Executor | None = None
    """How the worker makes the change. A run needs one, or candidates."""
    candidates: Candidates | None = None
    """Instead of executor: each of these makes the change once, and the best result lands. Not together with sharding."""
    sharding: Sharding | None = None
    """Into how many parts the tech lead may split the work."""
    environment: Environment | None = None
    """What commands see beside the repository."""
    scope: Scope | None = None
    """What is allowed beyond plain edits inside allowed_paths."""
    budget: Budget | None = None
    """What the run may use up."""
    limits: CommandLimits | None = None
    """What each command of the run may use. The policy pack sets the highest values, and those that are missing."""
    requirement_ids: tuple[RequirementId, ...] = ()
    """The requirements that the change serves."""
    audit_only: bool = False
    """The task only examines: an empty diff is then allowed."""
    interactive: bool = False
    """The publisher of the run answers what an agent asks permission for, where the shell permission requires approval. No
    answer refuses."""
    priority: Priority = "normal"
    """How urgent the run is among others."""
    needs: Needs = ()
    """Capabilities that the processes working on the run must have, beside its language and agents, in the operator's words
    (such as gpu). pools.json defines which pools have them."""
    tests: TestPurpose = "change"
    """Whether new and changed tests show the change, or may pass without it, as in a refactoring (characterisation)."""
    author: Person | None = None
    """The author of the landed commit, a claim of the publisher; by default Gatewright, which is always the committer."""
    source_branch: SourceBranch | None = None
    """The branch that the patch was taken from: a claim of the publisher, or with ref a pull request, whose head is judged."""
    again: RunId | None = None
    """The run that this order repeats: an ended one, or one that waits in a merge queue and leaves it when this one enters. The
    queue counts how often a change was queued before."""
    reverts: RevertedRun | None = None
    """The landed run whose change this order takes back: the change is the inverse of its commit."""
    ordered_by: OrderedBy = ()
    """The person who ordered the run, a claim of the publisher; empty: unknown. This person may not approve the run."""

    @property
    def change_request(self) -> SourceBranch | None:
        """Return the head of a change request that the run judges, which the integrated gate compares; None without one."""
        source = self.source_branch
        return source if source is not None and source.ref is not None else None
