"""Requests to sign, and signed decisions on their way to the gatekeeper, which alone verifies them.

This module has no key: a person's own agent receives a request, asks the person, and signs the decision.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatewright.app.console.access_check import SESSION_COOKIE, SignedIn, check_sender, status_of
from gatewright.app.console.roles import may
from gatewright.app.feed.link import LedgerLink
from gatewright.app.http_access import read_body
from gatewright.client.approvals import ApprovalInbox
from gatewright.contracts import ApprovalRequest, codec
from gatewright.contracts.people.approvals import SignedDecision
from gatewright.errors import DeniedError, GatewrightError, MalformedError, UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.reasons import advice_for
from gatewright.rules.approvals import request_digest

#: Opens a connection as an approver. Raises UnavailableError, BusError.
OpenInbox = Callable[[], AbstractAsyncContextManager[ApprovalInbox]]

#: Maximum bytes of a signed decision, and maximum concurrent decisions.
_MAX_BYTES = 96 * 1024
_MOST_AT_ONCE = 8
#: Header with which a page shows that a request comes from its own form.
MARK_HEADER = "x-gatewright-mark"


@dataclass(slots=True)
class DecisionPaths:
    """The paths of decisions; without ``decide`` this console accepts none."""

    link: LedgerLink
    signed_in: SignedIn
    decide: OpenInbox | None
    _under_way: int = 0

    def routes(self) -> list[Route]:
        return [Route("/requests/{request_id}", self.request), Route("/decisions", self.decision, methods=["POST"])]

    async def request(self, request: Request) -> Response:
        """Return the canonical JSON of a pending request if it still is the one that the page shows (``sha256``)."""
        role = self.signed_in.role_of(request.cookies.get(SESSION_COOKIE, ""))
        try:
            if role is None or not may(role, "approver"):
                raise DeniedError("it takes the role approver", code="role_not_allowed")
            found = await self.waiting(request.path_params["request_id"], request.query_params.get("sha256", ""))
        except GatewrightError as error:
            return refusal(error)
        return Response(codec.encode(found), media_type="application/json")

    async def decision(self, request: Request) -> Response:
        """Forward one signed decision; return the gatekeeper's answer."""
        try:
            self.check_open()
            check_sender(request, self.signed_in, request.headers.get(MARK_HEADER), "approver")
            return await self.bring(_read_decision(await read_body(request, _MAX_BYTES)))
        except GatewrightError as error:
            return refusal(error)

    def check_open(self) -> OpenInbox:
        """Return the connection for decisions. Raises DeniedError (``console_read_only``) if this console accepts none."""
        if self.decide is None:
            raise DeniedError("nothing is decided here: this console only looks", code="console_read_only")
        return self.decide

    async def bring(self, signed: SignedDecision) -> Response:
        """Forward a decision; return what was recorded. Raises UnavailableError, and the gatekeeper's refusal."""
        decide = self.check_open()
        if self._under_way >= _MOST_AT_ONCE:
            raise UnavailableError("other decisions are on their way: send it again", code="service_busy")
        self._under_way += 1
        try:
            async with decide() as inbox:
                (recorded,) = (await inbox.decide([signed])).recorded
        finally:
            self._under_way -= 1
        return JSONResponse({"request_id": recorded.request_id, "verdict": recorded.verdict, "state": recorded.state})

    async def waiting(self, request_id: str, sha256: str) -> ApprovalRequest:
        """The request that a page shows. Raises MalformedError (``approval_unknown``), DeniedError (as a page of before)."""
        board = (await self.link.board_follower()).board
        row = board.rows.get(request_id.partition(".ask.")[0])
        for each in row.asks if row is not None else ():
            if each.request_id == request_id:
                if request_digest(each) != sha256:
                    raise DeniedError("the request is another one now: load the page again", code="approval_other_request")
                return each
        raise MalformedError("nothing waits for an answer under this name any more", code="approval_unknown")


def _read_decision(data: bytes) -> SignedDecision:
    try:
        return read_json(data, SignedDecision)
    except UnreadableDocumentError as error:
        raise MalformedError(f"that is no signed decision: {error}", code="malformed") from error


def refusal(error: GatewrightError) -> Response:
    """Return an error as a response to a page."""
    document = {"reason": error.reason, "message": error.message, "advice": advice_for(error.reason)}
    return JSONResponse(document, status_of(error))
