"""Effects of people's answers on their requests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gatewright.contracts import AgentQuestion, ApprovalDecision, codec
from gatewright.contracts.people.approvals import ApprovalStatus, Delegation, PersonsComment, RosterPerson
from gatewright.contracts.people.identities import person_key
from gatewright.errors import MalformedError
from gatewright.run.state import AnswerText, AskedApproval, CastVote

if TYPE_CHECKING:
    from gatewright.run.events.people import ApprovalDecided, RosterHeld


def apply_decision(asked: AskedApproval, event: ApprovalDecided, now: str) -> AskedApproval:
    """Return the request after one more answer; a comment does not change its status. Raises what ``apply_vote`` raises."""
    words = codec.decode(event.signed.document.encode(), ApprovalDecision).comment
    if words or event.verdict == "comment":
        remark = PersonsComment(person=event.approver.name, verdict=event.verdict, at=now, text=words)
        asked = replace(asked, remarks=(*asked.remarks, remark))
    if asked.request.stage in {"beside", "round"} and event.verdict in {"comment", "approve"}:
        answer = AnswerText(event.approver.name, words, event.verdict == "approve")
        if words or asked.request.stage == "beside":
            asked = replace(asked, answers=(*asked.answers, answer))
    if event.verdict in {"approve", "vote", "delegate"}:
        asked = replace(asked, spoken=(*asked.spoken, event))
    match event.verdict:
        case "comment":
            return asked
        case "vote":
            return apply_vote(asked, event, now)
        case "delegate":
            return apply_delegation(asked, event, now)
        case "approve":
            given = asked.approved_by
            if len(given) < asked.request.approvals:
                return asked
            return replace(asked, status="approved", person=", ".join(given), at=now)
        case "reject":
            return replace(asked, status="rejected", person=event.approver.name, at=now, words=words)


def apply_vote(asked: AskedApproval, event: ApprovalDecided, now: str) -> AskedApproval:
    """Return the request after one more vote; a consensus approves it, or rejects it when it is red.

    Raises:
        MalformedError: the decision has no vote.
    """
    decision = codec.decode(event.signed.document.encode(), ApprovalDecision)
    if decision.vote is None:
        raise MalformedError(f"{event.request_id[:80]!r}: a vote without content", code="bad_event")
    cast = CastVote(event.approver, decision.vote, decision.decided_at, now, event.signed)
    asked = replace(asked, votes=(*asked.votes, cast))
    if event.consensus is None:
        return asked
    status: ApprovalStatus = "rejected" if event.consensus.red else "approved"
    return replace(asked, status=status, person=event.approver.name, at=now, consensus=event.consensus)


def apply_delegation(asked: AskedApproval, event: ApprovalDecided, now: str) -> AskedApproval:
    """Return the open request after a delegation.

    Raises:
        MalformedError: the delegation names no person.
    """
    to = codec.decode(event.signed.document.encode(), ApprovalDecision).delegate_to
    if to is None:
        raise MalformedError(f"{event.request_id[:80]!r}: a delegation to none", code="bad_event")
    name = event.delegate.name if event.delegate is not None else to
    return replace(asked, delegations=(*asked.delegations, Delegation(person=event.approver.name, to=name, at=now)))


def apply_roster(approvals: Mapping[str, AskedApproval], event: RosterHeld) -> Mapping[str, AskedApproval]:
    """Return the requests after a roster comparison: lapsed decisions are removed, votes have their current entries."""
    entries = {person_key(person.name): person for person in event.people}
    lapsed = {(each.request_id, person_key(each.person)) for each in event.lapsed}
    return {name: _apply_roster_to(asked, entries, lapsed, event) for name, asked in approvals.items()}


def _apply_roster_to(
    asked: AskedApproval, entries: Mapping[str, RosterPerson], lapsed: Collection[tuple[str, str]], event: RosterHeld
) -> AskedApproval:
    name = asked.request.request_id

    def counts(person: str) -> bool:
        return (name, person_key(person)) not in lapsed

    votes = (replace(cast, person=entries.get(person_key(cast.person.name), cast.person)) for cast in asked.votes)
    asked = replace(
        asked,
        votes=tuple(cast for cast in votes if counts(cast.person.name)),
        delegations=tuple(each for each in asked.delegations if counts(each.person)),
        spoken=tuple(word for word in asked.spoken if counts(word.approver.name)),
    )
    if name not in event.reopened:
        return asked
    why = "; ".join(each.words for each in event.lapsed if each.request_id == name)
    return replace(asked, status="lapsed", words=why or "the votes that count are no consensus any more", consensus=None)


def withdraw_for_next_round(approvals: Mapping[str, AskedApproval]) -> Mapping[str, AskedApproval]:
    """Return the requests of a run that starts another round: open ones about the previous change are withdrawn.

    An approval of the contract that was requested again is requested once more before the next change lands.
    """
    instead: dict[str, ApprovalStatus] = {"candidate": "withdrawn", "contract": "lapsed"}
    return {
        name: replace(asked, status=instead.get(asked.request.stage, asked.status)) if asked.status == "pending" else asked
        for name, asked in approvals.items()
    }


def withdraw_of_tasks(approvals: Mapping[str, AskedApproval], task_ids: Collection[str]) -> Mapping[str, AskedApproval]:
    """Return the requests after these tasks ended: permission requests of their agents are withdrawn."""
    return _withdrawn_where(approvals, lambda question: question.task_id in task_ids)


def withdraw_earlier_delivery(approvals: Mapping[str, AskedApproval], by: AgentQuestion) -> Mapping[str, AskedApproval]:
    """Return the requests after ``by`` was asked: requests of the task's earlier delivery are withdrawn."""
    return _withdrawn_where(approvals, lambda known: known.task_id == by.task_id and known.delivery < by.delivery)


def _withdrawn_where(
    approvals: Mapping[str, AskedApproval], is_over: Callable[[AgentQuestion], bool]
) -> Mapping[str, AskedApproval]:
    return {
        name: replace(asked, status="withdrawn")
        if asked.status == "pending" and asked.request.question is not None and is_over(asked.request.question)
        else asked
        for name, asked in approvals.items()
    }
