"""Ownership of a run: who ordered it, and who made the change. Pure.

The four-eyes principle depends on this: an owner cannot approve the run, unless the rule has ``yourself``. If the requester is
unknown, every person could be the requester, so nothing can be approved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.people.identities import identities_of, person_key
from gatewright.run.state import Run

#: Reason code of a run that no person may approve because its requester is unknown.
ORDERER_UNKNOWN: Final = "orderer_unknown"

#: Maximum number of names in a remark.
_MOST_NAMED: Final = 5


def requester_of(document: RunRequest | TaskContract) -> str:
    """Return the requester named in the document; for a contract, the agent that owns it."""
    if isinstance(document, RunRequest):
        return document.requested_by
    return f"{document.owner_agent.role}/{document.owner_agent.agent_id}"


def orderers_of(
    document: RunRequest | TaskContract, publisher: str, persons: Iterable[str], roster: Iterable[RosterPerson]
) -> tuple[str, ...]:
    """Return all people who ordered or may have ordered a run, in canonical form; empty when unknown.

    1. The person that the document names.
    2. The people that the operator lists for the publisher (``persons``).
    3. The people of the roster to whom the publisher belongs.
    4. The person of the roster named in ``requested_by``.

    Names of roles and programs in ``requested_by`` refer to no person.
    """
    found = set(identities_of(*document.ordered_by, *persons))  # 1, 2
    claimed = identities_of(requester_of(document))
    for person in roster:
        if publisher in person.publishers:  # 3
            found.add(person_key(person.name))
        if not person.identities.isdisjoint(claimed):  # 4
            found |= claimed | {person_key(person.name)}
    return tuple(sorted(found))


def orderer_doubt(orderers: Iterable[str], roster: Iterable[RosterPerson]) -> str:
    """Return as text why an approver might be the requester; empty when that is excluded."""
    named = sorted(orderers)
    if not named:
        return (
            "nothing names who ordered it, so that a run that another person has to approve would end (orderer_unknown): "
            "name the person in ordered_by, or list the publisher's persons in publishers.json"
        )
    known = {identity for person in roster for identity in person.identities}
    if known.isdisjoint(named):
        return (
            f"the roster of approvers does not know who ordered it ({', '.join(named[:_MOST_NAMED])}): if it is one of them by "
            "another name, add that name to the person's accounts in approvers.json"
        )
    return ""


def is_own(run: Run, person: RosterPerson) -> bool:
    """Return whether the person ordered the run, or made the change or a commit of it."""
    return has_ordered(run, person) or not person.identities.isdisjoint(_makers_of(run.contract))


def has_ordered(run: Run, person: RosterPerson) -> bool:
    """Return whether the person ordered or may have ordered the run."""
    orderers = identities_of(run.accepted.requested_by).union(run.accepted.orderers)
    return run.publisher in person.publishers or not person.identities.isdisjoint(orderers)


def is_orderer_unknown(run: Run) -> bool:
    """Return whether the requester of the run is unknown."""
    return not run.accepted.orderers


def _makers_of(contract: TaskContract | None) -> frozenset[str]:
    """Return the authors in a contract: of the change, and of each commit that it was taken from."""
    if contract is None:
        return frozenset()
    source, author = contract.source_branch, contract.author
    named = (author.name, author.email) if author is not None else ()
    return identities_of(*named, *(source.authors if source is not None else ()))
