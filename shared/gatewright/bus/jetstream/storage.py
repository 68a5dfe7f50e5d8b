"""Storing one message in a JetStream stream so that it is there exactly once, also when the answer got lost.

Streams, the key-value bucket and the object store are all written through here. The rule: a publish carries a message id
and may carry the expected sequence of its subject. After silence it is sent again. The server drops a repeated id; where
it checks the expected sequence first and refuses, the last message is read back: ours means done, another's means conflict.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from gatewright.bus.identities import is_publisher
from gatewright.bus.jetstream.api import ApiReply, decode_reply, is_stream_full
from gatewright.bus.jetstream.connection import ANSWER_SECONDS, Connection, api_subject
from gatewright.bus.port import MESSAGE_ID_HEADER, NO_ANSWER, PublishAck
from gatewright.bus.topology import intake_publisher
from gatewright.errors import BusError, ConflictError
from gatewright.host_errors import BUS_FULL
from gatewright.reasons import REASONS

log = logging.getLogger(__name__)

_EXPECTED_HEADER = "Nats-Expected-Last-Subject-Sequence"
_EXPECTED_OF_HEADER = "Nats-Expected-Last-Subject-Sequence-Subject"
_STREAM_HEADER = "Nats-Expected-Stream"
#: Headers of a message that was read by direct get.
SUBJECT_HEADER = "Nats-Subject"
_SEQUENCE_HEADER = "Nats-Sequence"

#: "Wrong last sequence" and its constant form: another writer wrote under this subject.
_CONFLICTS = frozenset({"jetstream_10071", "jetstream_10164"})
_NO_MESSAGE = "jetstream_10037"


class _PubAck(ApiReply):
    stream: str = ""
    seq: int = 0
    duplicate: bool = False


class StoredMessage(msgspec.Struct, frozen=True):
    """A message as the stream's leader stores it; ``hdrs`` is the header block of the protocol.

    ``time``: when it was stored; None if unknown.
    """

    subject: str
    seq: int
    data: bytes = b""
    hdrs: bytes = b""
    time: datetime | None = None

    def headers(self) -> dict[str, str]:
        """The headers by their names; of one that is there twice, the first."""
        found: dict[str, str] = {}
        for line in self.hdrs.split(b"\r\n")[1:]:
            key, colon, value = line.decode("utf-8", "replace").partition(":")
            if colon:
                found.setdefault(key, value.strip())
        return found

    def header(self, name: str) -> str:
        """The value of a header, or ``""``."""
        return self.headers().get(name, "")


class MessageReply(ApiReply):
    """The answer to ``STREAM.MSG.GET``."""

    message: StoredMessage | None = None


class Storage:
    """Writes and reads single messages of streams. ``patience``: seconds until it gives up on a server that is away."""

    def __init__(self, connection: Connection, patience: float, states: StreamStates) -> None:
        self._connection = connection
        self._states = states
        self._patience = patience
        self._own_only = connection.credential is not None and is_publisher(connection.credential.identity)

    async def store(
        self,
        stream: str,
        subject: str,
        data: bytes,
        *,
        message_id: str,
        headers: Mapping[str, str] | None = None,
        expected: int | None = None,
        expected_of: str | None = None,
    ) -> PublishAck:
        """Store ``data`` under ``subject``, once. Raises ConflictError, and BusError when it may not have been stored.

        ``expected`` is the sequence of the last message of ``expected_of`` (default: ``subject``); 0: there is none.
        """
        header = {MESSAGE_ID_HEADER: message_id, _STREAM_HEADER: stream, **(headers or {})}
        if expected is not None:
            header[_EXPECTED_HEADER] = str(expected)
        if expected_of is not None:
            header[_EXPECTED_OF_HEADER] = expected_of
        try:
            ack = await self._connection.patiently(lambda: self._store_once(subject, data, header), self._patience)
        except BusError as error:
            publisher = intake_publisher(stream)
            if publisher is not None and is_stream_full(error):
                raise _queue_full(publisher, stream, error) from error
            if error.reason not in _CONFLICTS:
                self._states.failed(stream, error, connected=self._connection.connected)
                raise
        else:
            self._states.took(stream)
            if expected is None or not ack.duplicate:
                return ack
        last = await self.last(stream, subject)
        # The same id with other bytes was written by another process that numbers its messages alike.
        if last is not None and last.header(MESSAGE_ID_HEADER) == message_id and last.data == data:
            return PublishAck(stream, last.seq, duplicate=True)
        raise ConflictError(f"{subject} has moved on: its last message is {last.seq if last else 0}, not {expected}")

    async def last(self, stream: str, pattern: str) -> StoredMessage | None:
        """The last message under a subject or pattern, as the stream's leader knows it; None when there is none."""
        if self._own_only:
            return await self._direct(stream, pattern)
        return await self._get(stream, {"last_by_subj": pattern})

    async def _direct(self, stream: str, subject: str) -> StoredMessage | None:
        """Return the last message of a subject by direct get, the only read open to identities that read just their own data.

        Any server of the stream may answer; one that lags does not have the newest message.
        """
        call = f"DIRECT.GET.{stream}.{subject}"
        raw = await self._connection.patiently(
            lambda: self._connection.request(api_subject(call), b"", timeout=ANSWER_SECONDS), self._patience
        )
        found = raw.headers or {}
        if SUBJECT_HEADER not in found:
            return None
        lines = "".join(f"{name}: {value}\r\n" for name, value in found.items())
        return StoredMessage(found[SUBJECT_HEADER], int(found[_SEQUENCE_HEADER]), raw.data, f"NATS/1.0\r\n{lines}".encode())

    async def following(self, stream: str, subject: str, sequence: int) -> StoredMessage | None:
        """Return the first message under ``subject`` with a sequence of at least ``sequence``."""
        return await self._get(stream, {"seq": sequence, "next_by_subj": subject})

    async def at(self, stream: str, sequence: int) -> StoredMessage | None:
        """The message with this sequence; None when there is none, or no more."""
        return await self._get(stream, {"seq": sequence})

    async def remove(self, stream: str, sequence: int) -> None:
        """Delete one message; a missing one is no error. Raises BusError."""
        question = {"seq": sequence, "no_erase": True}
        try:
            await self._connection.patiently(
                lambda: self._connection.api(f"STREAM.MSG.DELETE.{stream}", question, ApiReply), self._patience
            )
        except BusError as error:
            if await self.at(stream, sequence) is not None:
                raise
            log.debug("message %d of %s no longer exists: %s", sequence, stream, error.message)

    async def _store_once(self, subject: str, data: bytes, header: Mapping[str, str]) -> PublishAck:
        answer = await self._connection.request(subject, data, header, timeout=ANSWER_SECONDS)
        ack = decode_reply(answer.data, _PubAck, f"a message under {subject}")
        return PublishAck(ack.stream, ack.seq, ack.duplicate)

    async def _get(self, stream: str, question: Mapping[str, object]) -> StoredMessage | None:
        try:
            reply = await self._connection.patiently(
                lambda: self._connection.api(f"STREAM.MSG.GET.{stream}", question, MessageReply), self._patience
            )
        except BusError as error:
            if error.reason == _NO_MESSAGE:
                return None
            raise
        return reply.message


def _queue_full(publisher: str, stream: str, error: BusError) -> BusError:
    """Return a publisher's own error for its full intake; it clears as the gatekeeper consumes, so it is no storage failure."""
    words = f"what {publisher} has left in its queue, and the gatekeeper has not taken yet, fills {stream}"
    return BusError(f"{words}: {REASONS['queue_full'].advice} ({error.message})", code="queue_full")


# The streams that currently accept no messages, as far as this process has seen from its own publishes.
# A stream that met a full disk does not answer publishes until its server restarts, even after space is freed. No call of the
# JetStream API reports this, so it is derived from the outcome of publishes. This module sends no requests.

#: Seconds after which a refusal is out of date. Silence lasts until the server restarts or accepts a message.
REFUSAL_HOLDS = 60.0


@dataclass(frozen=True, slots=True)
class _Failure:
    cause: str
    silent: bool
    at: float


@dataclass
class StreamStates:
    """``now``: monotonic seconds."""

    now: Callable[[], float]
    _failures: dict[str, _Failure] = field(default_factory=dict)

    def took(self, stream: str) -> None:
        """A message was stored, or found to be there."""
        self._failures.pop(stream, None)

    def failed(self, stream: str, error: BusError, *, connected: bool) -> None:
        """A message was not stored. ``connected``: the server was there, so silence was the stream's."""
        if error.reason == NO_ANSWER and connected:
            words = "takes no messages: look for a write error in the server's log, free disk space, restart the server"
            self._failures[stream] = _Failure(words, silent=True, at=self.now())
        elif error.reason == BUS_FULL:
            self._failures[stream] = _Failure(error.message, silent=False, at=self.now())

    def forget_states(self) -> None:
        """Forget all states: after a reconnect, they describe another server or the time before a restart."""
        self._failures.clear()

    def failing(self) -> dict[str, str]:
        """Stream -> what is wrong with it."""
        return {
            f"stream {name}": failure.cause
            for name, failure in self._failures.items()
            if failure.silent or self.now() < failure.at + REFUSAL_HOLDS
        }
