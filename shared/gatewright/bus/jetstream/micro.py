"""Request and reply by the NATS services protocol, which ``nats micro ls`` lists, and the encoding of refusals.

Gatewright implements the protocol itself: the client's ``micro`` module replies to any subject that a request names, so a
requester could make the gatekeeper write its reply into the ledger. This module replies to inboxes only.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from nats.aio.msg import Msg

from gatewright.bus.jetstream.connection import Connection, Receiver
from gatewright.bus.jetstream.starting import repeat_until_answered
from gatewright.bus.port import SCHEMA_HEADER, Handler, Message, Reply, size_of_headers
from gatewright.bus.service_record import QUEUE_GROUP, EndpointRecord, ServiceRecord
from gatewright.bus.subjects import check_headers, check_pattern, check_schema, check_service, check_subject, is_pattern
from gatewright.clock import Clock, timestamp
from gatewright.errors import BusError, GatewrightError
from gatewright.version import __version__

log = logging.getLogger(__name__)

#: Requests of one endpoint that are worked on at the same time; the others wait.
CONCURRENT_REQUESTS = 32
#: Concurrent requests of an endpoint whose requests mostly wait.
PATIENT_REQUESTS = 4096
#: Requests of one endpoint that wait for their turn; more are refused.
WAITING_REQUESTS = 1024
#: Bytes of all requests of one connection that are worked on or wait: eight of the largest.
HELD_BYTES = 64 << 20
#: A pattern has its own group: it also receives messages of an exact endpoint, and ignores them.
_REST_GROUP = f"{QUEUE_GROUP}-rest"

_ERROR_HEADER = "Nats-Service-Error"
_CODE_HEADER = "Nats-Service-Error-Code"
_LONGEST_WORDS = 1000
#: An inbox, or the server's reply subject for a requester in another account.
_INBOX = re.compile(r"(_INBOX[A-Za-z0-9_-]*|_R_)\.")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_VERBS = ("PING", "INFO", "STATS")


class Services:
    """The services that one connection offers, and its questions to those of others."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._apart: list[Connection] = []
        #: The facts that this process reports to operators.
        self.facts: Callable[[], Mapping[str, str]] = dict
        #: The id that it reports them under; empty while it serves nothing.
        self.process = ""

    async def register(
        self,
        service: str,
        endpoints: Mapping[str, Handler],
        *,
        waiting: Collection[str] = (),
        apart: Collection[Collection[str]] = (),
    ) -> None:
        """Serve ``endpoints`` (subject or pattern to handler) as ``service``.

        ``waiting`` and ``apart``: see the port. Raises BusError, ConfigurationError.
        """
        records = {subject: _record(check_pattern(subject)) for subject in endpoints}
        started = timestamp(self._clock.now())
        credential = self._connection.credential
        record = ServiceRecord(
            *(check_service(service), self._connection.unique(), __version__, started, list(records.values())),
            identity=credential.identity if credential else "",
            facts=self.facts,
        )
        self.process = record.id
        together = set(endpoints).difference(*apart)
        all_served = [_ServedConnection(self._connection, sorted(together))]
        for group in apart:
            served = _ServedConnection(
                await repeat_until_answered(self._connection.another, useless=self._is_lost), sorted(group)
            )
            self._apart.append(served.connection)
            served.connection.watch(served.log_cut)
            all_served.append(served)
        for served in all_served:
            for subject in served.subjects:
                most = PATIENT_REQUESTS if subject in waiting else CONCURRENT_REQUESTS
                left = frozenset(endpoints) if is_pattern(subject) else frozenset()
                receiver = self._side_by_side(endpoints[subject], records[subject], most, served, left)
                await served.connection.subscribe(subject, receiver, queue=records[subject].queue_group)
            await repeat_until_answered(served.connection.flush, useless=self._is_lost)
        for verb in _VERBS:
            for name in ("", f".{service}", f".{service}.{record.id}"):
                await self._connection.subscribe(f"$SRV.{verb}{name}", self._presenter(record, verb))
        await repeat_until_answered(self._connection.flush, useless=self._is_lost)

    def _is_lost(self) -> bool:
        return self._connection.lost

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        schema: str,
        timeout: float,  # noqa: ASYNC109
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        """Ask; the answer of a handler that refused raises BusError with the refusal's reason."""
        sent = check_headers(headers) | ({SCHEMA_HEADER: check_schema(schema)} if schema else {})
        raw = await self._connection.request(check_subject(subject), data, sent, timeout=timeout, survives_reconnect=True)
        answer = raw.headers or {}
        if _ERROR_HEADER in answer:
            raise BusError(answer[_ERROR_HEADER], code=answer.get(_CODE_HEADER) or BusError.code)
        return Message(subject, raw.data, answer)

    async def close(self) -> None:
        """Cancel running and queued requests; each requester receives a refusal."""
        await asyncio.sleep(0)  # a task that has not started could not send its refusal
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.gather(*(connection.close() for connection in self._apart))

    def _presenter(self, record: ServiceRecord, verb: str) -> Receiver:
        async def present(message: Msg) -> None:
            await _reply(self._connection, message, record.answer(verb), {})

        return present

    def _side_by_side(
        self, handler: Handler, record: EndpointRecord, most: int, served: _ServedConnection, left: Collection[str]
    ) -> Receiver:
        """Return a receiver that runs requests concurrently, so that a slow one does not delay the others.

        Every request gets an answer: queued requests when the service closes, and one beyond the limit immediately. The
        receiver ignores subjects in ``left``; another endpoint serves them.
        """
        places = asyncio.Semaphore(most)
        running: set[asyncio.Task[None]] = set()

        async def in_turn(message: Msg) -> None:
            try:
                await places.acquire()
            except asyncio.CancelledError:
                words = "the service is being stopped; ask again"
                await _send_error(served.connection, message, record, 0.0, "service_stopping", words)
                raise
            try:
                await self._handle_request(handler, record, message, served.connection)
            finally:
                places.release()

        async def start(message: Msg) -> None:
            if message.subject in left:
                return
            size = len(message.data) + size_of_headers(message.headers or {}) + len(message.reply)
            if len(running) >= most + WAITING_REQUESTS or served.held + size > HELD_BYTES:
                words = f"{len(running)} requests with {served.held} bytes are already being handled; try again"
                await _send_error(served.connection, message, record, 0.0, "service_busy", words)
                return
            task = asyncio.get_running_loop().create_task(in_turn(message))
            running.add(task)
            self._tasks.add(task)
            served.hold(size, task)
            task.add_done_callback(running.discard)
            task.add_done_callback(self._tasks.discard)

        return start

    async def _handle_request(self, handler: Handler, record: EndpointRecord, message: Msg, connection: Connection) -> None:
        start = self._clock.monotonic()
        code, words = GatewrightError.code, "the service failed; see its log"
        reply: Reply | None = None
        try:
            answer = await handler(Message(message.subject, message.data, message.headers or {}))
            check_schema(answer.schema)
            connection.check_size(answer.data)
            reply = answer
        except GatewrightError as error:
            code, words = error.reason, error.message[:_LONGEST_WORDS]
        finally:
            # Also after a defect, whose exception propagates: the requester must not wait in vain.
            if reply is not None:
                record.count(self._clock.monotonic() - start)
                await _reply(connection, message, reply.data, {SCHEMA_HEADER: reply.schema})
            else:
                await _send_error(connection, message, record, self._clock.monotonic() - start, code, words)


@dataclass
class _ServedConnection:
    """A connection, the endpoints that it serves, and the bytes of the requests being handled."""

    connection: Connection
    subjects: Sequence[str]
    held: int = 0
    cuts: int = 0

    def hold(self, size: int, task: asyncio.Task[None]) -> None:
        self.held += size
        task.add_done_callback(lambda _: self._let_go(size))

    def _let_go(self, size: int) -> None:
        self.held -= size

    def log_cut(self) -> None:
        """Log that the server cut the connection, because requests in flight are lost without any other sign."""
        if self.connection.connected:
            self.cuts += 1
            words = "bus: the server interrupted the connection for %s (%d times so far): requests that come too fast are lost"
            log.warning(words, ", ".join(self.subjects), self.cuts)


async def _send_error(
    connection: Connection, message: Msg, record: EndpointRecord, seconds: float, code: str, words: str
) -> None:
    record.count(seconds, code)
    await _reply(connection, message, b"", {_CODE_HEADER: code, _ERROR_HEADER: words})


async def _reply(connection: Connection, message: Msg, data: bytes, headers: Mapping[str, str]) -> None:
    if _INBOX.match(message.reply):
        with contextlib.suppress(BusError):
            await connection.send(message.reply, data, headers=headers)


def _record(subject: str) -> EndpointRecord:
    return EndpointRecord(_endpoint_name(subject), subject, _REST_GROUP if is_pattern(subject) else QUEUE_GROUP)


def _endpoint_name(pattern: str) -> str:
    """Return an endpoint's name for listings, which allow neither dots nor wildcards."""
    return pattern.replace(".", "-").replace("*", "each").replace(">", "all")
