"""17. What roles could send to providers of models was written down and approved before work was given out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from gatewright.contracts import TaskContract
from gatewright.contracts.transfers import TransferManifest
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Moment, Telling
from gatewright.order_artifacts.hidden_acceptance import visible
from gatewright.rules.transfers import FILE, LATER, asks_person, manifest_of, oversent, risk_of, unnamed_artifacts
from gatewright.run import events as e
from gatewright.run.state import Run

TRANSFER = "transfer_contradicts"


def check_transfers(telling: Telling) -> Iterator[Contradiction]:
    """1. a manifest is of this run, its baseline and its order, one for a role, made by a policy that had rules, before the
    plan counted  2. its risk is the one that the rules make of what it says  3. what a person has to approve, a rule of the run
    asks about: the check of approvals tells then that it was  4. no contract brings a leave along, and a task is given only
    what its manifest names  5. nothing was sent without a manifest, and no work counts, and no run
    lands, of which more was sent than the person who approved it was shown as the bound."""
    accepted = telling.run.accepted
    for moment in telling.moments:
        match moment.payload:
            case e.TransferPlanned():
                words = _faults(moment, moment.payload, FILE in accepted.policies)  # 1, 2, 3
            case e.ContractCompiled() | e.PlanAccepted() | e.FixOrdered() | e.TaskDispatched():
                words = _contract_faults(moment.before, moment.payload)  # 4
            case e.Landed() | e.TaskFinished(accepted=True):
                words = iter([said] if (said := oversent(moment.whole)) else [])  # 5
            case _:
                continue
        for each in words:
            yield moment.says(TRANSFER, layout.EVENTS, layout.EVENTS, each)


def _faults(moment: Moment, event: e.TransferPlanned, ruled: bool) -> Iterator[str]:
    run, said = moment.before, event.manifest
    if not ruled:
        yield f"a transfer was planned, and the policy had no {FILE}"
    if said.run_id != run.run_id or manifest_of(run, said.role) is not None or run.plan is not None:
        yield "the manifest is of another run, comes twice for its role, or after the plan"
    trees = {each.digest for each in said.sources if each.kind == "tree"}
    if trees != ({run.accepted.baseline_tree} - {""}):
        yield "the manifest is about another tree than the baseline"
    if run.contract is not None and _documents(said) != _order(run.contract):
        yield "the manifest is about other documents than the order's"
    if said.bytes != sum(each.bytes for each in said.sources):
        yield "the manifest counts other bytes than its sources have"
    if said.later != LATER[said.role]:
        yield "the manifest names other documents that the run makes later than there are"
    if said.risk != risk_of(said):
        yield f"the manifest says {said.risk} risk, and the rules make {risk_of(said)} of it"
    if asks_person(said) and not any(rule.reason == "transfer" for rule in run.accepted.approval_rules):
        yield "a person had to approve the transfer, and no rule of the run asks"


def _documents(manifest: TransferManifest) -> set[tuple[str, str]]:
    return {(each.name, each.digest) for each in manifest.sources if each.kind == "document"}


def _order(contract: TaskContract) -> set[tuple[str, str]]:
    """The documents of an order that tasks which ask models can read, by name and digest."""
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
