"""Risk of a change and its reviewers: the operator's rules, and the document that follows from them.

The gatekeeper derives the document from the ledger when all gates before the landing have passed; no role and no model can
influence it. ``verify`` recomputes it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.people.approvals import AnswerLimits, Risk, TriggerCode
from gatewright.contracts.reports import GateName
from gatewright.contracts.vocabulary import Attempt, Count, Document, NonEmpty, PathPattern, RunId, Sha256, keep_one_spelling

SignalName = Literal["paths", "protected", "kinds", "size", "permissions", "validation", "history", "review"]
LaneName = Literal["work", "scope", "validation", "review", "opinion", "qa", "critic", "person", "landing"]
#: What the owner of a lane may do: change files, only look, rule by what can be computed, or sign.
Authority = Literal["edit", "read_only", "runtime", "person"]
LaneStatus = Literal["done", "open", "skipped"]
_Words = Annotated[str, Meta(max_length=2000)]


class ModelTester(AnswerLimits, kw_only=True):
    """A model that the reviewer role asks for cases that the tests of a change miss. Its answer is advice."""

    from_tier: Risk = "low"
    """The lowest tier of a change that it is asked about."""

    def __post_init__(self) -> None:
        keep_one_spelling(self, "cost_usd", "from_tier")


class RoutingRules(Document):
    """The policy file ``routing_rules.json``: the rules that decide how much a change risks.

    A change is of low risk only if all its files match ``low_paths``, it has at most ``low_files`` and ``low_lines``, and no
    other signal raises it. It is of high risk if a file matches ``high_paths``, or it has more than ``high_files`` or
    ``high_lines``.
    """

    version: Literal["1"]
    """Version of the file format."""
    low_paths: tuple[PathPattern, ...] = ()
    """Files of low risk: a directory at the root (docs/), one file, or every file whose name ends like this (*.md)."""
    high_paths: tuple[PathPattern, ...] = ()
    """Files of high risk, in the same form. Case does not matter."""
    low_files: Count = 20
    """A change of more files than this is at least of medium risk."""
    low_lines: Count = 400
    """A change of more lines than this is at least of medium risk."""
    high_files: Count = 50
    """A change of more files than this is of high risk."""
    high_lines: Count = 2000
    """A change of more lines than this is of high risk."""
    model_tester: ModelTester | None = None
    """The model that looks for missed cases; null: none."""


class RoutingSignal(Document):
    """One thing that was looked at. The highest tier of all signals is the run's."""

    signal: SignalName
    """Kind of the signal."""
    tier: Risk
    """The tier that this signal alone would give."""
    detail: _Words
    """A sentence with the deciding reason."""


class CriticTrigger(Document):
    """Evidence that passed and leaves a doubt."""

    code: TriggerCode
    """Stable code of the doubt."""
    detail: _Words
    """What raised the doubt, in words."""
    refs: tuple[NonEmpty, ...] = ()
    """Ids of the tasks that the evidence comes from."""


class ReviewLane(Document):
    """One way in which the change is looked at: who owns it, whether it is required, and which gate it can satisfy."""

    lane: LaneName
    """The lane."""
    owner: NonEmpty
    """Who owns the lane: a role's agent, a model, people, or the gatekeeper."""
    authority: Authority
    """What the owner may do."""
    required: bool
    """Whether the change must pass this lane."""
    status: LaneStatus
    """State of the lane."""
    reason: _Words
    """Why it is required, or skipped."""
    satisfies: GateName | None = None
    """The gate that its evidence can satisfy; left out: none."""
    refs: tuple[NonEmpty, ...] = ()
    """Ids of tasks, or names of approval rules."""


class ReviewRouting(Document):
    """How much a candidate risks, by rule, and who has to look at it.

    The gatekeeper makes it from the ledger when the gates before the landing have passed.
    """

    run_id: RunId
    attempt: Attempt
    """The round of the run."""
    contract_sha256: Sha256
    """Digest of the contract's canonical JSON."""
    candidate_tree: NonEmpty
    """The tree that was reviewed and tested."""
    tier: Risk
    """The highest tier of all signals."""
    signals: Annotated[tuple[RoutingSignal, ...], Meta(min_length=1)]
    """What was looked at."""
    critic_triggers: tuple[CriticTrigger, ...]
    """Evidence that passed and leaves a doubt."""
    lanes: tuple[ReviewLane, ...]
    """The lanes in which the change is looked at."""
