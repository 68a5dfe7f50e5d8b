"""The events about people: what they are asked, and what they answer. ``ledger/events.py`` lists them with all others."""

from __future__ import annotations

from typing import ClassVar

from gatewright.contracts.people.approvals import ApprovalRequest, DecisionVerdict, RosterPerson, SignedDecision
from gatewright.contracts.people.review_votes import ConsensusReceipt
from gatewright.contracts.vocabulary import Document
from gatewright.ledger.payload import Payload


class ApprovalRequested(Payload, frozen=True):
    """A person is asked. Until there is an answer the run is parked."""

    event_type: ClassVar[str] = "approval_requested"
    request: ApprovalRequest


class ApprovalDecided(Payload, frozen=True):
    """A person has answered: ``approver``, as the roster of that digest had them, with the key of that ``fingerprint``.

    ``consensus`` comes with the vote that makes one: a yes, or a no where it is red. ``delegate``: whom it is handed to.
    """

    event_type: ClassVar[str] = "approval_decided"
    request_id: str
    verdict: DecisionVerdict
    signed: SignedDecision
    fingerprint: str
    approver: RosterPerson
    roster_sha256: str
    consensus: ConsensusReceipt | None = None
    delegate: RosterPerson | None = None


class ApprovalByRule(Payload, frozen=True):
    """No person was asked: the rule lets the gatekeeper approve what is of low risk."""

    event_type: ClassVar[str] = "approval_by_rule"
    request_id: str
    rule: str


class ApprovalByGrant(Payload, frozen=True):
    """A person had approved this in advance: ``approver``, as the roster of that digest has them now, by that key.

    ``signed`` is the grant; ``use`` is how many runs it has let pass with this one.
    """

    event_type: ClassVar[str] = "approval_by_grant"
    request_id: str
    grant_id: str
    signed: SignedDecision
    fingerprint: str
    approver: RosterPerson
    roster_sha256: str
    use: int


class LapsedWord(Document, frozen=True):
    """What a person had said of a request, by the key of that ``fingerprint``; ``code``, ``words``: why it counts no more."""

    request_id: str
    person: str
    fingerprint: str
    code: str
    words: str


class RosterHeld(Payload, frozen=True):
    """What people have said so far was held against a roster as it was ``at`` a moment, for a further decision or the landing.

    ``people`` are its entries of those who said it. ``lapsed`` counts no more; ``reopened``: requests whose yes is gone.
    """

    event_type: ClassVar[str] = "roster_held"
    at: str
    roster_sha256: str
    people: tuple[RosterPerson, ...]
    lapsed: tuple[LapsedWord, ...] = ()
    reopened: tuple[str, ...] = ()


class ApprovalExpired(Payload, frozen=True):
    """No answer came in time."""

    event_type: ClassVar[str] = "approval_expired"
    request_id: str
