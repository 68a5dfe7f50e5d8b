"""The signing agent on loopback: its clients, its decisions and its two paths.

Pages of the named consoles may ask, with the code that the agent has printed. The agent signs one decision at a time, on one
request, with the phrase that was typed, after a person has agreed in the terminal. The agent creates the decision itself, from
the request that the page has shown, and never accepts a decision from the page.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
import uvicorn
from msgspec import Meta
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatewright.app.cli.output import write_line
from gatewright.app.cli.people.inbox import page
from gatewright.app.cli.people.signing import public_key, sign_decision
from gatewright.app.http_access import is_loopback, listening_socket, read_body
from gatewright.clock import Clock, timestamp
from gatewright.contracts import ApprovalDecision, ApprovalRequest, codec
from gatewright.contracts.people.approvals import ApprovalStanding, PersonName
from gatewright.contracts.people.identities import same_person
from gatewright.errors import ConfigurationError, DeniedError, GatewrightError, MalformedError, UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.rules.approvals import decision_on, is_over, request_digest
from gatewright.rules.people.signing_times import read_time
from gatewright.ssh_signatures import fingerprint
from gatewright.view.safe_text import printable

#: Maximum bytes of one order.
MAX_ORDER_BYTES = 64 * 1024
#: Shows lines, and returns whether the person typed the word of consent.
Agrees = Callable[[Sequence[str], str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class AgentAccess:
    """``hosts``: accepted ``Host`` headers, which stops DNS rebinding. ``origins``: accepted consoles."""

    hosts: frozenset[str]
    origins: frozenset[str]
    code: str

    def knows_place(self, host: str | None, origin: str | None) -> bool:
        """Return whether a browser asks from a page of a named console, and for this address."""
        return host in self.hosts and origin in self.origins

    def knows_code(self, authorization: str | None) -> bool:
        """Return whether the page has the code from the person."""
        return hmac.compare_digest((authorization or "").encode(), f"Bearer {self.code}".encode())

    def answers(self, origin: str) -> Mapping[str, str]:
        """Return the CORS headers that let only this page read an answer."""
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": "authorization, content-type",
            "Access-Control-Allow-Private-Network": "true",
            "Access-Control-Max-Age": "600",
            "Vary": "Origin",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }


def origin_of(address: str) -> str:
    """Return the origin of a console's address, as a browser writes it.

    Raises ConfigurationError for an address without TLS on another host.
    """
    parts = urlsplit(address)
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    known = {"http": 80, "https": 443}
    if parts.scheme not in known or not host:
        raise ConfigurationError(f"{address} is no address of a console: https://HOST", code="configuration_invalid")
    if parts.scheme == "http" and not is_loopback(host):
        words = f"{address} is reached without TLS: others on the way could have it sign; name it by https://"
        raise ConfigurationError(words, code="configuration_invalid")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + (f":{port}" if port not in {None, known[parts.scheme]} else "")


def agent_origin(address: str) -> str:
    """Return the origin of signing agents, which is each reader's own host. Raises ConfigurationError for another host."""
    origin = origin_of(address)
    if not is_loopback((urlsplit(origin).hostname or "").strip("[]")):
        words = f"{address}: a signing agent is where the person sits: http://127.0.0.1:8791"
        raise ConfigurationError(words, code="configuration_invalid")
    return origin


class SigningOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``request``: canonical JSON of an ``approval_request.v1``. ``comment`` and ``phrase``: as the person typed them.

    ``delegate_to``: the person that the request is delegated to.
    """

    request: Annotated[str, Meta(max_length=32_768)]
    verdict: Literal["approve", "reject", "delegate"]
    comment: Annotated[str, Meta(max_length=4000)] = ""
    phrase: Annotated[str, Meta(max_length=200)] = ""
    delegate_to: PersonName | None = None


@dataclass(frozen=True, slots=True)
class OrderedDecision:
    """The request to decide, and the decision to sign."""

    request: ApprovalRequest
    decision: ApprovalDecision


def read_order(data: bytes, person: str, now: datetime) -> OrderedDecision:
    """Return the decision of ``person`` that an order requests.

    Everything that the gatekeeper would refuse later is not signed.

    Raises:
        MalformedError: the order cannot be read.
        DeniedError: ``approval_not_canonical``, ``approval_expired``, ``approval_phrase_differs``, ``vote_misplaced``,
            ``delegation_misplaced`` or ``delegate_not_allowed``.
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
    fields = {"verdict": order.verdict, "person": person, "decided_at": timestamp(now), "comment": order.comment}
    return OrderedDecision(request, decision_on(request, **fields, phrase=phrase, delegate_to=order.delegate_to))


def signing_summary(ordered: OrderedDecision, key: str) -> list[str]:
    """Format what the person sees in the terminal: the request, the document, and finally its meaning. All printable."""
    decision = ordered.decision
    standing = ApprovalStanding(request=ordered.request, request_sha256=request_digest(ordered.request), status="pending")
    return [
        "",
        *page(standing),
        "",
        "what is signed, with " + printable(key) + ":",
        printable(codec.encode(decision).decode()),
        "",
        printable(f"{decision.person} answers {decision.verdict.upper()} to {decision.request_id}"),
        *([printable(f"handed to   {decision.delegate_to}")] if decision.delegate_to is not None else []),
        printable(f"risk        {ordered.request.risk}"),
        printable(f"comment     {decision.comment or 'none'}"),
        printable(f"phrase      {decision.phrase or 'none'}"),
    ]


@dataclass(slots=True)
class SigningAgent:
    """``person``: name on the roster. ``key``: as for ``approvals approve``. Raises as ``public_key`` does."""

    access: AgentAccess
    person: str
    key: Path
    clock: Clock
    agrees: Agrees
    _fingerprint: str = field(init=False)
    _asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._fingerprint = fingerprint(public_key(self.key))

    def app(self) -> Starlette:
        """Return the web application."""
        return Starlette(
            routes=[
                Route("/agent", self.agent, methods=["GET", "OPTIONS"]),
                Route("/sign", self.sign, methods=["POST", "OPTIONS"]),
            ]
        )

    async def agent(self, request: Request) -> Response:
        """Return the person of the agent."""
        return self._refuse_request(request) or self._json_response(request, {"person": self.person, "key": self._fingerprint})

    async def sign(self, request: Request) -> Response:
        """Return the decision with its signature, or the reason why there is none."""
        refused = self._refuse_request(request)
        if refused is not None:
            return refused
        try:
            if request.headers.get("content-type") != "application/json":
                raise MalformedError("an order is JSON", code="malformed")
            return self._json_response(request, await self._sign_data(request, await read_body(request, MAX_ORDER_BYTES)))
        except GatewrightError as error:
            return self._refusal(request, error, 400 if error.family == "bad_input" else 409)

    def _refuse_request(self, request: Request) -> Response | None:
        """Return the response to a request that must not proceed; None if it may. In order:

        1. Its page is not one of a named console: refused.
        2. It is a preflight request: permitted.
        3. It lacks the code: refused.
        """
        origin = request.headers.get("origin")
        if not self.access.knows_place(request.headers.get("host"), origin):  # 1
            return Response("this page may not ask here\n", 403, media_type="text/plain")
        if request.method == "OPTIONS":  # 2
            return Response(status_code=204, headers=dict(self.access.answers(origin or "")))
        if not self.access.knows_code(request.headers.get("authorization")):  # 3
            words = "that is not the code that the signing agent printed when it was started"
            return self._refusal(request, DeniedError(words, code="agent_code_wrong"), 401)
        return None

    async def _sign_data(self, request: Request, data: bytes) -> dict[str, str]:
        if self._asking.locked():
            raise UnavailableError("the agent is asking about another decision: answer that first", code="service_busy")
        async with self._asking:
            ordered = read_order(data, self.person, self.clock.now())
            lines = signing_summary(ordered, f"{self.key} ({self._fingerprint})")
            if not await self._ask_person(request, lines, ordered.decision.verdict):
                write_line("not signed")
                raise DeniedError("nothing was signed: the answer in the agent's terminal was no", code="signature_declined")
            signed = await asyncio.to_thread(sign_decision, ordered.decision, self.key)
            if await request.is_disconnected():
                raise UnavailableError("the page has gone: nothing was sent", code="unavailable")
            write_line(printable(f"signed: {ordered.decision.verdict} {ordered.decision.request_id}"))
            return {"document": signed.document, "signature": signed.signature}

    async def _ask_person(self, request: Request, lines: list[str], word: str) -> bool:
        """Ask the person. The question is withdrawn if the page no longer waits for it."""
        asking = asyncio.ensure_future(self.agrees(lines, word))
        leaving = asyncio.ensure_future(_await_disconnect(request))
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                write_line("the page has gone: the question is taken back")
                raise UnavailableError("the page has gone: nothing was signed", code="unavailable")
            return asking.result()
        finally:
            for task in (asking, leaving):
                task.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)

    def _refusal(self, request: Request, error: GatewrightError, status: int) -> Response:
        return self._json_response(request, {"reason": error.reason, "message": error.message}, status)

    def _json_response(self, request: Request, document: dict[str, str], status: int = 200) -> Response:
        return JSONResponse(document, status, headers=dict(self.access.answers(request.headers.get("origin", ""))))


async def _await_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def check_agent_address(host: str) -> None:
    """Raise ConfigurationError for an address that another host can reach: an agent has no proxy in front."""
    if not is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached by others: an agent is on loopback alone", code="configuration_invalid"
        )


async def serve_agent(agent: SigningAgent, host: str, port: int) -> None:
    """Serve until the process is stopped. Raises UnavailableError (``address_unavailable``)."""
    config = uvicorn.Config(
        agent.app(),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        limit_concurrency=20,
    )
    with listening_socket(host, port) as listening:
        await uvicorn.Server(config).serve(sockets=[listening])
