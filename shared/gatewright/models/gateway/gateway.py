"""The gateway of one task: an HTTP server on a socket that only this task reaches, and the way from there to the providers."""

from __future__ import annotations

import asyncio
import json
import logging
import random
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from gatewright.budgets import Spend, spend_freely
from gatewright.clock import Clock, SystemClock, timestamp
from gatewright.contracts.vocabulary import Usage
from gatewright.errors import DeniedError
from gatewright.models.apis.endpoints import TOOLS_PATH, endpoint_of, lists_models
from gatewright.models.apis.error_answers import error_body
from gatewright.models.cassettes import Cassette, CassetteWriter
from gatewright.models.gateway.attempts import Attempts
from gatewright.models.gateway.call import ModelCall, Shared
from gatewright.models.gateway.reading import GatewayLimits
from gatewright.models.gateway.spending import InputEstimate, Spending
from gatewright.models.gateway.upstream import Upstream
from gatewright.models.policy import ModelGrant, ModelsPolicy
from gatewright.models.records import CallRecord, CallRecords
from gatewright.models.transfers import TransferGuard

#: The base URL for clients in this process; the host is arbitrary.
BASE_URL = "http://gateway"
#: Library messages about connections are dropped: a client could fill a log with them.
_SILENT = logging.getLogger("gatewright.models.http")
_SILENT.disabled = True
_GOODBYE = 1.0


class ModelGateway:
    """The gateway for every model call of one task. One is made for each delivery of a task.

    ``exceeded`` is set as soon as usage exceeds the budget; running calls are cut, further ones refused, and ``check()``
    raises. ``records`` are the records of all calls, ``recording`` their content, as the cassette of ``task``. ``guard``
    checks transfers against the approved manifest. With ``playing`` no provider is called, and no key needed. ``tools``
    answers requests below ``TOOLS_PATH``, where the task has tools.
    """

    def __init__(
        self,
        policy: ModelsPolicy,
        grant: ModelGrant,
        *,
        spend: Spend = spend_freely,
        task: str = "",
        playing: Cassette | None = None,
        guard: TransferGuard | None = None,
        limits: GatewayLimits | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.limits = limits or GatewayLimits()
        self.grant = grant
        self.records = CallRecords(self.limits.records)
        self.recording = CassetteWriter(task, texts=policy.keep_texts, most_bytes=self.limits.recorded_bytes)
        self._spending = Spending(grant.budget, spend)
        self._upstream = Upstream(self.limits)
        seconds = grant.budget.wall_sec
        self._shared = Shared(
            policy=policy,
            grant=grant,
            limits=self.limits,
            spending=self._spending,
            estimate=InputEstimate(),
            attempts=Attempts(self._upstream, self.limits, guard=guard or TransferGuard(task, grant.role), chance=chance),
            records=self.records,
            recording=self.recording,
            playing=playing,
            refusals=[],
            refused=asyncio.Event(),
            clock=clock or SystemClock(),
            deadline=time.monotonic() + (seconds if seconds is not None else 10**9),
        )
        self._slots = asyncio.Semaphore(self.limits.calls)
        self._waiting = 0
        self.tools: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]] | None = None
        self._answering: set[asyncio.Task[Any]] = set()

    @property
    def exceeded(self) -> asyncio.Event:
        """Set when the budget is used up."""
        return self._spending.exceeded

    @property
    def refused(self) -> asyncio.Event:
        """Set when a call was refused for good: not recorded, where calls are played, or not approved to be sent."""
        return self._shared.refused

    @property
    def usage(self) -> Usage:
        """Return the usage counted by the gateway itself."""
        return self._spending.usage

    def check(self) -> None:
        """Raises BudgetError when the budget is used up."""
        self._spending.check()

    def check_refused(self) -> None:
        """Raise DeniedError (``cassette_miss``, ``transfer_not_approved``) if a call was finally refused, even if its client
        went on."""
        if self._shared.refusals:
            raise self._shared.refusals[0]

    @asynccontextmanager
    async def serving(self, listening: socket.socket) -> AsyncIterator[None]:
        """Serve HTTP/1.1 on ``listening`` (TCP or Unix, bound and listening) within; the socket is closed afterwards.

        Once at a time. At the end open calls are given up.
        """
        listening.setblocking(False)
        async with self._upstream.opened():
            server = web.Server(
                self._handle,
                handler_cancellation=True,
                access_log=None,
                logger=_SILENT,
                keepalive_timeout=self.limits.client_idle,
                lingering_time=0.0,
                max_line_size=self.limits.header_bytes,
                max_field_size=self.limits.header_bytes,
                max_headers=self.limits.header_count,
                auto_decompress=False,
                tcp_keepalive=False,
            )

            def connect() -> asyncio.BaseProtocol:
                return server() if len(server.connections) < self.limits.connections else _Full()

            accepting = await asyncio.get_running_loop().create_server(connect, sock=listening)
            try:
                yield
            finally:
                accepting.close()
                await server.shutdown(_GOODBYE)
                await self._await_records()

    async def _await_records(self) -> None:
        """Wait until the calls that were given up are in the records: each leaves one, however it ends."""
        while self._answering:
            for answering in self._answering:
                answering.cancel()
            await asyncio.wait(self._answering)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[aiohttp.ClientSession]:
        """Serve on a private Unix socket, and give an HTTP client for it: ``await session.post("/v1/responses", json=...)``."""
        async with self.private() as path:
            connector = aiohttp.UnixConnector(path=str(path))
            async with aiohttp.ClientSession(BASE_URL, connector=connector, trust_env=False) as session:
                yield session

    @asynccontextmanager
    async def private(self) -> AsyncIterator[Path]:
        """Serve on a private Unix socket and yield its path, for any HTTP client of this process (base URL ``BASE_URL``)."""
        with private_socket() as (listening, path):
            async with self.serving(listening):
                yield path

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        target = request.raw_path
        if lists_models(request.method, target):
            return self._models()
        endpoint = endpoint_of(request.method, target)
        if self.tools is not None and target.startswith(TOOLS_PATH):
            return await self.tools(request)
        if endpoint is None:
            return self._refuse_request(request, 403, "endpoint_not_allowed", "the gateway has no such endpoint")
        if self._waiting >= self.limits.waiting:
            return self._refuse_request(request, 429, "model_calls_limit", "too many calls at a time")
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        answering = asyncio.current_task()
        if answering is not None:
            self._answering.add(answering)
        try:
            return await ModelCall(self._shared, request, endpoint).answer()
        finally:
            self._slots.release()
            if answering is not None:
                self._answering.discard(answering)

    def _models(self) -> web.Response:
        """Return the available models, in a form that the clients of every API understand."""
        names = list(self.grant.routes)
        data = [{"id": name, "object": "model", "type": "model", "display_name": name, "created": 0} for name in names]
        body = {"object": "list", "data": data, "has_more": False, "first_id": names[0], "last_id": names[-1]}
        return web.Response(body=json.dumps(body).encode(), content_type="application/json")

    def _refuse_request(self, request: web.BaseRequest, status: int, code: str, message: str) -> web.Response:
        endpoint = endpoint_of(request.method, request.raw_path)
        if not self.records.full:
            # Without the query: clients put keys there.
            words = f"{request.method} {request.raw_path.partition('?')[0]}".encode("ascii", "replace").decode()[:200]
            record = CallRecord(
                number=len(self.records.calls) + 1,
                time=timestamp(self._shared.clock.now()),
                role=self.grant.role,
                endpoint=words,
                status=status,
                seconds=0.0,
                refused=DeniedError(message, code=code).reason,
                whole=False,
            )
            self.records.add(record)
        body = error_body(None if endpoint is None else endpoint.api, status, code, message)
        response = web.Response(status=status, body=body, content_type="application/json", headers={"x-should-retry": "false"})
        response.force_close()
        return response


class _Full(asyncio.Protocol):
    """Closes a connection beyond the limit immediately."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


# A listening socket for clients on the same host: a Unix socket in a folder that no other account can enter.
_BACKLOG = 64


@contextmanager
def private_socket() -> Iterator[tuple[socket.socket, Path]]:
    """Yield a socket and its path, both removed afterwards. The folder is our own, so that its path is short enough."""
    with tempfile.TemporaryDirectory(prefix="gw-") as folder:
        path = Path(folder) / "models.sock"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(path))
            listening.listen(_BACKLOG)
            yield listening, path
