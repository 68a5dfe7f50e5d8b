"""What models answer to pm, tech lead and reviewer. Proposals: nothing here orders anything (specification 6.2.2)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.consultation import MOST_BLOCKED
from gatewright.contracts.vocabulary import (
    Document,
    Filesystem,
    Network,
    NonEmpty,
    PolicyPack,
    Positive,
    RequirementId,
    Shell,
)

#: Words of a model about its own answer; longer ones are no summary.
Words = Annotated[str, Meta(min_length=1, max_length=4000)]


class ProposedBlock(Document):
    """What the model could not tell, and what its answer rests on instead. It is told of the field where people are asked."""

    question: Annotated[str, Meta(min_length=1, max_length=1000)]
    best_guess: Annotated[str, Meta(min_length=1, max_length=1000)]
    fallback_action: Annotated[str, Meta(min_length=1, max_length=1000)]
    human_required_for: Literal["credential", "destructive op", "scope expansion"] | None = None


Blocks = Annotated[tuple[ProposedBlock, ...], Meta(max_length=MOST_BLOCKED)]


class ProposedTest(Document):
    """A command that is to prove the change, and why it does."""

    cmd: Annotated[str, Meta(min_length=1, max_length=1000)]
    why: Annotated[str, Meta(max_length=1000)] = ""


class ProposedExecutor(Document):
    """How the change could be made. The names are the executor's of a contract."""

    kind: Annotated[str, Meta(min_length=1, max_length=40)]
    commands: Annotated[tuple[NonEmpty, ...], Meta(max_length=11)] = ()
    agent: Annotated[str, Meta(max_length=100)] | None = None
    model: Annotated[str, Meta(max_length=100)] | None = None


class ProposedPermissions(Document):
    filesystem: Filesystem
    shell: Shell
    network: Network


class ContractProposal(Document):
    """The pm's model on a request: where the change lies, what proves it, how it is made."""

    directive_ack: NonEmpty
    summary: Words
    allowed_paths: Annotated[tuple[NonEmpty, ...], Meta(min_length=1, max_length=64)]
    acceptance_tests: Annotated[tuple[ProposedTest, ...], Meta(min_length=1, max_length=16)]
    executor: ProposedExecutor | None = None
    tool_permissions: ProposedPermissions | None = None
    policy_pack: PolicyPack | None = None
    requirement_ids: tuple[RequirementId, ...] = ()
    assumptions: tuple[Words, ...] = ()
    risks: tuple[Words, ...] = ()
    blocked: Blocks = ()


class ProposedShard(Document):
    """Paths of one worker. ``batch``: narrow ones run together, broad ones alone, terminal ones last."""

    paths: Annotated[tuple[NonEmpty, ...], Meta(min_length=1, max_length=256)]
    batch: Literal["narrow", "broad", "terminal"]
    reason: Annotated[str, Meta(max_length=1000)] = ""


class PlanProposal(Document):
    """The tech lead's model on a contract: disjoint shards inside its paths."""

    directive_ack: NonEmpty
    summary: Words
    shards: Annotated[tuple[ProposedShard, ...], Meta(min_length=1, max_length=64)]
    risks: tuple[Words, ...] = ()
    blocked: Blocks = ()


class Observation(Document):
    """A place of the candidate, and what stands there that speaks for the verdict; no line for a file that is gone."""

    path: NonEmpty
    note: Words
    line: Positive | None = None


class OpinionFinding(Document):
    """``line`` is one of the candidate's file; left out only for a file that the candidate does not have any more."""

    path: NonEmpty
    message: Words
    blocking: bool
    line: Positive | None = None


class ReviewOpinion(Document):
    """The reviewer's model on a change. It can refuse what the rules let pass, and never let pass what they refuse."""

    directive_ack: NonEmpty
    verdict: Literal["PASS", "FAIL"]
    summary: Words
    evidence: Annotated[tuple[Observation, ...], Meta(max_length=100)]
    findings: Annotated[tuple[OpinionFinding, ...], Meta(max_length=200)] = ()
    blocked: Blocks = ()
