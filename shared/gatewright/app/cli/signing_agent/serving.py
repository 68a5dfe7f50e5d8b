"""The agent's two paths on loopback: who signs here, and one decision at a time that a person agrees to in the terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gatewright.app.cli.output import say
from gatewright.app.cli.people.signing import public_key, sign_decision
from gatewright.app.cli.signing_agent.access import AgentAccess
from gatewright.app.cli.signing_agent.orders import MAX_ORDER_BYTES, read_order, told_before_signing
from gatewright.app.http_access import is_loopback, listening_socket, read_body
from gatewright.clock import Clock
from gatewright.errors import ConfigurationError, DeniedError, GatewrightError, MalformedError, UnavailableError
from gatewright.ssh_signatures import fingerprint
from gatewright.view.safe_text import printable

#: Shows lines, and says whether the word was typed that means yes.
Agrees = Callable[[Sequence[str], str], Awaitable[bool]]


@dataclass(slots=True)
class SigningAgent:
    """``person`` is the name on the roster, ``key`` as ``approvals approve`` takes it. Raises as ``public_key`` does."""

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
        """What is served."""
        return Starlette(
            routes=[
                Route("/agent", self.agent, methods=["GET", "OPTIONS"]),
                Route("/sign", self.sign, methods=["POST", "OPTIONS"]),
            ]
        )

    async def agent(self, request: Request) -> Response:
        """Whose agent it is."""
        return self._refuse_request(request) or self._answer(request, {"person": self.person, "key": self._fingerprint})

    async def sign(self, request: Request) -> Response:
        """The decision with its signature, or why there is none."""
        refused = self._refuse_request(request)
        if refused is not None:
            return refused
        try:
            if request.headers.get("content-type") != "application/json":
                raise MalformedError("an order is JSON", code="malformed")
            return self._answer(request, await self._sign_data(request, await read_body(request, MAX_ORDER_BYTES)))
        except GatewrightError as error:
            return self._refusal(request, error, 400 if error.family == "bad_input" else 409)

    def _refuse_request(self, request: Request) -> Response | None:
        """1. the page is one of a console that was named  2. it may ask for leave  3. it has the code."""
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
            lines = told_before_signing(ordered, f"{self.key} ({self._fingerprint})")
            if not await self._ask_person(request, lines, ordered.decision.verdict):
                say("not signed")
                raise DeniedError("nothing was signed: no was said in the agent's terminal", code="signature_declined")
            signed = await asyncio.to_thread(sign_decision, ordered.decision, self.key)
            if await request.is_disconnected():
                raise UnavailableError("the page has gone: nothing was sent", code="unavailable")
            say(printable(f"signed: {ordered.decision.verdict} {ordered.decision.request_id}"))
            return {"document": signed.document, "signature": signed.signature}

    async def _ask_person(self, request: Request, lines: list[str], word: str) -> bool:
        """The person's word; a question that no page waits for any more is taken back."""
        asking = asyncio.ensure_future(self.agrees(lines, word))
        leaving = asyncio.ensure_future(_await_disconnect(request))
        try:
            await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                say("the page has gone: the question is taken back")
                raise UnavailableError("the page has gone: nothing was signed", code="unavailable")
            return asking.result()
        finally:
            for task in (asking, leaving):
                task.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)

    def _refusal(self, request: Request, error: GatewrightError, status: int) -> Response:
        return self._answer(request, {"reason": error.reason, "message": error.message}, status)

    def _answer(self, request: Request, document: dict[str, str], status: int = 200) -> Response:
        return JSONResponse(document, status, headers=dict(self.access.answers(request.headers.get("origin", ""))))


async def _await_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def check_agent_address(host: str) -> None:
    """Raises ConfigurationError for an address that another host reaches: no proxy stands before an agent."""
    if not is_loopback(host):
        raise ConfigurationError(
            f"{host} can be reached by others: an agent is on loopback alone", code="configuration_invalid"
        )


async def serve_agent(agent: SigningAgent, host: str, port: int) -> None:
    """Serve until the process is told to end. Raises UnavailableError (``address_unavailable``)."""
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
