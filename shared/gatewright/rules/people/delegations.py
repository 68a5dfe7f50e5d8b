"""Delegations of requests: how often, to whom, and who must answer then. Pure.

A delegation grants no right to decide: the delegate must be permitted to decide the request anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts import ApprovalDecision, ApproverRoster
from gatewright.contracts.people.approvals import ApprovalStanding, Delegation, RosterPerson
from gatewright.contracts.people.identities import same_person
from gatewright.errors import DeniedError
from gatewright.run.state import AskedApproval

#: Maximum number of delegations of one request.
MOST_DELEGATIONS = 4


def keeps(asked: AskedApproval, name: str) -> None:
    """Check that the person ``name`` has not delegated the request.

    Raises:
        DeniedError: they have (``approval_handed_on``).
    """
    for each in asked.delegations:
        if same_person(each.person, name):
            raise DeniedError(f"{name} has handed it to {each.to} at {each.at}", code="approval_handed_on")


def delegate_of(decision: ApprovalDecision, asked: AskedApproval, roster: ApproverRoster) -> RosterPerson | None:
    """Return the delegate of a decision; None when it is no delegation.

    1. Exactly a delegation names a person.
    2. The delegate is another person than the signer.
    3. The delegate is on the roster.
    4. The delegate has not delegated it before, so it never returns.
    5. The maximum number is not reached.

    Raises:
        DeniedError: has the code of the broken rule.
    """
    name = decision.delegate_to
    if (name is None) == (decision.verdict == "delegate"):  # 1
        words = "without" if name is None else "with"
        raise DeniedError(f"{decision.verdict} {words} a delegate", code="delegation_misplaced")
    if name is None:
        return None
    if same_person(name, decision.person):  # 2
        raise DeniedError(f"{name} has it already", code="delegate_not_allowed")
    person = next((each for each in roster.people if same_person(each.name, name)), None)
    if person is None:  # 3
        raise DeniedError(f"{name} is not on the roster of approvers", code="delegate_unknown")
    keeps(asked, name)  # 4
    if len(asked.delegations) >= MOST_DELEGATIONS:  # 5
        raise DeniedError(f"it was handed on {MOST_DELEGATIONS} times, not more", code="too_many_delegations")
    return person


def waited_for(approvers: Sequence[str], delegations: Sequence[Delegation]) -> tuple[str, ...]:
    """Return the people and ``@groups`` that a request waits for, with each delegating person replaced by the delegate."""
    names = list(approvers)
    for each in delegations:
        names = [each.to if same_person(name, each.person) else name for name in names]
        if not any(same_person(name, each.to) for name in names):
            names.append(each.to)
    return tuple(dict.fromkeys(names))


def holders(asked: AskedApproval | ApprovalStanding) -> tuple[str, ...]:
    """Return the people and ``@groups`` that a request waits for now."""
    return waited_for(asked.request.approvers, asked.delegations)
