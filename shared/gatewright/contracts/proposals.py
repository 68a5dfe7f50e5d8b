"""What models answer to pm, tech lead and reviewer. Proposals: nothing here orders anything (specification 6.2.2)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from gatewright.contracts.consultation import MOST_BLOCKED
from gatewright.contracts.vocabulary import Document, Filesystem, Network, NonEmpty, PolicyPack, Positive, RequirementId, Shell

#: Words of a model about its own answer; longer ones are no summary.
Words = Annotated[str, Meta(min_length=1, max_length=4000)]


class ProposedBlock(Document):
    """A question that the model could not answer, and the guess that its answer rests on.

    The prompt has this field only where people are asked.
    """

    question: Annotated[str, Meta(min_length=1, max_length=1000)]
    """A question that only a person can answer."""
    best_guess: Annotated[str, Meta(min_length=1, max_length=1000)]
    """What you take it to be."""
    fallback_action: Annotated[str, Meta(min_length=1, max_length=1000)]
    """What this answer does meanwhile, by that guess."""
    human_required_for: Literal["credential", "destructive op", "scope expansion"] | None = None
    """What only a person can give."""


Blocks = Annotated[tuple[ProposedBlock, ...], Meta(max_length=MOST_BLOCKED)]


class ProposedTest(Document):
    """A command that is to prove the change."""

    cmd: Annotated[str, Meta(min_length=1, max_length=1000)]
    """Words of an argv; no shell runs."""
    why: Annotated[str, Meta(max_length=1000)] = ""
    """What its success proves."""


class ProposedExecutor(Document):
    """How the change could be made. The names are those of a contract's executor."""

    kind: Annotated[str, Meta(min_length=1, max_length=40)]
    """command, agent or model, whichever the question offers."""
    commands: Annotated[tuple[NonEmpty, ...], Meta(max_length=11)] = ()
    """For command: one argv string per attempt."""
    agent: Annotated[str, Meta(max_length=100)] | None = None
    """For agent: its name."""
    model: Annotated[str, Meta(max_length=100)] | None = None
    """For agent and model: the model's name."""


class ProposedPermissions(Document):
    filesystem: Filesystem
    shell: Shell
    network: Network


class ContractProposal(Document):
    """What the pm's model answers to a request: a proposal, which the pm clamps to what the requester allowed."""

    directive_ack: NonEmpty
    """The directive_ack marker of the question, repeated."""
    summary: Words
    """The change in one or two sentences."""
    allowed_paths: Annotated[tuple[NonEmpty, ...], Meta(min_length=1, max_length=64)]
    """Files or directories that may change, from the repository's root, with /; no wildcards; as few as the change needs."""
    acceptance_tests: Annotated[tuple[ProposedTest, ...], Meta(min_length=1, max_length=16)]
    """Commands that fail before the change is right and succeed after it."""
    executor: ProposedExecutor | None = None
    """How the change is made; only where the request leaves it open."""
    tool_permissions: ProposedPermissions | None = None
    """What the worker needs; it is never given more than the least."""
    policy_pack: PolicyPack | None = None
    """The risk tier that the change seems to have; the request's own stands."""
    requirement_ids: tuple[RequirementId, ...] = ()
    """Requirement ids that the request names."""
    assumptions: tuple[Words, ...] = ()
    """What was taken for granted."""
    risks: tuple[Words, ...] = ()
    """What may go wrong."""
    blocked: Blocks = ()
    """Questions for people, without waiting: the answer uses the guess. Decide preferences yourself."""


class ProposedShard(Document):
    """The paths of one worker."""

    paths: Annotated[tuple[NonEmpty, ...], Meta(min_length=1, max_length=256)]
    """Paths that this shard alone may change."""
    batch: Literal["narrow", "broad", "terminal"]
    """Narrow shards run together, broad ones alone, terminal ones (manifests, migrations) last."""
    reason: Annotated[str, Meta(max_length=1000)] = ""
    """Why these belong together."""


class PlanProposal(Document):
    """What the tech lead's model answers to a contract: disjoint shards inside its paths, judged by the rules of the plan
    gate."""

    directive_ack: NonEmpty
    """The directive_ack marker of the question, repeated."""
    summary: Words
    """How the work is split, and why."""
    shards: Annotated[tuple[ProposedShard, ...], Meta(min_length=1, max_length=64)]
    """The shards; no path in two of them."""
    risks: tuple[Words, ...] = ()
    """What may go wrong."""
    blocked: Blocks = ()
    """Questions for people, without waiting: the answer uses the guess. Decide preferences yourself."""


class Observation(Document, kw_only=True):
    """A place in the candidate, and how it supports the verdict."""

    # In this order in the reviewer's prompt: a recorded answer belongs to the bytes of its prompt.
    path: NonEmpty
    """A changed file."""
    line: Positive | None = None
    """The line of the candidate's file; left out for a file that is gone."""
    note: Words
    """What stands on that line of the candidate."""


class OpinionFinding(Document):
    """A problem at a place in the candidate."""

    path: NonEmpty
    """A changed file."""
    message: Words
    """What is wrong."""
    blocking: bool
    """Whether it must not land."""
    line: Positive | None = None
    """The line of the candidate's file; left out for a file that is gone."""


class ReviewOpinion(Document):
    """What the reviewer's model answers to a change. It may refuse what the rules let pass, and never the other way round."""

    directive_ack: NonEmpty
    """The directive_ack marker of the question, repeated."""
    verdict: Literal["PASS", "FAIL"]
    """FAIL for any reason not to land it."""
    summary: Words
    """The verdict in one or two sentences."""
    evidence: Annotated[tuple[Observation, ...], Meta(max_length=100)]
    """Places of the candidate that were looked at."""
    findings: Annotated[tuple[OpinionFinding, ...], Meta(max_length=200)] = ()
    """Observations, each at a place that exists."""
    blocked: Blocks = ()
    """Questions for people, without waiting: the answer uses the guess. Decide preferences yourself."""
