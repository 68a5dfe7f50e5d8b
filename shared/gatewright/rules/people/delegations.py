"""Requests that a person hands to another one: how often, to whom, and who is waited for then. Pure.

A delegation gives no right to decide: who is asked in another's place has to be one who may decide the request anyway.
"""

from __future__ import annotations

from collections.abc import Sequence

from gatewright.contracts import ApprovalDecision, ApproverRoster
from gatewright.contracts.people.approvals import ApprovalStanding, Delegation, RosterPerson
from gatewright.contracts.people.identities import same_person
from gatewright.errors import DeniedError
from gatewright.run.state import AskedApproval

#: As often one request is handed on.
MOST_DELEGATIONS = 4


def keeps(asked: AskedApproval, name: str) -> None:
    """Whether the person ``name`` has not handed the request on. Raises DeniedError (``approval_handed_on``)."""
    for each in asked.delegations:
        if same_person(each.person, name):
            raise DeniedError(f"{name} has handed it to {each.to} at {each.at}", code="approval_handed_on")


def delegate_of(decision: ApprovalDecision, asked: AskedApproval, roster: ApproverRoster) -> RosterPerson | None:
    """To whom a decision hands the request on; None where it is no delegation.

    1. a delegation names a person, and nothing else does  2. another one than who signs  3. who is on the roster  4. and has
    not handed it on before, so that it comes back to none  5. not more often than the bound. Raises DeniedError.
    """
    name = decision.delegate_to
    if (name is None) == (decision.verdict == "delegate"):  # 1
        words = "without" if name is None else "with"
        raise DeniedError(f"{decision.verdict} {words} a person to hand it to", code="delegation_misplaced")
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
    """Whom a request waits for: people and ``@groups``, each person that has handed it on replaced by who has it now."""
    names = list(approvers)
    for each in delegations:
        names = [each.to if same_person(name, each.person) else name for name in names]
        if not any(same_person(name, each.to) for name in names):
            names.append(each.to)
    return tuple(dict.fromkeys(names))


def holders(asked: AskedApproval | ApprovalStanding) -> tuple[str, ...]:
    """Whom a request waits for now: people and ``@groups``."""
    return waited_for(asked.request.approvers, asked.delegations)
