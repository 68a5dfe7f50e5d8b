"""17. Data that roles could send to model providers was listed and approved before work was dispatched.

19. Recorded model calls went to targets of an approved manifest, with no more data than it covers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gatewright.artifacts import inline_bytes
from gatewright.contracts import TaskContract
from gatewright.contracts.consultation import Consultation
from gatewright.contracts.transfers import TransferManifest
from gatewright.contracts.vocabulary import Artifact, Usage
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun
from gatewright.evidence.verification.reading import MAX_DOCUMENT_BYTES, Reading
from gatewright.models.recorded_transfers import broken_by_calls, records_in
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.transfers import (
    FILE,
    asks_person,
    later_names,
    leave_for,
    manifest_of,
    oversent,
    risk_of,
    unnamed_artifacts,
)
from gatewright.run import events as e
from gatewright.run.state import Run

TRANSFER = "transfer_contradicts"


def check_transfers(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check transfers.

    1. A manifest is of this run, its baseline and its order, one per role, made under a policy with rules, before the plan was
       accepted. That of a search names no tree.
    2. Its risk follows from the rules.
    3. A rule of the run requests approval where a person has to approve; the check of approvals verifies the decision.
    4. No contract contains a permission of its own, and a task receives only what its manifest names.
    5. Nothing was sent without a manifest, and no accepted work or landing exceeds the approved bound.
    """
    accepted = replayed.run.accepted
    for moment in replayed.moments:
        match moment.payload:
            case e.TransferPlanned():
                words = _transfer_faults(moment, moment.payload, FILE in accepted.policies)  # 1, 2, 3
            case e.ContractCompiled() | e.PlanAccepted() | e.FixOrdered() | e.TaskDispatched():
                words = _contract_faults(moment.before, moment.payload)  # 4
            case e.Landed() | e.TaskFinished(accepted=True):
                words = iter([excess] if (excess := oversent(moment.whole)) else [])  # 5
            case _:
                continue
        for each in words:
            yield moment.contradiction(TRANSFER, layout.EVENTS, layout.EVENTS, each)


def _transfer_faults(moment: Moment, event: e.TransferPlanned, ruled: bool) -> Iterator[str]:
    run, manifest = moment.before, event.manifest
    if not ruled:
        yield f"a transfer was planned, and the policy had no {FILE}"
    if manifest.run_id != run.run_id or manifest_of(run, manifest.role) is not None or run.plan or run.state != "S1":
        yield "the manifest is of another run, comes twice for its role, or after the plan"
    trees = {each.digest for each in manifest.sources if each.kind == "tree"}
    if trees != (set() if run.kind.searches else {run.accepted.baseline_tree} - {""}):
        yield "the manifest is about another tree than the baseline"
    if run.contract is not None and _document_digests(manifest) != _order(run.contract):
        yield "the manifest is about other documents than the order's"
    if manifest.bytes != sum(each.bytes for each in manifest.sources):
        yield "the manifest counts other bytes than its sources have"
    if manifest.later != later_names(manifest.role, searches=run.kind.searches):
        yield "the manifest names other documents that the run makes later than there are"
    if manifest.risk != risk_of(manifest):
        yield f"the manifest has {manifest.risk} risk, but the rules give {risk_of(manifest)}"
    if asks_person(manifest) and not any(rule.reason == "transfer" for rule in run.accepted.approval_rules):
        yield "a person had to approve the transfer, and no rule of the run asks"


def _document_digests(manifest: TransferManifest) -> set[tuple[str, str]]:
    return {(each.name, each.digest) for each in manifest.sources if each.kind == "document"}


def _order(contract: TaskContract) -> set[tuple[str, str]]:
    """Return the documents of an order that tasks with model calls can read, by name and digest."""
    spec = hashlib.sha256(contract.inputs.spec.encode()).hexdigest()
    return {("spec", spec), *((each.name, each.sha256) for each in visible(contract).inputs.artifacts)}


def _contract_faults(run: Run, event: e.RunEvent) -> Iterator[str]:
    for contract in _contracts(event):
        if contract.transfer is not None:
            yield f"{contract.task_id} brings a leave along, which the gatekeeper alone gives"
    if isinstance(event, e.TaskDispatched):
        given = event.contract or run.tasks[event.task_id].contract if event.task_id in run.tasks else event.contract
        manifest = manifest_of(run, event.role)
        if manifest is not None and given is not None:
            for artifact in unnamed_artifacts(manifest, given.inputs.artifacts):
                yield f"{event.task_id} is given {artifact.name}, which the manifest of the {event.role} does not name"


def _contracts(event: e.RunEvent) -> tuple[TaskContract, ...]:
    match event:
        case e.ContractCompiled(contract=contract):
            return (contract,)
        case e.PlanAccepted(plan=plan):
            return plan.contracts
        case e.FixOrdered(contracts=contracts):
            return contracts
        case e.TaskDispatched(contract=contract) if contract is not None:
            return (contract,)
        case _:
            return ()


def check_recorded_calls(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """Check accepted answers, answers to questions beside the run, and interrupted work with records.

    Only where a policy requires approval of transfers.
    """
    if FILE not in replayed.run.accepted.policies:
        return
    for moment in replayed.moments:
        for role, task_id, artifacts, usage in _answers_at(replayed, moment):
            kept = records_in(artifacts)
            path = _find_file(reading, kept) if kept is not None else layout.EVENTS
            if not path:
                continue
            records = _records(reading, kept, path, step) if kept is not None else None
            for words in broken_by_calls(role, leave_for(moment.whole, role), records, usage):
                yield moment.contradiction(TRANSFER, path, layout.EVENTS, f"{task_id}: {words}")


Answered = tuple[str, str, tuple[Artifact, ...], Usage | None]


def _answers_at(replayed: ReplayedRun, moment: Moment) -> Iterator[Answered]:
    match moment.payload:
        case e.TaskFinished(accepted=True, result=result):
            yield "worker", result.task_id, result.artifacts, result.usage
        case e.TaskInterrupted(task_id=task_id, artifacts=artifacts, usage=usage) if records_in(artifacts) is not None:
            yield moment.record.role or "", task_id, artifacts, usage
        case e.ContractCompiled(contract=contract):
            yield from _consulted_answer("pm", f"{replayed.run.run_id}.pm", contract.consultation)
        case e.PlanAccepted(plan=plan):
            yield from _consulted_answer("techlead", plan.task_id, plan.consultation)
        case e.GateJudged(report=report) if (report.gate, report.verdict) == ("reviewer", "PASS"):
            review = replayed.history.reviews.get(report.task_id or "")
            yield from _consulted_answer("reviewer", report.task_id or "", review.consultation if review is not None else None)
        case e.SummonsAnswered(answer=answer):
            yield from _consulted_answer(answer.role, answer.task_id, answer.consultation)


def _consulted_answer(role: str, task_id: str, consultation: Consultation | None) -> Iterator[Answered]:
    if consultation is not None:
        yield role, task_id, consultation.artifacts, None


def _find_file(reading: Reading, kept: Artifact) -> str:
    """Return the file with exactly these bytes; empty where a redaction has changed them."""
    digest = layout.digest_of(kept.uri)
    same = (path for path, facts in reading.facts.items() if facts.sha256 == digest and facts.size <= MAX_DOCUMENT_BYTES)
    return layout.EVENTS if digest is None else next(same, "")


def _records(reading: Reading, kept: Artifact, path: str, step: int) -> bytes:
    """Return the bytes of a record. Raises MalformedError for an invalid ``data:`` URI."""
    inline = inline_bytes(kept.uri)
    return inline if inline is not None else reading.document(path, step) or b""
