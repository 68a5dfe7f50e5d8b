"""Webhooks of forges: each names a change request, which the process then reads from the forge's API.

A delivery is only a hint. It can be old, repeated or lost, so that nothing of its content is used but a number. TLS is the
task of a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gatewright.app.forge.port import Forge
from gatewright.app.forge.rest import MOST_DELIVERY_BYTES
from gatewright.app.http_access import AskingRate, read_body
from gatewright.errors import ConfigurationError, DeniedError, MalformedError

#: Deliveries at once, and sustained deliveries per second, of one address.
BURST: Final = 200.0
EACH_SECOND: Final = 20.0
#: Seconds that a body may take to arrive.
_BODY_SECONDS: Final = 10.0
_MOST_CONNECTIONS: Final = 100
#: Seconds and maximum number of remembered deliveries.
_REMEMBERED_SECONDS: Final = 86_400.0
_MOST_REMEMBERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class Hook:
    """One entry of ``forges.json`` with a webhook.

    ``secret`` reads the shared secret; it may raise ConfigurationError. ``hint`` has a change request read soon, and returns
    immediately (``ForgeKeeper.hint``).
    """

    forge: Forge
    secret: Callable[[], bytes]
    hint: Callable[[int], None]


@dataclass(slots=True)
class SeenDeliveries:
    """Ids of the deliveries of a day, at most 10,000. ``clock``: monotonic seconds."""

    clock: Callable[[], float]
    most: int = _MOST_REMEMBERED
    _seen: OrderedDict[bytes, float] = field(default_factory=OrderedDict)

    def knows(self, entry: str, delivery_id: str) -> bool:
        """Return whether a delivery was remembered within a day."""
        limit = self.clock() - _REMEMBERED_SECONDS
        while self._seen and next(iter(self._seen.values())) <= limit:
            self._seen.popitem(last=False)
        return _delivery_key(entry, delivery_id) in self._seen

    def remember(self, entry: str, delivery_id: str) -> None:
        """Remember a delivery, and forget the oldest one if there are too many."""
        self._seen[_delivery_key(entry, delivery_id)] = self.clock()
        if len(self._seen) > self.most:
            self._seen.popitem(last=False)


class Receiver:
    """The path ``POST /hooks/{entry}``. ``hooks``: by name of the entry. ``clock``: monotonic seconds."""

    def __init__(self, hooks: Mapping[str, Hook], clock: Callable[[], float]) -> None:
        self._hooks = hooks
        self._seen = SeenDeliveries(clock)
        self._rate = AskingRate(clock, BURST, EACH_SECOND)

    def routes(self) -> list[Route]:
        """Return the routes of the server."""
        return [Route("/hooks/{entry}", self.receive, methods=["POST"])]

    async def receive(self, request: Request) -> Response:
        """Accept a delivery (202), or refuse it; the change request is read later. No answer quotes what was sent.

        1. The sender's rate. 2. The entry has a webhook. 3. The size of the body and its time to arrive. 4. The signature.
        5. A repeated delivery, or one about no change request, is accepted and changes nothing.
        """
        if wait := self._rate.wait_of(request.client.host if request.client is not None else ""):  # 1
            return _plain_response(429, "too many deliveries", int(wait) + 1)
        entry = str(request.path_params["entry"])
        hook = self._hooks.get(entry)
        if hook is None:  # 2
            return _plain_response(404, "no such webhook")
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                body = await read_body(request, MOST_DELIVERY_BYTES)  # 3
        except MalformedError:
            return _plain_response(413, "too large")
        except TimeoutError:
            return _plain_response(408, "too slow")
        try:
            delivery = hook.forge.delivery(dict(request.headers), body, hook.secret())  # 4
        except DeniedError:
            return _plain_response(401, "signature missing or wrong")
        except MalformedError:
            return _plain_response(400, "not a webhook of this forge")
        except ConfigurationError:
            return _plain_response(503, "the secret cannot be read", 60)
        if delivery.number is not None and not self._seen.knows(entry, delivery.delivery_id):  # 5
            self._seen.remember(entry, delivery.delivery_id)
            hook.hint(delivery.number)
        return _plain_response(202, "accepted")


class _WebhookServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the process."""
        yield


async def serve_webhooks(receiver: Receiver, listening: socket.socket) -> None:
    """Serve ``receiver`` at ``listening`` until cancelled. It has no TLS: that is the task of a proxy."""
    config = uvicorn.Config(
        Starlette(routes=receiver.routes()),
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=1,
        limit_concurrency=_MOST_CONNECTIONS,
    )
    server = _WebhookServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    finally:
        server.should_exit = True
        await serving


def _delivery_key(entry: str, delivery_id: str) -> bytes:
    """Return a digest, which bounds the memory: the id is as long as its sender likes."""
    return hashlib.sha256(f"{entry}\0{delivery_id}".encode("utf-8", "surrogatepass")).digest()


def _plain_response(status: int, words: str, retry_after: int | None = None) -> Response:
    headers = {"Cache-Control": "no-store"} | ({"Retry-After": str(retry_after)} if retry_after is not None else {})
    return PlainTextResponse(f"{words}\n", status, headers)
