"""How much a change risks and who has to look at it: the operator's rules of it, and the document that follows from them.

The document is made by the gatekeeper from what the ledger holds, when all gates before the landing have passed; no role and no
model has a say in it. ``verify`` makes it again.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.people.approvals import Risk
from gatewright.contracts.reports import GateName
from gatewright.contracts.vocabulary import Attempt, Count, Document, NonEmpty, PathPattern, RunId, Sha256

SignalName = Literal["paths", "protected", "kinds", "size", "permissions", "validation", "history", "review"]
LaneName = Literal["work", "scope", "validation", "review", "opinion", "critic", "person", "landing"]
#: What the owner of a lane may do: change files, only look, rule by what can be computed, or sign.
Authority = Literal["edit", "read_only", "runtime", "person"]
LaneStatus = Literal["done", "open", "skipped"]
TriggerCode = Literal[
    "findings_left", "mutants_survived", "passed_second_time", "proof_missing", "rounds_refused", "unconfined_tests"
]
_Words = Annotated[str, Meta(max_length=2000)]


class RoutingRules(Document):
    """The policy file ``routing_rules.json``.

    A change is of low risk only when all its files are of ``low_paths``, it has no more than ``low_files`` and ``low_lines``,
    and nothing else speaks against it; it is of high risk when a file is of ``high_paths``, or it has more than
    ``high_files`` or ``high_lines``.
    """

    version: Literal["1"]
    low_paths: tuple[PathPattern, ...] = ()
    high_paths: tuple[PathPattern, ...] = ()
    low_files: Count = 20
    low_lines: Count = 400
    high_files: Count = 50
    high_lines: Count = 2000


class RoutingSignal(Document):
    """One thing that was looked at, and the tier that it alone would give. The highest of all is the run's."""

    signal: SignalName
    tier: Risk
    detail: _Words


class CriticTrigger(Document):
    """Evidence that passed and leaves a doubt. ``refs`` are the ids of the tasks that it is of."""

    code: TriggerCode
    detail: _Words
    refs: tuple[NonEmpty, ...] = ()


class ReviewLane(Document):
    """One way in which the change is looked at: whose it is, whether it must be gone, and which gate it can satisfy.

    ``satisfies`` is None for a lane whose evidence lets no gate pass. ``refs`` are ids of tasks, or names of approval rules.
    """

    lane: LaneName
    owner: NonEmpty
    authority: Authority
    required: bool
    status: LaneStatus
    reason: _Words
    satisfies: GateName | None = None
    refs: tuple[NonEmpty, ...] = ()


class ReviewRouting(Document):
    """The tier of one candidate, why it has it, and the lanes that follow."""

    run_id: RunId
    attempt: Attempt
    contract_sha256: Sha256
    candidate_tree: NonEmpty
    tier: Risk
    signals: Annotated[tuple[RoutingSignal, ...], Meta(min_length=1)]
    critic_triggers: tuple[CriticTrigger, ...]
    lanes: tuple[ReviewLane, ...]
