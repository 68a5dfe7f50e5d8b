"""``meta.json``: the environment of the run and its participants with their tools, as recorded in the events.

It contains the gatekeeper's own facts. Those of a role are claims in its report; this file has their location and digest, so
that two runs can be compared quickly. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gatewright.contracts import codec
from gatewright.contracts.vocabulary import Agent, Document, RoleName, Surroundings
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory


class Acted(Document):
    """A process that answered a task: the document, and the digest of the surroundings that it reports."""

    task_id: str
    role: RoleName
    agent_id: str
    document: str
    surroundings_sha256: str | None = None


class RunMeta(Document):
    """``policies`` are the digests of the policy files by name; ``policy_sha256`` is the digest over all of them."""

    run_id: str
    requested_by: str
    repository_url: str
    submitted_sha256: str
    policy_sha256: str
    policies: dict[str, str]
    versions: dict[str, str]
    host: dict[str, str]
    acted: tuple[Acted, ...]
    executor: str | None = None
    environment: str | None = None
    sandbox: str | None = None
    model: str | None = None
    #: The submitter, as authenticated by the bus. ``requested_by`` is a claim.
    publisher: str | None = None


def meta(history: RunHistory) -> RunMeta:
    """Return the known environment of a run."""
    run, accepted, contract = history.run, history.run.accepted, history.run.contract
    return RunMeta(
        run_id=run.run_id,
        requested_by=accepted.requested_by,
        repository_url=accepted.repository_url,
        submitted_sha256=accepted.submitted_sha256,
        policy_sha256=accepted.policy_sha256,
        policies=accepted.policies,
        versions=accepted.versions,
        host=accepted.host,
        acted=tuple(_actors(history)),
        executor=contract.executor.kind if contract and contract.executor else None,
        environment=contract.environment.prefixes if contract and contract.environment else None,
        sandbox=run.tests.sandbox if run.tests else None,
        publisher=accepted.publisher,
    )


def digest_of(surroundings: Surroundings | None) -> str | None:
    """Return the sha256 of the canonical JSON of the surroundings that a role reported."""
    return hashlib.sha256(codec.encode(surroundings)).hexdigest() if surroundings else None


def _actors(history: RunHistory) -> Iterator[Acted]:
    """Yield participants in the order of the work. A compiled contract names its pm but no surroundings."""
    run = history.run
    if run.request and run.contract:
        task_id = next((task.task_id for task in run.tasks.values() if task.role == "pm"), "")
        yield _entry(task_id, run.contract.owner_agent, layout.CONTRACT, None)
    for task_id, plan in history.plans.items():
        yield _entry(task_id, plan.producer, layout.task_plan(task_id), plan.surroundings)
    for task_id, result in history.results.items():
        yield _entry(task_id, result.producer, layout.task_result(task_id), result.surroundings)
    for task_id, review in history.reviews.items():
        yield _entry(task_id, review.reviewer, layout.review(task_id), review.surroundings)
    for task_id, tests in history.tests.items():
        yield _entry(task_id, tests.runner, layout.test(task_id), tests.surroundings)


def _entry(task_id: str, agent: Agent, document: str, surroundings: Surroundings | None) -> Acted:
    return Acted(
        task_id=task_id,
        role=agent.role,
        agent_id=agent.agent_id,
        document=document,
        surroundings_sha256=digest_of(surroundings),
    )
