"""The bus on NATS JetStream, through nats-py; the modules that it is composed of document each part.

It creates no stream, consumer or bucket; ``setup.py`` does that first. It purges nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from dataclasses import replace as replaced
from typing import Self

from nats.aio.msg import Msg

from gatewright.bus.artifacts import digest_in
from gatewright.bus.identities import DEFAULT_PUBLISHER, WATCHER, BusAddress, Credential, is_publisher, publisher_of
from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.connection import PATIENCE_SECONDS, Connection, OnLost
from gatewright.bus.jetstream.deliveries import JetStreamSubscription
from gatewright.bus.jetstream.micro import Services
from gatewright.bus.jetstream.object_store import ArtifactStore
from gatewright.bus.jetstream.replay import replay
from gatewright.bus.jetstream.storage import Storage, StreamStates
from gatewright.bus.jetstream.watcher_replay import watcher_replay
from gatewright.bus.ledger_layout import LedgerLayout, Seen
from gatewright.bus.ledger_replay import ledger_replay
from gatewright.bus.listening import hear
from gatewright.bus.port import SCHEMA_HEADER, Handler, Listener, Message, PublishAck
from gatewright.bus.subjects import check_headers, check_key, check_pattern, check_schema, check_subject, header_id
from gatewright.bus.topology import LEDGER, LOCK_BUCKET, LOCK_STREAM, SHARED_STREAMS, Consumer, run_subject, stream_of
from gatewright.clock import Clock, SystemClock
from gatewright.errors import BusError


class JetStreamBus:
    """A connected bus; every foreign error leaves it as BusError, ConflictError, ArtifactError or MalformedError."""

    def __init__(self, connection: Connection, *, patience: float = PATIENCE_SECONDS, clock: Clock | None = None) -> None:
        self.connection = connection
        self.layout = LedgerLayout(connection.address.partitions)
        self._clock = clock or SystemClock()
        #: Whether this process has checked that the ledger has the configured number of streams.
        self._agreed = False
        #: The streams that were found to accept no messages.
        self.streams = StreamStates(self._clock.monotonic)
        connection.watch(self._note_state_change)
        self._storage = Storage(connection, patience, self.streams)
        self._artifacts = ArtifactStore(connection, self._storage, self._clock)
        self._services = Services(connection, self._clock)
        self._patience = patience

    @classmethod
    async def connect(
        cls, address: str | BusAddress, *, name: str, on_lost: OnLost | None = None, patience: float = PATIENCE_SECONDS
    ) -> Self:
        """Connect as ``name`` (a role, a command) to ``address``; its seed identifies this process to the server.

        Args:
            patience: seconds that this call, and later each single call, waits for a server that is away.
            on_lost: called once when the connection is closed for good, for example when its credential is no longer
                accepted. The process should then end.

        Raises:
            BusError: the server cannot be reached or refuses the credential.
            ConfigurationError: ``name`` cannot be part of a subject.
        """
        return cls(await Connection.open(address, name=name, on_lost=on_lost, patience=patience), patience=patience)

    @property
    def connected(self) -> bool:
        return self.connection.connected

    def _note_state_change(self) -> None:
        if self.connected:
            self.streams.forget_states()

    @property
    def publisher(self) -> str:
        """The publisher that this connection speaks for; the server holds it to the subjects of that name."""
        credential = self.connection.credential
        return (publisher_of(credential.identity) if credential else None) or DEFAULT_PUBLISHER

    @property
    def reads_ledger(self) -> bool:
        """Return whether the server lets this connection read the ledger."""
        credential = self.connection.credential
        return credential is None or not is_publisher(credential.identity)

    @property
    def may_request(self) -> bool:
        """Return whether the server lets this connection send requests; it refuses those of a watcher and logs each try."""
        credential = self.connection.credential
        return credential is None or credential.identity != WATCHER

    def report_facts(self, facts: Callable[[], Mapping[str, str]]) -> None:
        """Set the function that reports facts about this process, by name, when an operator lists processes."""
        self._services.facts = facts

    @property
    def process(self) -> str:
        return self._services.process

    def keyed_hashes(self, text: str) -> tuple[str, ...]:
        held = self.connection.present_credential() or Credential("", "")  # a server without identities keeps no clients apart
        return held.keyed_hashes(text)

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
        stream, expected = stream_of(check_subject(subject)), expected_subject_sequence
        credential = self.connection.credential
        if credential is not None and stream in SHARED_STREAMS:
            message_id = credential.private_id(message_id)
        runs = self.layout.stored_runs(subject)[0] if self._is_divided(stream) else None
        if runs is not None:
            stream, subject = runs.stream, runs.subject
            expected = None if expected is None else self.layout.sequence(expected)
        ack = await self._storage.store(
            stream,
            subject,
            data,
            message_id=header_id(message_id),
            headers={**check_headers(headers), SCHEMA_HEADER: check_schema(schema)},
            expected=expected,
        )
        return ack if runs is None else replaced(ack, sequence=self.layout.place(runs.partition, ack.sequence))

    async def consume(self, consumer: Consumer) -> JetStreamSubscription:
        call = f"CONSUMER.INFO.{consumer.stream}.{consumer.durable}"
        await self.connection.patiently(lambda: self.connection.api(call, {}, ApiReply), self._patience)
        return JetStreamSubscription(self.connection, consumer)

    def replay(self, subject: str, *, follow: bool = False, after: Seen = 0) -> AsyncGenerator[Message, None]:
        stream = stream_of(check_pattern(subject))
        if stream == LEDGER and not self._agreed:
            return self._agreed_replay(subject, follow=follow, after=after)
        if self._is_divided(stream):
            return ledger_replay(self.layout, subject, self._replay, follow=follow, after=after)
        return self._replay(stream, subject, follow=follow, after=LedgerLayout().last_sequences(after)[0])

    async def _agreed_replay(self, subject: str, *, follow: bool, after: Seen) -> AsyncGenerator[Message, None]:
        """Replay a subject after the first check of the ledger's layout, which a wrong number of partitions would make look
        empty.

        Raises ConfigurationError (``ledger_partitions_differ``).
        """
        begun = None
        with contextlib.suppress(BusError):  # the replay below reports the error
            begun = await self._storage.following(LEDGER, run_subject(">"), 1)
        if begun is not None:
            self.layout.check(begun.subject)
            self._agreed = True
        source = (
            ledger_replay(self.layout, subject, self._replay, follow=follow, after=after)
            if self.layout.partitions > 1
            else self._replay(LEDGER, subject, follow=follow, after=self.layout.last_sequences(after)[0])
        )
        async with contextlib.aclosing(source) as messages:
            async for message in messages:
                yield message

    def _is_divided(self, stream: str) -> bool:
        return stream == LEDGER and self.layout.partitions > 1

    def _replay(self, stream: str, subject: str, *, follow: bool, after: int) -> AsyncGenerator[Message, None]:
        if self.connection.guest:
            return watcher_replay(self.connection, self._storage, stream, subject, follow=follow, after=after)
        return replay(self.connection, stream, subject, follow=follow, after=after)

    async def unsettled(self, subject: str) -> AsyncGenerator[Message, None]:
        stream, seen = stream_of(check_pattern(subject)), 0
        while (stored := await self._storage.following(stream, subject, seen + 1)) is not None:
            seen = stored.seq
            yield Message(stored.subject, stored.data, stored.headers(), stored.seq)

    async def stored(self, stream: str, sequence: int) -> Message | None:
        if self._is_divided(stream):
            found = await self._storage.at(self.layout.stream_at(sequence), self.layout.sequence(sequence))
            return (
                None
                if found is None
                else Message(self.layout.logical_subject(found.subject), found.data, found.headers(), sequence)
            )
        found = await self._storage.at(stream, sequence)
        return None if found is None else Message(found.subject, found.data, found.headers(), found.seq)

    async def remove(self, stream: str, sequence: int) -> None:
        await self._storage.remove(stream, sequence)

    async def broadcast(self, subject: str, data: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        await self.connection.send(check_subject(subject), data, headers=check_headers(headers))

    async def listen(self, subject: str, listener: Listener) -> None:
        async def receive(raw: Msg) -> None:
            await hear(listener, Message(raw.subject, raw.data, raw.headers or {}))

        await self.connection.subscribe(check_pattern(subject), receive)
        await self.connection.flush()

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        schema: str,
        timeout: float,  # noqa: ASYNC109
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        return await self._services.request(subject, data, schema=schema, timeout=timeout, headers=headers)

    async def serve(
        self,
        service: str,
        endpoints: Mapping[str, Handler],
        *,
        waiting: Collection[str] = (),
        apart: Collection[Collection[str]] = (),
    ) -> None:
        await self._services.register(service, endpoints, waiting=waiting, apart=apart)

    async def another(self) -> JetStreamBus:
        return JetStreamBus(await self.connection.another(), patience=self._patience, clock=self._clock)

    async def put_artifact(self, data: bytes) -> str:
        return await self._artifacts.put(data)

    async def get_artifact(self, uri: str) -> bytes:
        return await self._artifacts.get(digest_in(uri))

    async def get_upload(self, uri: str, publisher: str) -> bytes:
        return await self._artifacts.read_upload(digest_in(uri), publisher)

    async def kv_get(self, key: str) -> tuple[bytes, int] | None:
        found = await self._storage.last(LOCK_STREAM, _key_subject(key))
        return None if found is None else (found.data, found.seq)

    async def kv_put(self, key: str, value: bytes, *, revision: int) -> int:
        subject = _key_subject(key)
        ack = await self._storage.store(LOCK_STREAM, subject, value, message_id=self.connection.unique(), expected=revision)
        return ack.sequence

    async def close(self) -> None:
        await self._services.close()
        await self.connection.close()


def _key_subject(key: str) -> str:
    return f"$KV.{LOCK_BUCKET}.{check_key(key)}"
