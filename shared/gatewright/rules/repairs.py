"""Rejected changes: what goes back to the maker, what ends the run, and which trees may not be submitted again. Pure.

The gatekeeper orders a repair by these rules, and ``verify`` checks its ledger by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from gatewright.contracts.people.revision_orders import RefusalWords, RevisionOrder
from gatewright.rules.approvals import JudgedDecision
from gatewright.rules.broken import Broken
from gatewright.rules.reviewing import REVIEW, latest_votes, outcome
from gatewright.rules.rounds import PEOPLE_OBJECTIVE, sends_back
from gatewright.run.events import ApprovalDecided
from gatewright.run.state import AskedApproval, CastVote, Run
from gatewright.run.votes import apply_decision

REVIEW_REJECTED: Final = "review_rejected"
APPROVAL_REJECTED: Final = "approval_rejected"
#: A rejected change was submitted again unchanged.
REFUSED_BEFORE: Final = "change_refused_before"


def decision_event(run: Run, each: JudgedDecision, roster_sha256: str) -> ApprovalDecided:
    """Return the ledger event of a valid decision, with the consensus that its vote completes."""
    decision = each.decision
    cast = CastVote(each.person, decision.vote, decision.decided_at, "") if decision.vote is not None else None
    found = outcome(run, each.request, cast) if cast is not None else None
    return ApprovalDecided(
        request_id=each.request.request_id,
        verdict=decision.verdict,
        signed=each.signed,
        fingerprint=each.fingerprint,
        approver=each.person,
        roster_sha256=roster_sha256,
        consensus=found.receipt if found is not None else None,
        delegate=each.delegate,
    )


def after(run: Run, judged: Sequence[JudgedDecision]) -> Run:
    """Return the run with the requests as they will be after these decisions."""
    for each in judged:
        name = each.request.request_id
        known = apply_decision(run.approvals[name], decision_event(run, each, ""), "")
        run = replace(run, approvals={**run.approvals, name: known})
    return run


def refused_now(run: Run) -> tuple[AskedApproval, ...]:
    """Return the rejected requests about the current contract or candidate, oldest first."""
    return tuple(
        asked
        for asked in run.approvals.values()
        if asked.status == "rejected"
        and asked.request.question is None
        and (asked.request.attempt == run.attempt or asked.request.stage == "beside")
    )


def revision_order(run: Run) -> RevisionOrder | None:
    """Return the revision order for the maker; None when nothing was rejected, or a rejection ends the run.

    A rejection ends the run if its rule requires that, if it has no comment to work from, and if no round is left.
    """
    refused = refused_now(run)
    if run.candidate is None or not refused or not all(sends_back(run, asked.request) for asked in refused):
        return None
    findings = [tuple(_refusal_words(run, asked)) for asked in refused]
    if not all(findings):
        return None
    return RevisionOrder(
        run_id=run.run_id,
        attempt=run.attempt,
        reason=REVIEW_REJECTED if any(asked.request.reason == REVIEW for asked in refused) else APPROVAL_REJECTED,
        candidate_tree=run.candidate.tree,
        objective=PEOPLE_OBJECTIVE,
        findings=tuple(each for words in findings for each in words),
    )


def rejections(run: Run, judged: Sequence[JudgedDecision]) -> Iterator[Broken]:
    """Yield what these decisions reject: each finding that is sent back, or each rejection that ends the run."""
    run = after(run, judged)
    order = revision_order(run)
    by_votes = order is not None and order.reason == REVIEW_REJECTED
    for asked in refused_now(run):
        rule = f"approval.{asked.request.rule}"
        for each in _refusal_words(run, asked):
            where = next((path for path in map(_path, each.evidence) if path), None)
            yield Broken(REVIEW_REJECTED if by_votes else APPROVAL_REJECTED, rule, f"{each.person}: {each.words}", where)
        if not asked.words and asked.consensus is None:
            yield Broken(APPROVAL_REJECTED, rule, f"rejected by {asked.person}")


def _path(anchor: str) -> bytes | None:
    """Return the changed file that an anchor refers to."""
    kind, _, rest = anchor.partition(":")
    return rest.rpartition(":")[0].encode("utf-8", "surrogatepass") if kind == "patch" else None


def refused_trees(run: Run) -> frozenset[str]:
    """Return the trees that people rejected in earlier rounds; none may be submitted again."""
    refused = (asked.request for asked in run.approvals.values() if asked.status == "rejected")
    return frozenset(request.candidate_tree for request in refused if request.candidate_tree)


def _refusal_words(run: Run, asked: AskedApproval) -> Iterator[RefusalWords]:
    request = asked.request
    if request.reason != REVIEW:
        if asked.words:
            yield RefusalWords(person=asked.person, request_id=request.request_id, words=asked.words)
        return
    for cast, _ in latest_votes(run, request).values():
        if cast.vote.colour == "red":
            yield RefusalWords(
                person=cast.person.name,
                request_id=request.request_id,
                words=cast.vote.rationale,
                scope=cast.vote.scope,
                evidence=cast.vote.evidence,
            )
