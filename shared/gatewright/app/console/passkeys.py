"""Decisions signed by a passkey in the browser: creating a passkey, the request to sign, and its answer.

This module has no key and verifies nothing: the gatekeeper checks each signature against the operator's roster, which
nothing here writes. The page shows what a passkey signs, so its server is trusted for that; a signing agent trusts no page.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatewright.app.console.access_check import check_sender
from gatewright.app.console.decisions import MARK_HEADER, DecisionPaths, refusal
from gatewright.app.console.pages import ConsolePages
from gatewright.app.http_access import read_body
from gatewright.clock import timestamp
from gatewright.contracts import codec
from gatewright.contracts.people.approvals import PersonName, RosterKey, SignedDecision
from gatewright.errors import GatewrightError, MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.rules.approvals import NAMESPACE, decision_on
from gatewright.ssh_signatures import fingerprint
from gatewright.ssh_signatures.passkeys import PasskeyAssertion, armoured_assertion, challenge_of, passkey_line

#: Bytes of what a page sends, and of one string of bytes of a passkey in it.
_MAX_BYTES = 64 * 1024
_Encoded = Annotated[str, Meta(max_length=16_384)]
_Sent = TypeVar("_Sent", bound=msgspec.Struct)


class MadePasskey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``public_key``: SubjectPublicKeyInfo as the browser returns it; URL-safe base64, like all fields below."""

    public_key: _Encoded


class PasskeyOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A person's choice and input for the request with this digest."""

    request_id: Annotated[str, Meta(max_length=200)]
    sha256: Annotated[str, Meta(max_length=64)]
    verdict: Literal["approve", "reject", "delegate"]
    person: PersonName
    comment: Annotated[str, Meta(max_length=4000)] = ""
    phrase: Annotated[str, Meta(max_length=200)] = ""
    delegate_to: PersonName | None = None


class PasskeyAnswer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The document that was signed, the public line of the passkey, and what the browser has from it."""

    document: Annotated[str, Meta(max_length=32_768)]
    key: Annotated[str, Meta(max_length=4096)]
    client_data: _Encoded
    authenticator_data: _Encoded
    signature: _Encoded


@dataclass(slots=True)
class PasskeyPaths:
    """Used beside the paths of signed decisions, under the same conditions."""

    pages: ConsolePages
    deciding: DecisionPaths

    def routes(self) -> list[Route]:
        return [
            Route("/passkey", self.page),
            Route("/passkey/key", self.key, methods=["POST"]),
            Route("/passkey/challenge", self.challenge, methods=["POST"]),
            Route("/passkey/decision", self.decision, methods=["POST"]),
        ]

    async def page(self, request: Request) -> Response:
        """Show the page where a person creates a passkey, and gets the line for the operator."""
        board = (await self.pages.link.board_follower()).board
        host, port = request.url.hostname or "", request.url.port
        by_name = f"http://localhost:{port}/passkey" if _is_address(host) else ""
        return self.pages.page(request, "passkey.html", board, by_name=by_name)

    async def key(self, request: Request) -> Response:
        """A new passkey as a roster holds it: for this page's host, to be used on this page."""
        try:
            made = await self._read_sent(request, MadePasskey)
            line = passkey_line(_decode_base64url(made.public_key), request.url.hostname or "")
            entry = RosterKey(key=line, origins=(_origin(request),))
        except GatewrightError as error:
            return refusal(error)
        return JSONResponse({"entry": {"key": entry.key, "origins": list(entry.origins)}, "fingerprint": fingerprint(line)})

    async def challenge(self, request: Request) -> Response:
        """The decision that would be signed, and what the passkey is given for it."""
        try:
            order = await self._read_sent(request, PasskeyOrder)
            asked = await self.deciding.waiting(order.request_id, order.sha256)
            fields: dict[str, Any] = {"verdict": order.verdict, "person": order.person, "comment": order.comment}
            fields["delegate_to"] = order.delegate_to
            now = timestamp(self.pages.clock.now())
            document = codec.encode(decision_on(asked, **fields, phrase=order.phrase, decided_at=now))
        except GatewrightError as error:
            return refusal(error)
        challenge = base64.urlsafe_b64encode(challenge_of(NAMESPACE, document)).decode().rstrip("=")
        return JSONResponse({"document": document.decode(), "challenge": challenge})

    async def decision(self, request: Request) -> Response:
        """Forward a decision signed by a passkey; return the gatekeeper's answer."""
        try:
            answer = await self._read_sent(request, PasskeyAnswer)
            parts = (_decode_base64url(each) for each in (answer.client_data, answer.authenticator_data, answer.signature))
            armoured = armoured_assertion(answer.key, NAMESPACE, PasskeyAssertion(*parts))
            return await self.deciding.bring(SignedDecision(document=answer.document, signature=armoured))
        except GatewrightError as error:
            return refusal(error)

    async def _read_sent(self, request: Request, kind: type[_Sent]) -> _Sent:
        """Return the submitted document. Raises DeniedError for another sender, MalformedError for anything else."""
        self.deciding.check_open()
        check_sender(request, self.deciding.signed_in, request.headers.get(MARK_HEADER), "approver")
        try:
            return read_json(await read_body(request, _MAX_BYTES), kind)
        except UnreadableDocumentError as error:
            raise MalformedError(f"that is not what this page sends: {error}", code="malformed") from error


def _origin(request: Request) -> str:
    """Return the origin of the requesting page, which the access check has accepted. Raises MalformedError."""
    found = request.headers.get("origin", "")
    if not found:
        raise MalformedError("the browser sent no Origin header", code="malformed")
    return found


def _decode_base64url(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("a part of it is no base 64", code="malformed") from None


def _is_address(host: str) -> bool:
    """Return whether a page's host is an IP address, for which passkeys do not exist."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
