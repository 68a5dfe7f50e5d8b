"""What a page may ask the agent for, and what becomes of it: one decision on one request, in the words that were typed. Pure.

An agent signs nothing else: the document is made here, of the request that the page has shown, and never taken from the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gatewright.app.cli.people.inbox import page
from gatewright.clock import timestamp
from gatewright.contracts import ApprovalDecision, ApprovalRequest, codec
from gatewright.contracts.people.approvals import ApprovalStanding, PersonName
from gatewright.contracts.people.identities import same_person
from gatewright.errors import DeniedError, MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.rules.approvals import decision_on, is_over, request_digest
from gatewright.rules.people.signing_times import read_time
from gatewright.view.safe_text import printable

#: Bytes of one order.
MAX_ORDER_BYTES = 64 * 1024


class SigningOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``request``: the canonical JSON of an ``approval_request.v1``. ``comment`` and ``phrase`` as a person has typed them.

    ``delegate_to``: to whom a person hands the request on.
    """

    request: Annotated[str, Meta(max_length=32_768)]
    verdict: Literal["approve", "reject", "delegate"]
    comment: Annotated[str, Meta(max_length=4000)] = ""
    phrase: Annotated[str, Meta(max_length=200)] = ""
    delegate_to: PersonName | None = None


@dataclass(frozen=True, slots=True)
class OrderedDecision:
    """The request that is decided, and the decision that would be signed."""

    request: ApprovalRequest
    decision: ApprovalDecision


def read_order(data: bytes, person: str, now: datetime) -> OrderedDecision:
    """The decision of ``person`` that an order asks for.

    Raises MalformedError, DeniedError (``approval_not_canonical``, ``approval_expired``, ``approval_phrase_differs``,
    ``vote_misplaced``, ``delegation_misplaced``, ``delegate_not_allowed``): what the gatekeeper would refuse anyhow is
    not signed.
    """
    try:
        order = read_json(data, SigningOrder)
    except UnreadableDocumentError as error:
        raise MalformedError(f"that is no order to sign: {error}", code="malformed") from error
    request = codec.decode(order.request.encode(), ApprovalRequest)
    if codec.encode(request) != order.request.encode():
        raise DeniedError("the request is not in its canonical form", code="approval_not_canonical")
    if request.reason == "review":
        raise DeniedError(f"{request.request_id} is voted on: `gatewright review vote`", code="vote_misplaced")
    if read_time(request.expires_at) is None:
        raise MalformedError(f"the request ends at {request.expires_at[:40]!a}, which is no time with a zone")
    if is_over(request, now):
        raise DeniedError(f"the time for an answer was over {request.expires_at}", code="approval_expired")
    phrase = order.phrase if order.verdict == "approve" and request.phrase else ""
    if order.verdict == "approve" and phrase != request.phrase:
        raise DeniedError(f"the rule wants the exact words {request.phrase!r}", code="approval_phrase_differs")
    if (order.verdict == "delegate") == (order.delegate_to is None):
        raise DeniedError("a request is handed on to a person, and by nothing else", code="delegation_misplaced")
    if order.delegate_to is not None and same_person(order.delegate_to, person):
        raise DeniedError(f"{person} has it already", code="delegate_not_allowed")
    said = {"verdict": order.verdict, "person": person, "decided_at": timestamp(now), "comment": order.comment}
    return OrderedDecision(request, decision_on(request, **said, phrase=phrase, delegate_to=order.delegate_to))


def told_before_signing(ordered: OrderedDecision, key: str) -> list[str]:
    """What a person sees in the terminal: the request, then the document itself, then what it says, last. All printable."""
    decision = ordered.decision
    standing = ApprovalStanding(request=ordered.request, request_sha256=request_digest(ordered.request), status="pending")
    return [
        "",
        *page(standing),
        "",
        "what is signed, with " + printable(key) + ":",
        printable(codec.encode(decision).decode()),
        "",
        printable(f"{decision.person} says {decision.verdict.upper()} to {decision.request_id}"),
        *([printable(f"handed to   {decision.delegate_to}")] if decision.delegate_to is not None else []),
        printable(f"risk        {ordered.request.risk}"),
        printable(f"comment     {decision.comment or 'none'}"),
        printable(f"phrase      {decision.phrase or 'none'}"),
    ]
