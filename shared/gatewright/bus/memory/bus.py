"""The in-memory bus of one process, for programs without a server: the rules of JetStream, nothing stored.

Each party connects its own MemoryBus to a shared MemoryServer. All of them run in one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Coroutine, Mapping
from dataclasses import replace
from typing import Any

from gatewright.artifacts import stored_uri
from gatewright.bus.artifacts import check_digest, digest_in, digest_of
from gatewright.bus.ledger_layout import LedgerLayout, Seen
from gatewright.bus.ledger_replay import ledger_replay
from gatewright.bus.listening import hear
from gatewright.bus.memory.server import Listening, MemoryServer, Offer
from gatewright.bus.memory.streams import MemoryQueue
from gatewright.bus.port import MESSAGE_ID_HEADER, SCHEMA_HEADER, Handler, Listener, Message, PublishAck
from gatewright.bus.service_record import ServiceRecord
from gatewright.bus.subjects import (
    check_headers,
    check_key,
    check_pattern,
    check_schema,
    check_service,
    check_size,
    check_subject,
    header_id,
    is_pattern,
    matches,
)
from gatewright.bus.topology import LEDGER, Consumer, stream_of
from gatewright.errors import ArtifactError, BusError, GatewrightError
from gatewright.version import __version__

__all__ = ["MemoryBus", "MemoryDelivery", "MemoryServer", "MemorySubscription"]

_PING = "$SRV.PING"


class MemoryDelivery:
    """One delivery. The first settlement applies; later settlements and progress reports do nothing."""

    def __init__(self, server: MemoryServer, queue: MemoryQueue, message: Message, attempts: int) -> None:
        self.message = message
        self.attempts = attempts
        self._server = server
        self._queue = queue
        self._settled = False

    async def ack(self) -> None:
        self._finish_handlers()

    async def term(self) -> None:
        self._finish_handlers()

    async def nak(self, delay: float = 0.0) -> None:
        if not self._settled:
            self._settled = True
            self._queue.postpone(self.message.sequence, delay)
            self._server.wake()

    async def in_progress(self) -> None:
        if not self._settled:
            self._queue.postpone(self.message.sequence, self._queue.config.ack_wait)

    def _finish_handlers(self) -> None:
        if not self._settled:
            self._settled = True
            self._queue.settle(self.message.sequence)
            self._server.wake()


class MemorySubscription:
    """A standing pull on a durable consumer."""

    def __init__(self, bus: MemoryBus, queue: MemoryQueue) -> None:
        self._bus = bus
        self._queue = queue

    async def next(self, timeout: float) -> MemoryDelivery | None:  # noqa: ASYNC109 - it bounds one wait
        server = self._bus.server
        deadline = server.clock.monotonic() + timeout
        while True:
            self._bus.check()
            taken = self._queue.take()
            if taken is not None:
                return MemoryDelivery(server, self._queue, *taken)
            now = server.clock.monotonic()
            if now >= deadline:
                return None
            await server.wait(max(0.0, min(deadline, self._queue.next_due()) - now))

    async def take(self) -> MemoryDelivery | None:
        self._bus.check()
        taken = self._queue.take()
        return None if taken is None else MemoryDelivery(self._bus.server, self._queue, *taken)

    async def close(self) -> None:
        """Do nothing: no message is in flight between two calls of ``next``."""


class MemoryBus:
    """A bus connected to a MemoryServer."""

    def __init__(self, server: MemoryServer) -> None:
        self.server = server
        self.layout = server.layout
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: list[Listening] = []
        self._offers: list[Offer] = []

    @property
    def connected(self) -> bool:
        return not self._closed

    def check(self) -> None:
        """Raise BusError when the bus is closed."""
        if self._closed:
            raise BusError("the bus connection is closed")

    @property
    def process(self) -> str:
        return self._offers[0].process if self._offers else ""

    def keyed_hashes(self, text: str) -> tuple[str, ...]:
        return self.server.credential.keyed_hashes(text)

    async def publish(
        self,
        subject: str,
        data: bytes,
        *,
        schema: str,
        message_id: str,
        expected_subject_sequence: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> PublishAck:
        self.check()
        header = {**check_headers(headers), MESSAGE_ID_HEADER: header_id(message_id), SCHEMA_HEADER: check_schema(schema)}
        layout, expected = self.layout, expected_subject_sequence
        if self._is_divided(stream_of(check_subject(subject))):
            runs = layout.stored_runs(subject)[0]
            last = None if expected is None else layout.sequence(expected)
            ack = self.server.stream_named(runs.stream).append(runs.subject, check_size(data), header, last)
            ack = replace(ack, sequence=layout.place(runs.partition, ack.sequence))
        else:
            ack = self.server.stream(subject).append(subject, check_size(data), header, expected)
        self.server.wake()
        return ack

    async def consume(self, consumer: Consumer) -> MemorySubscription:
        self.check()
        return MemorySubscription(self, self.server.queue(consumer))

    def replay(self, subject: str, *, follow: bool = False, after: Seen = 0) -> AsyncGenerator[Message, None]:
        if self._is_divided(stream_of(check_pattern(subject))):
            return ledger_replay(self.layout, subject, self._replay, follow=follow, after=after)
        name = self.server.stream(subject).config.name
        return self._replay(name, subject, follow=follow, after=LedgerLayout().last_sequences(after)[0])

    def _is_divided(self, stream: str) -> bool:
        return stream == LEDGER and self.layout.partitions > 1

    async def _replay(self, stream: str, subject: str, *, follow: bool, after: int) -> AsyncGenerator[Message, None]:
        self.check()
        kept = self.server.stream_named(stream)
        position = after
        while True:
            end = kept.last_sequence
            for message in kept.after(position, subject):
                if message.sequence > end:
                    break
                yield message
                self.check()
            position = end
            if not follow:
                return
            if kept.last_sequence == position:
                await self.server.wait()
                self.check()

    async def unsettled(self, subject: str) -> AsyncGenerator[Message, None]:
        self.check()
        for message in tuple(self.server.stream(check_pattern(subject)).after(0, subject)):
            yield message

    async def stored(self, stream: str, sequence: int) -> Message | None:
        self.check()
        if self._is_divided(stream):
            found = self.server.stream_named(self.layout.stream_at(sequence)).get(self.layout.sequence(sequence))
            return (
                None if found is None else replace(found, subject=self.layout.logical_subject(found.subject), sequence=sequence)
            )
        return self.server.stream_named(stream).get(sequence)

    async def remove(self, stream: str, sequence: int) -> None:
        self.check()
        self.server.stream_named(stream).settle(sequence)

    async def broadcast(self, subject: str, data: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        self.check()
        self.server.send(Message(check_subject(subject), check_size(data), check_headers(headers)))

    async def listen(self, subject: str, listener: Listener) -> None:
        self.check()
        one = Listening(check_pattern(subject), asyncio.Queue())
        self.server.listening.add(one)
        self._listening.append(one)
        self._start(_hand_on(one.inbox, listener))

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        schema: str,
        timeout: float,  # noqa: ASYNC109
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        self.check()
        sent = check_headers(headers) | ({SCHEMA_HEADER: check_schema(schema)} if schema else {})
        if subject.startswith(_PING):
            return self._ping(subject)
        for offer in self.server.offers:
            handler = next((each for pattern, each in offer.endpoints.items() if matches(pattern, subject)), None)
            if handler is not None:
                answer: asyncio.Future[Message | BusError] = asyncio.get_running_loop().create_future()
                question = Message(check_subject(subject), check_size(data), sent)
                offer.start(_handle_question(handler, question, answer))
                return await _await_reply(answer, subject, timeout)
        raise BusError(f"request on {subject}: no process answers", code="bus_no_responders")

    async def serve(
        self,
        service: str,
        endpoints: Mapping[str, Handler],
        *,
        waiting: Collection[str] = (),  # noqa: ARG002 - the port's
        apart: Collection[Collection[str]] = (),  # noqa: ARG002
    ) -> None:
        self.check()
        checked_endpoints = {check_pattern(subject): handler for subject, handler in endpoints.items()}
        exact_first = dict(sorted(checked_endpoints.items(), key=lambda endpoint: is_pattern(endpoint[0])))
        offer = Offer(check_service(service), exact_first, self._start)
        self.server.offers.append(offer)
        self._offers.append(offer)

    async def another(self) -> MemoryBus:
        self.check()
        return MemoryBus(self.server)

    async def put_artifact(self, data: bytes) -> str:
        self.check()
        digest = digest_of(data)
        self.server.artifacts[digest] = data
        return stored_uri(digest)

    async def get_artifact(self, uri: str) -> bytes:
        self.check()
        digest = digest_in(uri)
        if digest not in self.server.artifacts:
            raise ArtifactError(f"there is no {uri}", code="artifact_missing")
        return check_digest(digest, self.server.artifacts[digest])

    async def get_upload(self, uri: str, publisher: str) -> bytes:  # noqa: ARG002 - the port's
        """Return an artifact that any party stored: the in-memory bus has no identities."""
        return await self.get_artifact(uri)

    async def kv_get(self, key: str) -> tuple[bytes, int] | None:
        self.check()
        return self.server.lock(check_key(key))

    async def kv_put(self, key: str, value: bytes, *, revision: int) -> int:
        self.check()
        return self.server.set_lock(check_key(key), check_size(value), revision)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.server.listening.difference_update(self._listening)
        self.server.offers = [offer for offer in self.server.offers if offer not in self._offers]
        self.server.wake()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _ping(self, subject: str) -> Message:
        wanted = subject.removeprefix(_PING).removeprefix(".")
        for offer in self.server.offers:
            if wanted in ("", offer.service):
                return Message(subject, ServiceRecord(offer.service, offer.process, __version__, "", []).answer("PING"))
        raise BusError(f"request on {subject}: no process answers", code="bus_no_responders")


async def _hand_on(inbox: asyncio.Queue[Message], listener: Listener) -> None:
    while True:
        await hear(listener, await inbox.get())


async def _handle_question(handler: Handler, question: Message, answer: asyncio.Future[Message | BusError]) -> None:
    outcome: Message | BusError = BusError("the service failed; see its log", code="internal_error")
    try:
        reply = await handler(question)
        outcome = Message(question.subject, check_size(reply.data), {SCHEMA_HEADER: check_schema(reply.schema)})
    except GatewrightError as error:
        outcome = BusError(error.message, code=error.reason)
    finally:
        # Also after a defect, whose exception propagates.
        if not answer.done():
            answer.set_result(outcome)


async def _await_reply(answer: asyncio.Future[Message | BusError], subject: str, seconds: float) -> Message:
    try:
        async with asyncio.timeout(seconds):
            outcome = await answer
    except TimeoutError:
        raise BusError(f"request on {subject}: no answer in time", code="bus_no_answer") from None
    if isinstance(outcome, BusError):
        raise outcome
    return outcome
