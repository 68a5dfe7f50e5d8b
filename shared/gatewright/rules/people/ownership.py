"""Whose run it is: who ordered it, and who made the change. Pure.

Four eyes rest on this: a person who is found here does not approve the run, unless the rule that asks says ``yourself``. Where
it is not known who ordered a run, no person can be told apart from them, and none approves it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.people.identities import identities_of, person_key
from gatewright.run.state import Run

#: The reason code of a run that no person may approve, because it is not known who ordered it.
ORDERER_UNKNOWN: Final = "orderer_unknown"

#: Names that a remark shows.
_MOST_NAMED: Final = 5


def requester_of(document: RunRequest | TaskContract) -> str:
    """Who ordered the run, in the words of the document; of a contract the agent that owns it."""
    if isinstance(document, RunRequest):
        return document.requested_by
    return f"{document.owner_agent.role}/{document.owner_agent.agent_id}"


def orderers_of(
    document: RunRequest | TaskContract, publisher: str, persons: Iterable[str], roster: Iterable[RosterPerson]
) -> tuple[str, ...]:
    """Everybody who ordered a run or may have, in canonical form; empty: it is not known.

    1. the person whom the document names  2. those whom the operator names as the people of the publisher (``persons``)
    3. the people of the roster to whom the publisher belongs  4. the person of the roster whom ``requested_by`` names.
    Names of roles and programs in ``requested_by`` name no person.
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
    """Why it is doubtful that the approver of a run is another person than who ordered it, in words; empty where it is not."""
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
    """Whether the person ordered the run, or made the change or a commit of it."""
    return has_ordered(run, person) or not person.identities.isdisjoint(_makers_of(run.contract))


def has_ordered(run: Run, person: RosterPerson) -> bool:
    """Whether the person is who the run came from, or may be: its dispatcher."""
    orderers = identities_of(run.accepted.requested_by).union(run.accepted.orderers)
    return run.publisher in person.publishers or not person.identities.isdisjoint(orderers)


def is_orderer_unknown(run: Run) -> bool:
    """Whether any person may have ordered the run."""
    return not run.accepted.orderers


def _makers_of(contract: TaskContract | None) -> frozenset[str]:
    """Whom a contract names as authors: of the change, and of each commit that it was taken from."""
    if contract is None:
        return frozenset()
    source, author = contract.source_branch, contract.author
    named = (author.name, author.email) if author is not None else ()
    return identities_of(*named, *(source.authors if source is not None else ()))
