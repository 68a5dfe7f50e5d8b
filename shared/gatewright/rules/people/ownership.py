"""Whose run it is: who ordered it, and who made the change. Pure.

Four eyes rest on this: a person who is found here does not approve the run, unless the rule that asks says ``yourself``.
"""

from __future__ import annotations

from gatewright.contracts import TaskContract
from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.people.identities import identities_of
from gatewright.ledger.run import Run


def is_own(run: Run, person: RosterPerson, *, exact: bool = False) -> bool:
    """Whether the person ordered the run, or made the change or a commit of it.

    ``exact``: names are compared byte for byte, as they were for runs older than ``RunAccepted.orderers``.
    """
    contract = run.contract
    if exact:
        author = contract.author if contract is not None else None
        written = {author.name, author.email} if author is not None else set()
        return run.publisher in person.publishers or not {person.name, *person.accounts}.isdisjoint(
            {run.accepted.requested_by, *written}
        )
    return has_ordered(run, person) or not person.identities.isdisjoint(_makers_of(contract))


def has_ordered(run: Run, person: RosterPerson) -> bool:
    """Whether the person is who the run came from: its dispatcher."""
    accepted = run.accepted
    orderers = accepted.orderers if accepted.orderers is not None else identities_of(accepted.requested_by)
    return run.publisher in person.publishers or not person.identities.isdisjoint(orderers)


def _makers_of(contract: TaskContract | None) -> frozenset[str]:
    """Whom a contract names as authors: of the change, and of each commit that it was taken from."""
    if contract is None:
        return frozenset()
    source, author = contract.source_branch, contract.author
    named = (author.name, author.email) if author is not None else ()
    return identities_of(*named, *(source.authors if source is not None else ()))
