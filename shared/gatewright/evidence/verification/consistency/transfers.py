"""17. What roles could send to providers of models was written down and approved before work was given out."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.telling import Contradiction, Moment, Telling
from gatewright.ledger import events as e
from gatewright.rules.transfers import FILE, asks_person, risk_of

TRANSFER = "transfer_contradicts"


def check_transfers(telling: Telling) -> Iterator[Contradiction]:
    """1. a manifest is of this run and its baseline, one for a role, made by a policy that had rules, before the plan counted
    2. its risk is the one that the rules make of what it says  3. what a person has to approve, a rule of the run asks about:
    the check of approvals tells then that it was."""
    accepted = telling.run.accepted
    for moment in telling.moments:
        if isinstance(moment.payload, e.TransferPlanned):
            for words in _faults(moment, moment.payload, FILE in accepted.policies):
                yield moment.says(TRANSFER, layout.EVENTS, layout.EVENTS, words)


def _faults(moment: Moment, event: e.TransferPlanned, ruled: bool) -> Iterator[str]:
    run, said = moment.before, event.manifest
    if not ruled:
        yield f"a transfer was planned, and the policy had no {FILE}"
    if said.run_id != run.run_id or any(each.role == said.role for each in run.transfers) or run.plan is not None:
        yield "the manifest is of another run, comes twice for its role, or after the plan"
    trees = {each.digest for each in said.sources if each.kind == "tree"}
    if trees != ({run.accepted.baseline_tree} - {""}):
        yield "the manifest is about another tree than the baseline"
    if said.bytes != sum(each.bytes for each in said.sources):
        yield "the manifest counts other bytes than its sources have"
    if said.risk != risk_of(said):
        yield f"the manifest says {said.risk} risk, and the rules make {risk_of(said)} of it"
    if asks_person(said) and not any(rule.reason == "transfer" for rule in run.accepted.approval_rules):
        yield "a person had to approve the transfer, and no rule of the run asks"
