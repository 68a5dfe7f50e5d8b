"""Approval rules: when a person must be asked, and whether a decision is that person's, about exactly that request. Pure.

The decider creates requests by these rules, the gatekeeper accepts decisions by them, and ``verify`` checks both again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gatewright.clock import timestamp
from gatewright.contracts import ApprovalDecision, ApprovalRequest, ApproverRoster, TaskContract, codec
from gatewright.contracts.people.approvals import (
    ApprovalRule,
    AskStage,
    CommandClassName,
    Risk,
    RosterPerson,
    SignedDecision,
)
from gatewright.contracts.people.identities import same_person
from gatewright.contracts.people.review_votes import ReviewStanding
from gatewright.errors import DeniedError
from gatewright.executor_kinds import EXECUTOR_KINDS
from gatewright.git.access.repository_patterns import ref_covered
from gatewright.path_patterns.matcher import path_matcher
from gatewright.rules.critic import doubt_words
from gatewright.rules.landing import landing_ref
from gatewright.rules.people.delegations import delegate_of, keeps
from gatewright.rules.people.ownership import ORDERER_UNKNOWN, has_ordered, is_orderer_unknown, is_own
from gatewright.rules.people.signers import signer_on
from gatewright.rules.people.signing_times import check_signing_time
from gatewright.rules.quorum import names_person, seats_of
from gatewright.rules.reviewing import check_vote, owned_lines
from gatewright.rules.rounds import handed_over, why_unrepaired
from gatewright.rules.transfers import asked_transfers, transfer_words
from gatewright.run.state import AGREED, COMMAND, AskedApproval, Run

#: Namespace of signatures (``ssh-keygen -Y sign -n``): a signature for another purpose is rejected.
NAMESPACE = "gatewright-approval-v1"
#: Reasons that no rule may approve automatically: tests and pipelines, dependencies, irreversible operations.
NEVER_BY_RULE = frozenset(
    {
        *("protected_class", "path_class", "proof", "destructive", "broad_scope", "command", "risk_tier", "critic"),
        *("review", "escalation", "transfer", "blocked", "agent_question"),
    }
)
#: Classes of commands that a rule without classes covers.
ASKED_COMMANDS: tuple[CommandClassName, ...] = ("network", "dependency-install", "destructive", "credential-sensitive")
#: Prefix of a reason that names a class of paths: the rule of that name.
PATH_CLASS = "path_class:"
#: Risk tiers of a change, lowest first.
TIERS: tuple[Risk, ...] = ("low", "medium", "high")
#: Maximum number of stored comments per request.
MOST_COMMENTS = 20
#: Stages whose decision is not about a change.
_NO_CANDIDATE = frozenset({"contract", "beside"})
#: Reasons that apply to every change on the rule's refs.
_CERTAIN = frozenset({"landing", "review"})
#: Reasons about a change that apply to commits under review too; nothing of these lands, opens a path or is tested.
_ABOUT_REVIEWS = frozenset({"critic", "path_class", "review", "risk_tier"})
#: Statuses of a request that another request replaces.
_ASKED_AGAIN = frozenset({"expired", "lapsed"})
_MOST_WORDS = 1500
#: Effect of an approval as text, by the stage of the request.
ON_YES: dict[AskStage, str] = {
    "contract": "the work is given out",
    "candidate": "the change lands",
    "round": "one further round is ordered, for what was found",
    "beside": "the best guess stands, and the run goes on",
    "environment": "the packages are pulled, and the change is tested with them",
}


@dataclass(frozen=True, slots=True)
class MatchedRule:
    """A rule that requires approval of a run, and the reason."""

    rule: ApprovalRule
    why: str


@dataclass(frozen=True, slots=True)
class JudgedDecision:
    """A valid decision: its person, key and request. ``delegate``: the person that the request is delegated to."""

    decision: ApprovalDecision
    signed: SignedDecision
    request: ApprovalRequest
    person: RosterPerson
    fingerprint: str
    delegate: RosterPerson | None = None


def stage_of(run: Run) -> AskStage | None:
    """Return the stage for which approvals may be due where the run is, or was when parked; None for no stage."""
    match run.parked_from or run.state:
        case "S3" | "S4" if handed_over(run):
            return "round"
        case "S1" if run.plan is not None or not (run.kind.plans or run.candidate is not None):
            return "contract"
        case "S4" if run.awaits_environment and run.tests is None:
            return "environment"
        case "S4" if run.tests_passed and run.kind.lands:
            return "candidate"
        case "S3" if run.kind.voted and not run.kind.lands and run.review is not None and run.refusal is None:
            return "candidate"
        case _:
            return None


def matching_rules(run: Run, stage: AskStage) -> tuple[MatchedRule, ...]:
    """Return the rules of the run's policy that require approval at this stage.

    Before the landing these include contract rules whose approval has lapsed since.
    """
    contract = run.contract
    if contract is None:
        return ()
    again = {rule.name: _lapse(run, rule) for rule in run.accepted.approval_rules}
    earlier = {"contract", "environment"} if stage == "candidate" else set()
    before = {rule.name for rule in run.accepted.approval_rules if rule_stage(run, rule) in earlier}
    result = result_rules(run)
    rules = (
        rule
        for rule in run.accepted.approval_rules
        if (rule in result if stage == "candidate" else rule_stage(run, rule) == stage)
        or (rule.name in before and again[rule.name])
    )
    found = ((rule, again[rule.name] + why) for rule in rules if (why := _why(rule, run, contract)))
    return tuple(MatchedRule(rule, why if len(why) <= _MOST_WORDS else f"{why[: _MOST_WORDS - 3]}...") for rule, why in found)


def rule_stage(run: Run, rule: ApprovalRule) -> AskStage:
    """Return when a rule asks: about packages on request once a change needs them, else as the rule itself has it."""
    requested = run.contract is not None and run.contract.tool_permissions.network == "on-request"
    return "environment" if rule.reason == "network" and requested and run.kind.lands else rule.stage


def result_rules(run: Run) -> tuple[ApprovalRule, ...]:
    """Return the rules that may ask people about the result of the run."""
    rules = (rule for rule in run.accepted.approval_rules if rule.stage == "candidate" and run.kind.voted)
    return tuple(rule for rule in rules if run.kind.lands or rule.reason in _ABOUT_REVIEWS)


def has_lapsed(run: Run, stage: AskStage) -> bool:
    """Return whether an approval at this stage, of the run's current contract or candidate, is no longer valid."""
    return any(_lapse(run, rule) for rule in run.accepted.approval_rules if rule_stage(run, rule) == stage)


def _lapse(run: Run, rule: ApprovalRule) -> str:
    """Return as text why a rule asks again: an approval of the same subject is no longer valid. Empty when it is valid."""
    lapsed = [
        asked.words
        for asked in run.approvals.values()
        if asked.status == "lapsed"
        and asked.request.rule == rule.name
        and run.contract is not None
        and is_about(asked.request, run, run.contract)
    ]
    return f"asked anew, because {lapsed[-1]}; " if lapsed else ""


def touched_path_classes(rules: Sequence[ApprovalRule], paths: Iterable[bytes]) -> dict[str, list[bytes]]:
    """Return the changed paths of each class that a rule of the reason ``path_class`` names, by the name of the class."""
    naming = [rule for rule in rules if rule.reason == "path_class"]
    matcher = path_matcher(tuple(rule.paths for rule in naming))
    found: dict[str, list[bytes]] = {}
    for path in paths if naming else ():
        for number in matcher.of(path):
            found.setdefault(naming[number].name, []).append(path)
    return found


def unasked_rules(run: Run, stage: AskStage) -> tuple[MatchedRule, ...]:
    """Return the rules without a valid request. Decisions on another contract or tree are void."""
    return tuple(each for each in matching_rules(run, stage) if not _counting(run, each.rule))


def unapprovable(run: Run) -> str:
    """Return as text why no person can give a required approval; empty when every approval is possible.

    This is the case when the requester is unknown and a rule requires another person: a rule that applies now or, before any
    work is dispatched, one that will apply before the landing in any case.
    """
    stage = stage_of(run)
    if stage is None or not is_orderer_unknown(run):
        return ""
    asking = unasked_rules(run, stage)
    if stage == "contract" and run.kind.voted:
        asking += tuple(each for each in matching_rules(run, "candidate") if each.rule.reason in _CERTAIN)
    names = sorted({each.rule.name for each in asking if wants_another(each.rule)})
    words = f"it is not known who ordered the run, and approval by another person is asked for by: {', '.join(names)}"
    return words if names else ""


def wants_another(rule: ApprovalRule) -> bool:
    """Return whether only a person other than the requester can approve for this rule."""
    return not rule.autopilot and (rule.reason == "review" or not rule.yourself)


def draft_of(run: Run) -> ReviewStanding | None:
    """Return the review that a rule will request once the change is made; None without one, or after it was requested."""
    if run.ended or not run.kind.voted or not any(each.rule.quorum is not None for each in unasked_rules(run, "candidate")):
        return None
    stands = run.parked_from if run.parked and run.parked_from is not None else run.state
    words = f"the change is not made, reviewed and tested yet: the run stands in {stands}, in round {run.attempt}"
    return ReviewStanding(phase="DRAFT", votes=(), blockers=(words,))


def is_cleared(run: Run, stage: AskStage) -> bool:
    """Return whether every applicable rule has an approval of exactly the run's current contract or candidate."""
    return all(any(asked.status in AGREED for asked in _counting(run, each.rule)) for each in matching_rules(run, stage))


def waited_for(run: Run) -> tuple[AskedApproval, ...]:
    """Return the requests that a parked run waits for, oldest first."""
    return tuple(asked for asked in pending(run) if asked.request.stage != "beside")


def pending(run: Run) -> tuple[AskedApproval, ...]:
    """Return the open requests, oldest first."""
    return tuple(asked for asked in run.approvals.values() if asked.status == "pending")


def make_request(
    run: Run, each: MatchedRule, number: int, now: datetime, before: ApprovalRequest | None = None
) -> ApprovalRequest:
    """Return an approval request.

    Args:
        run: the run.
        each: the rule with its reason.
        number: number of the request in the run, from 1.
        now: the current time.
        before: the unanswered request that this one replaces.
    """
    rule, contract = each.rule, run.contract
    if contract is None:
        raise DeniedError("there is no contract to ask about", code="gate_not_evaluated")
    stage = rule_stage(run, rule)
    candidate = run.candidate if stage not in _NO_CANDIDATE else None
    silent = (
        f"{', '.join(rule.escalate_to)} are asked" if rule.escalate_to and before is None else "the run ends (approval_expired)"
    )
    return ApprovalRequest(
        request_id=f"{run.run_id}.ask.{number}",
        run_id=run.run_id,
        stage=stage,
        rule=rule.name,
        reason=rule.reason,
        why=each.why,
        risk=rule.risk,
        approvers=rule.escalate_to if before is not None else rule.approvers,
        repository=run.accepted.repository_url,
        baseline_commit=run.accepted.baseline_commit,
        contract_sha256=contract_digest(contract),
        attempt=run.attempt,
        publisher=run.publisher,
        requested_by=run.accepted.requested_by,
        user_request=run.accepted.user_request[:4000],
        on_yes=_on_yes(run, rule),
        on_no=_on_no(run, rule),
        on_silence=silent,
        created_at=timestamp(now),
        expires_at=timestamp(now + timedelta(seconds=rule.wait)),
        candidate_tree=candidate.tree if candidate is not None else "",
        patch=candidate.patch if candidate is not None else "",
        yourself=rule.yourself,
        phrase=rule.phrase,
        approvals=rule.approvals,
        batch=rule.batch and rule.risk != "high",
        escalates_from=before.request_id if before is not None else None,
        transfers=asked_transfers(run) if rule.reason == "transfer" else (),
        order_sha256=run.changed_order.sha256 if stage == "environment" and run.changed_order is not None else None,
    )


def _on_yes(run: Run, rule: ApprovalRule) -> str:
    """Return the effect of an approval as text."""
    stage = rule_stage(run, rule)
    if run.candidate is not None and (stage == "contract" or (stage == "environment" and run.pulled is not None)):
        stage = "candidate"
    return ON_YES[stage] if stage != "candidate" or run.kind.lands else "the review passes, and nothing lands"


def _on_no(run: Run, rule: ApprovalRule) -> str:
    """Return the effect of a rejection as text, including why a change is not sent back although the rule would."""
    review = rule.reason == "review"
    ends = "it stays in review until that vote is changed" if review else "the run ends (approval_rejected); nothing lands"
    if rule.on_reject == "end" or rule.stage != "candidate":
        return ends
    if why := why_unrepaired(run):
        return f"{ends}; nothing is sent back: {why}"
    back = f"it goes back to who made it, for round {run.attempt + 1}"
    return f"a quorum with a red vote: {back}" if review else f"with a comment: {back}; without one {ends}"


def next_asked(run: Run, asked: AskedApproval) -> MatchedRule | None:
    """Return the rule that asks other people after an unanswered request; None when there are no others."""
    request = asked.request
    rule = next((each for each in run.accepted.approval_rules if each.name == request.rule), None)
    return MatchedRule(rule, request.why) if rule is not None and rule.escalate_to and request.escalates_from is None else None


def is_over(request: ApprovalRequest, now: datetime) -> bool:
    """Return whether the time for an answer has passed."""
    return datetime.fromisoformat(request.expires_at) <= now


def tree_words(request: ApprovalRequest) -> str:
    """Return the tree of the decision as text for people."""
    beside = "none: the run goes on beside this question"
    return request.candidate_tree or (beside if request.stage == "beside" else "none yet: no work was given out")


def contract_digest(contract: TaskContract) -> str:
    return hashlib.sha256(codec.encode(contract)).hexdigest()


def request_digest(request: ApprovalRequest) -> str:
    """Return the digest by which a decision names its request."""
    return hashlib.sha256(codec.encode(request)).hexdigest()


def decision_on(request: ApprovalRequest, **fields: object) -> ApprovalDecision:
    """Return a decision about exactly this request; ``fields`` are verdict, person, decided_at, comment and phrase."""
    bound = {
        "request_id": request.request_id,
        "run_id": request.run_id,
        "request_sha256": request_digest(request),
        "contract_sha256": request.contract_sha256,
        "candidate_tree": request.candidate_tree,
        "expires_at": request.expires_at,
    }
    return ApprovalDecision(**{**bound, **fields})  # type: ignore[arg-type] # the names are the fields


def judge_decision(run: Run, signed: SignedDecision, roster: ApproverRoster, now: datetime) -> JudgedDecision:
    """Judge whether a decision is valid for ``run`` at ``now``.

    1. It is the canonical form of a decision.
    2. It is about this run and one of its requests.
    3. The request is open and has not expired.
    4. It is about exactly that request, and the run's current contract or candidate.
    5. It is signed by a valid key of the roster, by the named person, after the request was made.
    6. The person may decide this, and has not delegated it.
    7. The run is not the person's own.
    8. The phrase is exact.
    9. A delegate may decide the request.
    10. A person approves a request once, and does not delegate it afterwards.

    Raises:
        MalformedError: the document cannot be decoded.
        VerificationError: the signature does not verify (``signature_invalid``).
        DeniedError: has the code of the broken rule.
    """
    data = signed.document.encode()
    decision = codec.decode(data, ApprovalDecision)  # 1
    if codec.encode(decision) != data:
        raise DeniedError("what was signed is not the canonical form of a decision", code="approval_not_canonical")
    request = _waiting_request(run, decision, now)  # 2, 3
    _same_subject(run, request, decision)  # 4
    person, key_print = signer_on(roster, signed.signature, data, NAMESPACE, now)  # 5
    if not same_person(person.name, decision.person):
        raise DeniedError(f"it names {decision.person}, and the key is that of {person.name}", code="approver_differs")
    check_signing_time(decision.decided_at, request.created_at, now)
    asked = run.approvals[request.request_id]
    check_right(run, request, person, "approver_not_allowed")  # 6
    if decision.verdict != "comment":
        keeps(asked, person.name)
    if decision.verdict in {"approve", "vote"}:
        check_not_own(run, request, person)  # 7
        if decision.verdict == "approve" and request.phrase and decision.phrase != request.phrase:  # 8
            raise DeniedError(f"the rule wants the exact words {request.phrase!r}", code="approval_phrase_differs")
    check_vote(run, request, decision, person)
    if decision.verdict == "comment" and len(asked.comments) >= MOST_COMMENTS:
        raise DeniedError(f"{MOST_COMMENTS} comments are kept, not more", code="too_many_comments")
    if decision.verdict in {"approve", "delegate"} and any(same_person(name, person.name) for name in asked.approved_by):  # 10
        words = f"{person.name} has approved {request.request_id}; it has {asked.progress}"
        raise DeniedError(words, code="approval_repeated")
    delegate = delegate_of(decision, asked, roster)  # 9
    if delegate is not None:
        check_right(run, request, delegate, "delegate_not_allowed")
        check_not_own(run, request, delegate)
    return JudgedDecision(decision, signed, request, person, key_print, delegate)


def judge_batch(items: Sequence[JudgedDecision]) -> None:
    """Check that these decisions may be made together: one per request, none of high risk.

    Raises:
        DeniedError: they may not.
    """
    ids = [item.request.request_id for item in items]
    if len(set(ids)) != len(ids):
        raise DeniedError("a request stands in the batch twice", code="approval_repeated")
    for item in items if len(items) > 1 else ():
        if item.request.risk == "high":
            raise DeniedError(f"{item.request.request_id} is of high risk: it is decided alone", code="batch_high_risk")
        if not item.request.batch:
            raise DeniedError(
                f"{item.request.request_id} is decided alone: {item.request.rule} allows no batch", code="batch_not_allowed"
            )


def _is_dispatcher(run: Run, request: ApprovalRequest, person: RosterPerson) -> bool:
    return request.reason == "escalation" and has_ordered(run, person)


def check_right(run: Run, request: ApprovalRequest, person: RosterPerson, code: str) -> None:
    """Check that the rule names the person, or asks the requester.

    Raises:
        DeniedError: has the given ``code``.
    """
    if not _is_dispatcher(run, request, person) and not names_person(request.approvers, person):
        raise DeniedError(f"{person.name} may not decide {request.rule}: {', '.join(request.approvers)}", code=code)


def check_not_own(run: Run, request: ApprovalRequest, person: RosterPerson) -> None:
    """Check that the person may approve this run: it is not their own, or the rule allows that.

    Raises:
        DeniedError: ``approval_of_own_run``, ``orderer_unknown``.
    """
    if request.reason != "review" and (request.yourself or _is_dispatcher(run, request, person)):
        return
    if is_own(run, person):
        raise DeniedError(f"{person.name} may not approve a run of their own", code="approval_of_own_run")
    if is_orderer_unknown(run):
        words = f"it is not known who ordered the run, so {person.name} may have: {request.rule} wants another person"
        raise DeniedError(words, code=ORDERER_UNKNOWN)


def _waiting_request(run: Run, decision: ApprovalDecision, now: datetime) -> ApprovalRequest:
    asked = run.approvals.get(decision.request_id)
    if decision.run_id != run.run_id or asked is None:
        raise DeniedError(f"{decision.request_id} is no request of {run.run_id}", code="approval_unknown")
    if run.ended and asked.status == "pending":
        raise DeniedError(f"{run.run_id} has ended: nothing waits for an answer", code="approval_withdrawn")
    if asked.status == "expired" or (asked.status == "pending" and is_over(asked.request, now)):
        raise DeniedError(f"the time for an answer was over {asked.request.expires_at}", code="approval_expired")
    if asked.status != "pending" and asked.request.stage not in _NO_CANDIDATE and asked.request.attempt != run.attempt:
        raise DeniedError("what it was asked about was sent back, and made anew: it is void", code="approval_void")
    if asked.status == "lapsed" and asked.request.reason == "review":
        raise DeniedError(f"this request no longer applies, because {asked.words}: a new one was made", code="approval_void")
    if asked.status != "pending":
        raise DeniedError(f"it is {asked.status} since {asked.at}, by {asked.person}", code="approval_decided")
    return asked.request


def _same_subject(run: Run, request: ApprovalRequest, decision: ApprovalDecision) -> None:
    if decision.candidate_tree != request.candidate_tree or decision.contract_sha256 != request.contract_sha256:
        raise DeniedError("it is about another contract or another tree than was asked about", code="approval_other_subject")
    if decision.request_sha256 != request_digest(request) or decision.expires_at != request.expires_at:
        raise DeniedError("it is about another wording of the request", code="approval_other_request")
    if run.contract is None or not is_about(request, run, run.contract):
        raise DeniedError("this request no longer applies: the change was replaced after it was created", code="approval_void")


def _counting(run: Run, rule: ApprovalRule) -> list[AskedApproval]:
    """Return the answered requests of a rule about the run's current contract or candidate."""
    contract = run.contract
    return [
        asked
        for asked in run.approvals.values()
        if contract is not None
        and (asked.request.rule, asked.request.stage) == (rule.name, rule_stage(run, rule))
        and asked.status not in _ASKED_AGAIN
        and is_about(asked.request, run, contract)
    ]


def is_about(request: ApprovalRequest, run: Run, contract: TaskContract) -> bool:
    """Return whether a request is about the run's current contract, candidate and round."""
    if request.stage == "round" and request.attempt != run.attempt:
        return False
    if request.stage == "environment":
        shown = run.changed_order is not None and request.order_sha256 == run.changed_order.sha256
        return shown and request.contract_sha256 == contract_digest(contract)
    tree = run.candidate.tree if request.stage not in _NO_CANDIDATE and run.candidate is not None else ""
    return request.contract_sha256 == contract_digest(contract) and request.candidate_tree == tree


def _network_words(run: Run, rule: ApprovalRule, contract: TaskContract) -> str:
    network, order = contract.tool_permissions.network, run.changed_order
    words = f"network access: {network}" if network != "deny" else ""
    if rule_stage(run, rule) != "environment":
        return words
    return "; ".join((words, f"changed packages: {', '.join(order.files)}", *order.packages)) if order is not None else ""


def _why(rule: ApprovalRule, run: Run, contract: TaskContract) -> str:
    """Return the reason as text; empty when the rule does not apply."""
    match rule.reason:
        case "broad_scope" | "command" | "protected_class" | "proof":
            return _reason_words(rule, run)
        case "path_class":
            return "; ".join(found_words(run, f"{PATH_CLASS}{rule.name}"))
        case "network":
            return _network_words(run, rule, contract)
        case "agent":
            kinds = sorted(_makers(contract)) if run.kind.lands else ()
            return f"the change is made by: {', '.join(kinds)}" if kinds else ""
        case "transfer":
            return transfer_words(run)
        case "budget":
            return _costs(rule, contract)
        case "destructive":
            listed = contract.scope.destructive if contract.scope is not None else ()
            return f"destructive: {'; '.join(listed)}" if listed else ""
        case "landing":
            ref = landing_ref(run.run_id, contract.repository) if contract.repository is not None else ""
            return f"it lands on {ref}" if ref and (not rule.refs or ref_covered(ref, rule.refs)) else ""
        case "risk_tier" | "critic" | "escalation" | "blocked" | "agent_question":
            return _of_evidence(rule, run)
        case "review":
            ref = landing_ref(run.run_id, contract.repository) if contract.repository is not None else ""
            quorum = rule.quorum
            if quorum is None or (rule.refs and not (ref and ref_covered(ref, rule.refs))):
                return ""
            domain = "; ".join(", ".join(names) for names in seats_of(quorum, owned_lines(run)))
            return f"{quorum.reviewers} reviewers vote, of the domain ({domain}) and of quality"


def _reason_words(rule: ApprovalRule, run: Run) -> str:
    """Return the gates' findings that the rule covers, as text."""
    wanted: list[str] = [rule.reason]
    if rule.reason == "command":
        wanted = [f"{COMMAND}{name}" for name in rule.commands or ASKED_COMMANDS]
    elif rule.reason == "protected_class":
        wanted = [f"protected_class:{name}" for name in rule.classes] or ["protected_class:"]
    return "; ".join(dict.fromkeys(words for each in wanted for words in found_words(run, each)))


def _of_evidence(rule: ApprovalRule, run: Run) -> str:
    if rule.reason == "risk_tier":
        return _tier(rule, run)
    if rule.reason == "critic":
        return doubt_words(run, rule)
    refusal = run.refusal if rule.reason == "escalation" and handed_over(run) else None
    words = f"refused {run.attempt} times in a row, at last by the"
    return f"{words} {refusal.gate} gate ({refusal.code}): {refusal.summary}" if refusal is not None else ""


def _tier(rule: ApprovalRule, run: Run) -> str:
    """Return the tier as text. A change with an unknown tier requires approval."""
    if run.routing is None:
        return "how much the change risks was not recorded"
    worst = "; ".join(f"{each.signal}: {each.detail}" for each in run.routing.signals if each.tier == run.routing.tier)
    wanted = TIERS.index(run.routing.tier) >= TIERS.index(rule.from_tier)
    return f"the change is of {run.routing.tier} risk: {worst}" if wanted else ""


def found_words(run: Run, reason: str) -> Iterator[str]:
    """Yield the gates' findings about the current contract or candidate as text.

    Args:
        run: the run.
        reason: a reason, or a family of reasons when it ends with a colon.
    """
    for found in run.reasons_found_now():
        if found.reason.startswith(reason) if reason.endswith(":") else found.reason == reason:
            yield found.words


def _makers(contract: TaskContract) -> set[str]:
    executors = (contract.executor, *(contract.candidates or ()))
    return {each.kind for each in executors if each is not None and EXECUTOR_KINDS[each.kind].asks_models}


def _costs(rule: ApprovalRule, contract: TaskContract) -> str:
    limit = contract.budget.cost_usd if contract.budget is not None else None
    if limit is None:
        return "no limit on what models may cost" if _makers(contract) else ""
    return f"models may cost {limit:g} USD" if limit > (rule.above_usd or 0.0) else ""
