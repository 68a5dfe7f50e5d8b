"""The run's first event follows from its order: its id, who ordered it, and the digest over the policies that it names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from msgspec.structs import replace

from gatewright.contracts import RunRequest, codec
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Telling, verdicts
from gatewright.order_artifacts.canonical_memory import without_memory
from gatewright.rules.gate_evidence import BASELINE
from gatewright.rules.people.ownership import requester_of
from gatewright.rules.policy_digest import policies_sha256
from gatewright.rules.reports.artifacts import broken_by_artifacts
from gatewright.run.state import Run, run_id_of

RUN = "run_contradicts"
ORDER = "order_contradicts"
POLICIES = "policies_contradict"
#: Characters from which on the detail of a rule may have been cut.
_WHOLE = 600


def check_acceptance(telling: Telling) -> Iterator[Contradiction]:
    """1. the run id is the hash of publisher and key  2. the order says who ordered it, and its artifacts are pinned
    3. the policies have their digest  4. the request is the one whose digest was recorded, but for what was pinned in it."""
    run = telling.run
    yield from _run_id(run)  # 1
    order = run.accepted.request or run.accepted.contract
    if order is not None and run.accepted.requested_by != requester_of(order):  # 2
        words = f"{run.accepted.requested_by} ordered the run, and its document says {requester_of(order)}"
        yield Contradiction(ORDER, layout.EVENTS, layout.REQUEST if run.request is not None else layout.CONTRACT, words)
    given = () if order is None else order.artifacts if isinstance(order, RunRequest) else order.inputs.artifacts
    for broken in broken_by_artifacts(given):
        yield Contradiction(broken.code, layout.EVENTS, layout.CONTRACT, broken.detail)
    yield from _policies(run)  # 3
    yield from _names(run)  # 2
    yield from _document(telling)  # 4


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


def _names(run: Run) -> Iterator[Contradiction]:
    """A publisher, and who ordered the run, each once and in order."""
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


def _document(telling: Telling) -> Iterator[Contradiction]:
    """A request without artifacts is made again as it came: the policy gate names the baseline that it asked for."""
    accepted = telling.run.accepted
    verdict = next((report for _, report in verdicts(telling)), None)
    if accepted.request is None or verdict is None or without_memory(accepted.request.artifacts):
        return
    named = next((rule.detail for rule in verdict.rules if rule.rule == BASELINE), accepted.request.baseline_ref)
    came = replace(accepted.request, baseline_ref=named, artifacts=())
    digest = hashlib.sha256(codec.encode(came)).hexdigest()
    if digest != accepted.document_sha256 and len(named) < _WHOLE:
        words = f"the request has the digest {digest} as it came, and {accepted.document_sha256} was recorded"
        yield Contradiction(ORDER, layout.REQUEST, layout.EVENTS, words)
