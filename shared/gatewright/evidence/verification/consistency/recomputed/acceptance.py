"""The run's first event follows from its order: its id, its requester, and the digest over the policies that it names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from msgspec.structs import replace

from gatewright.contracts import RunRequest, codec
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, ReplayedRun, verdicts
from gatewright.order_artifacts.canonical_memory import without_memory
from gatewright.rules.gate_evidence import BASELINE
from gatewright.rules.people.ownership import requester_of
from gatewright.rules.policy_digest import policies_sha256
from gatewright.rules.reports.artifacts import broken_by_artifacts
from gatewright.run.state import Run, run_id_of

RUN = "run_contradicts"
ORDER = "order_contradicts"
POLICIES = "policies_contradict"
#: Length from which a rule's detail may have been truncated.
_WHOLE = 600


def check_acceptance(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check the first event.

    1. The run id is the hash of publisher and key.
    2. The order names the requester, and its artifacts are pinned.
    3. The policies have their digest.
    4. The request has the recorded digest, apart from pinned fields.
    """
    run = replayed.run
    yield from _run_id(run)  # 1
    order = run.accepted.request or run.accepted.contract
    if order is not None and run.accepted.requested_by != requester_of(order):  # 2
        words = f"{run.accepted.requested_by} is recorded as requester, but the document names {requester_of(order)}"
        yield Contradiction(ORDER, layout.EVENTS, layout.REQUEST if run.request is not None else layout.CONTRACT, words)
    given = () if order is None else order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    for broken in broken_by_artifacts(given):
        yield Contradiction(broken.code, layout.EVENTS, layout.CONTRACT, broken.detail)
    yield from _policies(run)  # 3
    yield from _check_people(run)  # 2
    yield from _document(replayed)  # 4


def _run_id(run: Run) -> Iterator[Contradiction]:
    accepted = run.accepted
    own = accepted.request.idempotency_key if accepted.request is not None else None
    key = accepted.idempotency_key
    if own is not None and key != own:
        words = f"the run was made of the key {key!r}, and the request has {own!r}"
        yield Contradiction(RUN, layout.EVENTS, layout.REQUEST, words)
    if run.run_id != run_id_of(key, run.publisher):
        words = f"key and publisher {run.publisher} make {run_id_of(key, run.publisher)}, and the run is {run.run_id}"
        yield Contradiction(RUN, layout.EVENTS, layout.REQUEST if own is not None else layout.META, words)


def _check_people(run: Run) -> Iterator[Contradiction]:
    """Check that the publisher and the people who ordered the run are named once and in order."""
    if not run.accepted.publisher:
        yield Contradiction(ORDER, layout.EVENTS, layout.META, "no publisher was recorded, and every run has one")
    orderers = run.accepted.orderers
    if list(orderers) != sorted(set(orderers)):
        words = "who ordered the run was recorded twice or out of order"
        yield Contradiction(ORDER, layout.EVENTS, layout.META, words)


def _policies(run: Run) -> Iterator[Contradiction]:
    accepted = run.accepted
    try:
        digest = policies_sha256(accepted.policies, accepted.named_publishers)
    except (KeyError, ValueError) as error:
        yield Contradiction(POLICIES, layout.META, layout.EVENTS, f"the policies have no digest over all of them: {error}")
        return
    if digest != accepted.policy_sha256:
        words = f"the policy files have the digest {digest} over all, and {accepted.policy_sha256} was recorded"
        yield Contradiction(POLICIES, layout.META, layout.EVENTS, words)


def _document(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Rebuild a request without artifacts as submitted: the policy gate records the baseline that it requested."""
    accepted = replayed.run.accepted
    verdict = next((report for _, report in verdicts(replayed)), None)
    if accepted.request is None or verdict is None or without_memory(accepted.request.artifacts):
        return
    named = next((rule.detail for rule in verdict.rules if rule.rule == BASELINE), accepted.request.baseline_ref)
    came = replace(accepted.request, baseline_ref=named, artifacts=())
    digest = hashlib.sha256(codec.encode(came)).hexdigest()
    if digest != accepted.document_sha256 and len(named) < _WHOLE:
        words = f"the request has the digest {digest} as it came, and {accepted.document_sha256} was recorded"
        yield Contradiction(ORDER, layout.REQUEST, layout.EVENTS, words)
