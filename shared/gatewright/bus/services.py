"""Request and reply by the NATS services protocol: what ``nats micro ls`` lists, and how a refusal travels.

Like ``connection.py`` it knows the NATS client; the client's ``micro`` part is imported only by a process that serves.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING

from gatewright import __version__
from gatewright.bus.answers import translated
from gatewright.bus.connection import Connection
from gatewright.bus.port import SCHEMA_HEADER, Handler, Message
from gatewright.bus.subjects import check_schema, check_subject
from gatewright.errors import BusError, ConfigurationError, GatewrightError

if TYPE_CHECKING:
    from nats.micro.request import Request

#: Requests of one endpoint that are worked on at the same time; the others wait.
CONCURRENT_REQUESTS = 32

_ERROR_HEADER = "Nats-Service-Error"
_CODE_HEADER = "Nats-Service-Error-Code"
_LONGEST_WORDS = 1000


class Services:
    """The services that one connection offers, and its questions to those of others."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._tasks: set[asyncio.Task[None]] = set()

    async def register(self, service: str, endpoints: Mapping[str, Handler]) -> None:
        """Offer ``endpoints`` (subject to handler) as ``service``. Raises BusError, ConfigurationError for a bad name."""
        from nats.micro import add_service

        for subject in endpoints:
            check_subject(subject)
        self._connection.check()
        try:
            with translated(f"register the service {service}"):
                registered = await add_service(self._connection.client, name=service, version=__version__)
                for subject, handler in endpoints.items():
                    name = subject.replace(".", "-")
                    await registered.add_endpoint(name=name, subject=subject, handler=self._side_by_side(handler))
        except ValueError as error:
            raise ConfigurationError(f"the service {service!r} cannot be registered: {error}") from error
        await self._connection.flush()

    async def request(self, subject: str, data: bytes, *, schema: str, timeout: float) -> Message:  # noqa: ASYNC109
        """Ask; the answer of a handler that refused raises BusError with the refusal's reason."""
        headers = {SCHEMA_HEADER: check_schema(schema)} if schema else None
        raw = await self._connection.request(check_subject(subject), data, headers, timeout=timeout, survives_reconnect=True)
        answer = raw.headers or {}
        if _ERROR_HEADER in answer:
            raise BusError(answer[_ERROR_HEADER], code=answer.get(_CODE_HEADER) or BusError.code)
        return Message(subject, raw.data, answer)

    async def close(self) -> None:
        """Stop what is being worked on; who asked is told."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _side_by_side(self, handler: Handler) -> Callable[[Request], Awaitable[None]]:
        """One slow request must not hold up the others; the client alone would take them one by one."""
        places = asyncio.Semaphore(CONCURRENT_REQUESTS)

        def done(task: asyncio.Task[None]) -> None:
            places.release()
            self._tasks.discard(task)

        async def start(request: Request) -> None:
            await places.acquire()
            task = asyncio.get_running_loop().create_task(self._answer(handler, request))
            self._tasks.add(task)
            task.add_done_callback(done)

        return start

    async def _answer(self, handler: Handler, request: Request) -> None:
        refusal: tuple[str, str] | None = ("internal_error", "the service failed; its log tells why")
        try:
            reply = await handler(Message(request.subject, request.data, request.headers or {}))
            headers = {SCHEMA_HEADER: check_schema(reply.schema)}
            self._connection.check_size(reply.data)
            refusal = None
        except GatewrightError as error:
            refusal = (error.reason, error.message)
        finally:
            # Also after a defect, whose exception goes on: who asked should not have to wait for nothing.
            with contextlib.suppress(BusError, ValueError), translated("answer a request"):
                if refusal is None:
                    await request.respond(reply.data, headers)
                else:
                    await request.respond_error(refusal[0], refusal[1][:_LONGEST_WORDS])
