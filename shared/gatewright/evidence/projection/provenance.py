"""``meta.json``: what the run happened on, and who acted in it with what, as far as the run's events record it.

The gatekeeper's own facts stand here. Those of a role stand in its report, which is its word; here is where to find it, and the
digest of what it says, so that two runs can be compared at a glance. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gatewright.contracts import codec
from gatewright.contracts.vocabulary import Agent, Document, RoleName, Surroundings
from gatewright.evidence import layout
from gatewright.evidence.projection.history import RunHistory


class Acted(Document):
    """A process that answered a task: in which document, and the digest of the surroundings that it tells of."""

    task_id: str
    role: RoleName
    agent_id: str
    document: str
    surroundings_sha256: str | None = None


class RunMeta(Document):
    """``policies`` are the digests of the policy files by name; ``policy_sha256`` is the one over all of them."""

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
    #: Who submitted it: the identity that the bus knew. ``requested_by`` is a claim.
    publisher: str | None = None


def meta(history: RunHistory) -> RunMeta:
    """What is known of the surroundings of a run."""
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
    """The sha256 of the canonical JSON of what a role told of its surroundings."""
    return hashlib.sha256(codec.encode(surroundings)).hexdigest() if surroundings else None


def _actors(history: RunHistory) -> Iterator[Acted]:
    """In the order of the work; a compiled contract names its pm, and tells nothing of what it was made with."""
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
