"""Runs that wait for people: requests that park a run, the effect of an answer, and the effect of no answer.

A run is parked until every request has an answer, then continues where it stopped. One rejection ends the run, or returns the
change to its maker where the rule allows that. Approvals without a person are recorded: a rule's automatic approval as the
rule's, an approval in advance as its author's.
"""

from __future__ import annotations

from gatewright.contracts import AgentQuestion
from gatewright.contracts.people.approvals import LEFT_OPEN
from gatewright.errors import DeniedError
from gatewright.rules.approvals import (
    MatchedRule,
    is_cleared,
    is_over,
    make_request,
    next_asked,
    stage_of,
    unapprovable,
    unasked_rules,
    waited_for,
)
from gatewright.rules.blocked.agent_questions import known_question, question_request
from gatewright.rules.blocked.asking import beside, next_request
from gatewright.rules.drift import base_event
from gatewright.rules.endings import approval_expired
from gatewright.rules.grants import in_force
from gatewright.rules.repairs import decision_event, revision_order
from gatewright.rules.rounds import refused_by
from gatewright.rules.standing import HeldRoster
from gatewright.run import events as e
from gatewright.run import states
from gatewright.services.gatekeeper.decider.draft import Draft
from gatewright.services.gatekeeper.decider.gate_checks import DecisionVerdict, GrantClaim, GrantsVerdict
from gatewright.services.gatekeeper.decider.inputs import BaseObserved


def ask(draft: Draft, granted: GrantsVerdict | None = None) -> None:
    """Request the decisions that the rules require at this point. Park the run unless rules or grants approve everything."""
    stage = stage_of(draft.run)
    if stage is None:
        return
    gives_up, used = False, False
    claims = {claim.rule: claim for claim in granted.claims if in_force(claim.judged, draft.now)} if granted is not None else {}
    for each in unasked_rules(draft.run, stage):
        request_id = _request(draft, each)
        if each.rule.autopilot:
            draft.add(e.ApprovalByRule(request_id=request_id, rule=each.rule.name))
        elif granted is not None and each.rule.name in claims:
            used = True
            draft.add(_by_grant(request_id, claims[each.rule.name], granted.roster_sha256))
        else:
            gives_up = gives_up or each.rule.release_locks
    if used and granted is not None:
        draft.judged(granted.report)
    if not is_cleared(draft.run, stage):
        if gives_up and stage == "candidate" and draft.run.locks is not None:
            draft.add(e.LocksReleased())
        draft.add(e.StateEntered(state=states.PARKED))


def record_decisions(draft: Draft, verdict: DecisionVerdict | None) -> None:
    """Record decisions of people and the gate's verdict on them.

    The last approval lets the run continue; a rejection ends it or returns the change.
    """
    if verdict is None:
        return
    if verdict.held is not None:
        hold(draft, verdict.held, verdict.roster_sha256)
    answered = False
    for each in verdict.judged:
        event = decision_event(draft.run, each, verdict.roster_sha256)
        draft.add(event)
        answered = answered or each.decision.verdict not in LEFT_OPEN
    if not answered:
        _ask_anew(draft)
        return
    if not draft.judged(verdict.report):
        order = revision_order(draft.run)
        if order is None:
            draft.refuse(verdict.report)
        else:
            draft.fix(order.reason, [(task, order) for task in draft.run.workers()])
        return
    _go_on(draft)
    _ask_anew(draft)


def hold(draft: Draft, found: HeldRoster, roster_sha256: str) -> None:
    """Record which answers of people the current roster still accepts."""
    draft.add(found.event(roster_sha256))


def void_votes(draft: Draft, item: BaseObserved) -> None:
    """Make votes void whose base branch moved, and request them again."""
    event = base_event(draft.run, item.drift, before_vote=item.before_vote)
    if event is not None:
        draft.add(event)
        _ask_anew(draft)


def _ask_anew(draft: Draft) -> None:
    """Request approvals again that are no longer valid; the run is already parked."""
    stage = stage_of(draft.run)
    if draft.run.parked and stage is not None:
        for each in unasked_rules(draft.run, stage):
            _request(draft, each)


def hand_over(draft: Draft) -> bool:
    """Ask the person who ordered the run for one more round, where a rule requires it. Return whether a person can answer."""
    if unapprovable(draft.run):
        return False
    ask(draft)
    return draft.run.parked


def ask_beside(draft: Draft) -> None:
    """Request decisions about the open questions of tasks, where a rule requires it. The run continues meanwhile."""
    while (request := next_request(draft.run, draft.now)) is not None:
        draft.add(e.ApprovalRequested(request=request))


def ask_leave(draft: Draft, question: AgentQuestion) -> None:
    """Forward an agent's permission request to people, once. The sender derives from the same rules why none was forwarded."""
    try:
        if known_question(draft.run, question) is None:
            request = question_request(draft.run, question, draft.now)
            draft.add(e.ApprovalRequested(request=request))
    except DeniedError:
        return


def expire_beside(draft: Draft) -> None:
    """Close requests beside the run that expired unanswered. Nothing else changes."""
    for asked in beside(draft.run):
        if is_over(asked.request, draft.now):
            draft.add(e.ApprovalExpired(request_id=asked.request.request_id))


def expire(draft: Draft) -> None:
    """Expire unanswered requests: escalate to other people where the rule names them, else end the run."""
    for asked in waited_for(draft.run):
        if not is_over(asked.request, draft.now):
            continue
        draft.add(e.ApprovalExpired(request_id=asked.request.request_id))
        others = next_asked(draft.run, asked)
        if others is None:
            draft.fail(approval_expired(asked))
            return
        request = make_request(draft.run, others, len(draft.run.approvals) + 1, draft.now, asked.request)
        draft.add(e.ApprovalRequested(request=request))


def _by_grant(request_id: str, claim: GrantClaim, roster_sha256: str) -> e.ApprovalByGrant:
    return e.ApprovalByGrant(
        request_id=request_id,
        grant_id=claim.judged.grant.grant_id,
        signed=claim.judged.signed,
        fingerprint=claim.judged.fingerprint,
        approver=claim.judged.person,
        roster_sha256=roster_sha256,
        use=claim.use,
    )


def _request(draft: Draft, each: MatchedRule) -> str:
    request = make_request(draft.run, each, len(draft.run.approvals) + 1, draft.now)
    draft.add(e.ApprovalRequested(request=request))
    return request.request_id


def _go_on(draft: Draft) -> None:
    run = draft.run
    stage = stage_of(run)
    if run.parked_from is None or stage is None or not is_cleared(run, stage):
        return
    found = refused_by(run)
    if stage == "round" and run.refusal is not None and found is not None:
        draft.fix(run.refusal.code, [(task, found) for task in run.workers()])
    else:
        draft.add(e.StateEntered(state=run.parked_from))
