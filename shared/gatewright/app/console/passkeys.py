"""Decisions that a passkey signs in the browser: how one is made for this page, what it is given to sign, and what it gave.

No key is here, and nothing is verified: the gatekeeper holds each signature against the operator's roster, which nothing here
writes. What a passkey signs is shown by this page, so its server is trusted for that; a signing agent trusts no page.
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

from gatewright.app.console.decisions import MARK_HEADER, DecisionPaths, refusal
from gatewright.app.console.doors import check_sender
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
    """``public_key``: SubjectPublicKeyInfo, as the browser tells it; base 64 as in URLs, like all that follows."""

    public_key: _Encoded


class PasskeyOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a person has pressed and typed, about the request of this digest."""

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
    """Beside the paths of signed decisions, on the same conditions."""

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
        """Where a person makes a passkey, and gets the line for the operator."""
        board = (await self.pages.link.board_follower()).board
        host, port = request.url.hostname or "", request.url.port
        by_name = f"http://localhost:{port}/passkey" if _is_address(host) else ""
        return self.pages.page(request, "passkey.html", board, by_name=by_name)

    async def key(self, request: Request) -> Response:
        """A new passkey as a roster holds it: for this page's host, to be used on this page."""
        try:
            made = await self._read_sent(request, MadePasskey)
            line = passkey_line(_bytes(made.public_key), request.url.hostname or "")
            entry = RosterKey(key=line, origins=(_origin(request),))
        except GatewrightError as error:
            return refusal(error)
        told = {"key": entry.key, "origins": list(entry.origins)}
        return JSONResponse({"entry": told, "fingerprint": fingerprint(line)})

    async def challenge(self, request: Request) -> Response:
        """The decision that would be signed, and what the passkey is given for it."""
        try:
            order = await self._read_sent(request, PasskeyOrder)
            asked = await self.deciding.waiting(order.request_id, order.sha256)
            said: dict[str, Any] = {"verdict": order.verdict, "person": order.person, "comment": order.comment}
            said["delegate_to"] = order.delegate_to
            now = timestamp(self.pages.clock.now())
            document = codec.encode(decision_on(asked, **said, phrase=order.phrase, decided_at=now))
        except GatewrightError as error:
            return refusal(error)
        challenge = base64.urlsafe_b64encode(challenge_of(NAMESPACE, document)).decode().rstrip("=")
        return JSONResponse({"document": document.decode(), "challenge": challenge})

    async def decision(self, request: Request) -> Response:
        """Bring what a passkey has signed; what the gatekeeper says of it."""
        try:
            answer = await self._read_sent(request, PasskeyAnswer)
            parts = (_bytes(each) for each in (answer.client_data, answer.authenticator_data, answer.signature))
            armoured = armoured_assertion(answer.key, NAMESPACE, PasskeyAssertion(*parts))
            return await self.deciding.bring(SignedDecision(document=answer.document, signature=armoured))
        except GatewrightError as error:
            return refusal(error)

    async def _read_sent(self, request: Request, kind: type[_Sent]) -> _Sent:
        """What the page has sent. Raises DeniedError for another sender, MalformedError for anything else."""
        self.deciding.check_open()
        check_sender(request, self.deciding.signed_in, request.headers.get(MARK_HEADER), "approver")
        try:
            return read_json(await read_body(request, _MAX_BYTES), kind)
        except UnreadableDocumentError as error:
            raise MalformedError(f"that is not what this page sends: {error}", code="malformed") from error


def _origin(request: Request) -> str:
    """Of the page that asks; the doors know it. Raises MalformedError."""
    found = request.headers.get("origin", "")
    if not found:
        raise MalformedError("a browser says which page it comes from", code="malformed")
    return found


def _bytes(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("a part of it is no base 64", code="malformed") from None


def _is_address(host: str) -> bool:
    """Whether a page is reached by a number, which no passkey is made for."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True
