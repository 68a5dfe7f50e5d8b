"""13. People were asked by the rules of the run's policy, and their recorded decisions are theirs, by their signatures."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts import AgentQuestion, ApprovalDecision, ApprovalGrant, ApprovalRequest, ApproverRoster, codec
from gatewright.contracts.people.identities import identities_of
from gatewright.errors import DeniedError, GatewrightError
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun, moment_of
from gatewright.evidence.verification.reading import Reading
from gatewright.rules.approvals import (
    JudgedDecision,
    MatchedRule,
    has_lapsed,
    is_cleared,
    is_over,
    judge_decision,
    make_request,
    matching_rules,
    next_asked,
    stage_of,
)
from gatewright.rules.blocked.agent_questions import known_question, question_request
from gatewright.rules.blocked.asking import next_request
from gatewright.rules.drift import drift_faults
from gatewright.rules.grants import judge_grant, why_uncovered
from gatewright.rules.people.signers import key_words
from gatewright.rules.people.signing_times import CLOCK_TOLERANCE
from gatewright.rules.repairs import decision_event, refused_now, refused_trees, revision_order
from gatewright.rules.reviewing import check_anchors
from gatewright.rules.standing import GRANT_OVER, hold_roster, rests_on_people, revoked_words, used_grants
from gatewright.run import events as e
from gatewright.run import states
from gatewright.run.state import Run

APPROVAL = "approval_contradicts"


def check_approvals(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check requests and decisions of people.

    1. Every request is the one that the rules derive from the run.
    2. Every decision is signed by an authorised person, about exactly that request, in time; so is every grant used, and it
       covers the request.
    3. A rule approved only what it may, and only late answers were recorded as late.
    4. The run did not continue without a required approval.
    5. Only a rule sent a refused change back, and a refused change neither continued nor was submitted again.
    6. The requester is among those who ordered the run.
    7. Each recorded roster comparison follows from its entries, and one took place when the change landed.
    8. When the target branch moved under a review, exactly the votes on the open reviews became void.
    """
    yield from _orderers(replayed)  # 6
    decided = 0
    for moment in replayed.moments:
        match moment.payload:
            case e.ApprovalRequested():
                yield from _check_request(moment, moment.payload)  # 1
            case e.ApprovalDecided():
                decided += 1
                yield from _check_decision(moment, moment.payload, decided)  # 2
            case e.ApprovalByGrant():
                yield from _check_grant(moment, moment.payload, replayed)  # 2
            case e.ApprovalByRule() | e.ApprovalExpired():
                yield from _without_person(moment, moment.payload)  # 3
            case e.RosterHeld():
                yield from _check_roster_held(moment, moment.payload)  # 7
            case e.TargetMoved():
                for words in drift_faults(moment.before, moment.payload):  # 8
                    yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, words)
            case _:
                yield from _gone_on(moment)  # 4
                yield from _sent_back(moment)  # 5


def _orderers(replayed: ReplayedRun) -> Iterator[Contradiction]:
    accepted = replayed.run.accepted
    document = accepted.request or accepted.contract
    if document is None:
        return
    left_out = identities_of(*document.ordered_by) - set(accepted.orderers)
    if left_out:
        words = f"the order names {', '.join(sorted(left_out))}, and not among those who ordered it"
        yield Contradiction(APPROVAL, layout.EVENTS, layout.CONTRACT, words)


def approved_by(replayed: ReplayedRun) -> Iterator[str]:
    """Yield approvals as text: by which key, when, over which tree."""
    for moment in replayed.moments:
        if isinstance(moment.payload, e.ApprovalDecided) and moment.payload.verdict != "comment":
            vote = moment.after.approvals[moment.payload.request_id].votes[-1:]
            request = moment.before.approvals[moment.payload.request_id].request
            over = f"tree {request.candidate_tree}" if request.candidate_tree else f"contract {request.contract_sha256[:16]}"
            verb = {"approve": "approved", "reject": "rejected", "delegate": "handed on"}.get(moment.payload.verdict, "")
            verb = verb or f"voted {vote[0].vote.colour} on"
            to = f" to {moment.payload.delegate.name}" if moment.payload.delegate is not None else ""
            key = f"{moment.payload.approver.name} ({key_words(moment.payload.fingerprint, moment.payload.signed)})"
            yield f"{key} {verb} {request.rule}{to} at {moment.record.ts}, over {over}"
        elif isinstance(moment.payload, e.RosterHeld):
            yield from (
                f"{words} (at {moment.record.ts})" for words in dict.fromkeys(each.words for each in moment.payload.lapsed)
            )
        elif isinstance(moment.payload, e.ApprovalByRule):
            yield f"the rule {moment.payload.rule} approved by itself at {moment.record.ts}: no person was asked"
        elif isinstance(moment.payload, e.ApprovalByGrant):
            grant = codec.decode(moment.payload.signed.document.encode(), ApprovalGrant)
            key = f"{moment.payload.approver.name} ({key_words(moment.payload.fingerprint, moment.payload.signed)})"
            until = f"run {moment.payload.use} of {grant.max_uses}, until {grant.not_after}"
            yield f"{key} had approved {grant.rule} in advance at {grant.made_at} by {grant.grant_id}: {until}"


def _check_request(moment: Moment, event: e.ApprovalRequested) -> Iterator[Contradiction]:
    run, request = moment.before, event.request
    path = layout.approval_request(request.request_id)
    if request.question is not None:
        yield from _question(moment, request, request.question, path)
        return
    if request.stage == "beside":
        if moment.when is None or next_request(run, moment.when) != request:
            yield moment.contradiction(
                APPROVAL, path, layout.EVENTS, "the request does not match the next open question of the tasks"
            )
        return
    earlier = run.approvals.get(request.escalates_from or "")
    asking: list[MatchedRule | None]
    asking = [next_asked(run, earlier)] if earlier is not None else [*matching_rules(run, stage_of(run) or "contract")]
    rule = next((each for each in asking if each is not None and each.rule.name == request.rule), None)
    if rule is None or moment.when is None or stage_of(run) is None:
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, f"the run has no rule {request.rule} that applies here")
        return
    if make_request(run, rule, len(run.approvals) + 1, moment.when, earlier.request if earlier else None) != request:
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, "the request is not the one that the rule makes of the run")


def _question(moment: Moment, request: ApprovalRequest, question: AgentQuestion, path: str) -> Iterator[Contradiction]:
    """Check that the request follows from the question, and that a question is asked once."""
    try:
        made = None
        if moment.when is not None and known_question(moment.before, question) is None:
            made = question_request(moment.before, question, moment.when)
    except DeniedError as error:
        yield moment.contradiction(
            APPROVAL, path, layout.EVENTS, f"the agent's question was not to be asked ({error.reason}): {error.message}"
        )
        return
    if made != request:
        yield moment.contradiction(
            APPROVAL, path, layout.EVENTS, "the request is not the one that is made of the agent's question"
        )


def _check_decision(moment: Moment, event: e.ApprovalDecided, number: int) -> Iterator[Contradiction]:
    path = layout.approval_decision(event.request_id, number)
    if moment.when is None:
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, "it was decided at no time")
        return
    try:
        roster = ApproverRoster(
            version="1", people=tuple(each for each in (event.approver, event.delegate) if each is not None)
        )
        judged = judge_decision(moment.before, event.signed, roster, moment.when)
    except GatewrightError as error:
        yield moment.contradiction(
            APPROVAL, path, layout.EVENTS, f"the decision does not count ({error.reason}): {error.message}"
        )
        return
    yield from _vote(moment, event, judged, path)
    if judged.person != event.approver or judged.delegate != event.delegate:
        yield moment.contradiction(
            APPROVAL, path, layout.EVENTS, "another person was recorded than signed it, or than it was handed to"
        )
    if (judged.decision.verdict, judged.fingerprint) != (event.verdict, event.fingerprint):
        words = (
            f"{event.verdict} by {event.fingerprint} was recorded, and {judged.decision.verdict} by {judged.fingerprint} signed"
        )
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, words)


def _check_grant(moment: Moment, event: e.ApprovalByGrant, replayed: ReplayedRun) -> Iterator[Contradiction]:
    path = layout.approval_grant(event.request_id)
    run, request = moment.before, moment.before.approvals[event.request_id].request
    rule = next((each for each in run.accepted.approval_rules if each.name == request.rule), None)
    if moment.when is None or rule is None:
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, "no rule of the run lets it be approved in advance")
        return
    try:
        judged = judge_grant(event.signed, ApproverRoster(version="1", people=(event.approver,)), moment.when)
    except GatewrightError as error:
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, f"the grant does not count ({error.reason}): {error.message}")
        return
    why = why_uncovered(run, rule, judged, replayed.changed_by(run.candidate), moment.when)
    if why:
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, f"the grant does not cover this: {why}")
    if not 1 <= event.use <= judged.grant.max_uses:
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, f"it was used {event.use} times, of {judged.grant.max_uses}")
    if (judged.grant.grant_id, judged.fingerprint) != (event.grant_id, event.fingerprint):
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, "another grant or another key was recorded than signed it")


def _check_roster_held(moment: Moment, event: e.RosterHeld) -> Iterator[Contradiction]:
    at, when = moment_of(event.at), moment.when
    before = moment_of(moment.before.at)
    if at is None or when is None or before is None or not before - CLOCK_TOLERANCE <= at <= when:
        words = f"the roster was held against people's words {event.at[:40]}, which is not between the events around that"
        yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, words)
        return
    revoked = {grant_id for grant_id in used_grants(moment.before) if _recorded_as_revoked(grant_id, event)}
    roster = ApproverRoster(version="1", people=event.people)
    if hold_roster(moment.before, roster, at, revoked).event(event.roster_sha256) != event:
        words = "what was recorded of people's words is not what the entries of the roster leave of them"
        yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, words)


def _recorded_as_revoked(grant_id: str, event: e.RosterHeld) -> bool:
    """Return whether the gatekeeper recorded a grant as revoked, which only its own table can prove."""
    return any(each.code == GRANT_OVER and each.words.endswith(revoked_words(grant_id)) for each in event.lapsed)


def _vote(moment: Moment, event: e.ApprovalDecided, judged: JudgedDecision, path: str) -> Iterator[Contradiction]:
    """Check that the recorded consensus follows from the votes."""
    receipt = decision_event(moment.before, judged, event.roster_sha256).consensus
    if receipt != event.consensus:
        words = "no consensus was recorded" if event.consensus is None else "a consensus was recorded"
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, f"{words}, but the votes give another result")


def check_evidence(replayed: ReplayedRun, reading: Reading, step: int) -> Iterator[Contradiction]:
    """15. Check that the evidence of votes is in the run: lines of its patch, commands of its tests, its documents."""
    decided = 0
    patches: dict[str, bytes] = {}
    for moment in replayed.moments:
        event = moment.payload
        if not isinstance(event, e.ApprovalDecided):
            continue
        decided += 1
        vote = codec.decode(event.signed.document.encode(), ApprovalDecision).vote if event.verdict == "vote" else None
        if vote is None:
            continue
        candidate = moment.before.candidate
        uri = candidate.patch if candidate is not None else ""
        if uri not in patches:
            patches[uri] = reading.patch_of(candidate, step)
        try:
            check_anchors(moment.before, vote, patches[uri])
        except GatewrightError as error:
            yield moment.contradiction(
                APPROVAL, layout.approval_decision(event.request_id, decided), layout.PATCH, error.message
            )


def _without_person(moment: Moment, event: e.ApprovalByRule | e.ApprovalExpired) -> Iterator[Contradiction]:
    asked = moment.before.approvals[event.request_id]
    path = layout.approval_request(event.request_id)
    rules = [rule for rule in moment.before.accepted.approval_rules if rule.name == asked.request.rule]
    if isinstance(event, e.ApprovalExpired):
        if moment.when is None or not is_over(asked.request, moment.when):
            yield moment.contradiction(
                APPROVAL, path, layout.EVENTS, f"the time for an answer was not over before {asked.request.expires_at}"
            )
    elif event.rule != asked.request.rule or not any(rule.autopilot for rule in rules):
        yield moment.contradiction(APPROVAL, path, layout.EVENTS, f"the rule {event.rule} approves nothing by itself")


def _gone_on(moment: Moment) -> Iterator[Contradiction]:
    run = moment.before
    stage = stage_of(run)
    match moment.payload:
        case e.StateEntered(state=state) if state == states.PARKED:
            if stage is None or is_cleared(run, stage):
                yield moment.contradiction(
                    APPROVAL, layout.EVENTS, layout.EVENTS, "it was parked, and nothing was to be decided"
                )
        case e.StateEntered(state=state) if run.parked and state == run.parked_from:
            if stage is None or not is_cleared(run, stage):
                yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, "it went on before all had their answer")
        case e.StateEntered(state="S2") | e.LocksTaken() | e.CandidateComposed():
            # A further round relies on the first approval; an approval that has lapsed since is requested again before landing.
            if not is_cleared(run, "contract") and not (run.attempt > 1 and has_lapsed(run, "contract")):
                yield moment.contradiction(
                    APPROVAL, layout.EVENTS, layout.CONTRACT, "work was given out that a person had to approve"
                )
        case e.StateEntered(state="QUEUED") | e.Landed():
            if not (is_cleared(run, "contract") and is_cleared(run, "candidate")):
                yield moment.contradiction(
                    APPROVAL, layout.GIT_LANDED, layout.EVENTS, "it landed or was queued, and a person had to approve that"
                )
            yield from _landed_on(moment, run)
            if moment.when is not None and next_request(run, moment.when) is not None:
                yield moment.contradiction(
                    APPROVAL, layout.EVENTS, layout.EVENTS, "it landed although an open question of a task was not asked"
                )
        case e.LocksReleased():
            if stage != "candidate":
                yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, "it is not the time to give paths up")
        case _:
            pass


def _landed_on(moment: Moment, run: Run) -> Iterator[Contradiction]:
    """Check that the approvals behind a landing were valid under the roster of that time."""
    found = isinstance(moment.payload, e.Landed) and moment.payload.found
    if found or not rests_on_people(run):
        return
    if run.roster_held_at != moment.record.ts:
        words = "it landed without a comparison of the approvals with the roster of that time"
        yield moment.contradiction(APPROVAL, layout.GIT_LANDED, layout.EVENTS, words)


def _sent_back(moment: Moment) -> Iterator[Contradiction]:
    run = moment.before
    if moment.payload == e.StateEntered(state="S6") and not run.kind.lands and not is_cleared(run, "candidate"):
        words = "the review passed, and a person had to approve that"
        yield moment.contradiction(APPROVAL, layout.REVIEW_REPORT, layout.EVENTS, words)
    match moment.payload:
        case e.StateEntered(state="S5") if run.parked and stage_of(run) == "round":
            if not matching_rules(run, "round") or not is_cleared(run, "round"):
                yield moment.contradiction(
                    APPROVAL, layout.EVENTS, layout.EVENTS, "it went into a further round that no person gave it"
                )
        case e.StateEntered(state="S5") if run.parked and revision_order(run) is None:
            yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, "it was sent back without a rule or a refusal")
        case e.StateEntered(state="S6" | "S4") if refused_now(run):
            yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, "it went on with a change that people refused")
        case e.CandidateComposed(tree=tree) if tree in refused_trees(run):
            yield moment.contradiction(
                APPROVAL, layout.GIT_CANDIDATE, layout.EVENTS, "it is a change that people refused before"
            )
        case _:
            pass
