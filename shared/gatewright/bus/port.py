"""The port: everything that Gatewright needs from a message bus.

Two implementations ship: JetStream (``jetstream``) and in-memory (``memory``); one conformance suite runs on both. Nothing
outside ``gatewright.bus`` imports the NATS client. Every method raises BusError when the bus cannot serve.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from gatewright.bus.ledger_layout import LedgerLayout, Seen
from gatewright.bus.topology import Consumer

#: Header that names the schema of the payload: ``task_contract.v1``.
SCHEMA_HEADER = "Gw-Schema"
MESSAGE_ID_HEADER = "Nats-Msg-Id"
TRACE_HEADER = "traceparent"
#: Given out with a task; its answer brings it back.
TASK_TOKEN_HEADER = "Gw-Task-Token"  # noqa: S105 - the name of a header
#: Header of a task: the publisher that submitted its run, which answers its agents' requests.
PUBLISHER_HEADER = "Gw-Publisher"
#: Header of a task whose agents put requests to the people of a rule instead of the publisher: the name of that rule.
LEAVE_HEADER = "Gw-Leave"
#: Header of a task: seconds between the claims of the process that handles it; without it no claims are sent.
BEAT_HEADER = "Gw-Beat"
#: Names the run of a document without its own key. Unlike with ``Nats-Msg-Id``, the server ignores it.
KEY_HEADER = "Gw-Idempotency-Key"

#: Reasons (``error.reason``) that callers distinguish. No answer: the request may or may not have been carried out.
NO_ANSWER: Final = "bus_no_answer"
NO_RESPONDERS: Final = "bus_no_responders"

Handler = Callable[["Message"], Awaitable["Reply"]]
Listener = Callable[["Message"], Awaitable[None]]


def size_of_headers(headers: Mapping[str, str]) -> int:
    """Bytes of headers: each is a line with a colon, a space and an end of two bytes."""
    return sum(len(name) + len(value) + 4 for name, value in headers.items())


@dataclass(frozen=True, slots=True)
class Message:
    """A received message. ``sequence``: its position in the stream or partitioned ledger (0 outside streams).

    ``stored_at``: when the server stored it, in seconds since 1970; 0 if unknown.
    """

    subject: str
    data: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    sequence: int = 0
    stored_at: float = 0.0

    @property
    def header_bytes(self) -> int:
        """Bytes of all headers, as they travel."""
        return size_of_headers(self.headers)

    @property
    def size(self) -> int:
        """Bytes of the document and of all headers."""
        return len(self.data) + self.header_bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a request: a payload and the schema that it keeps."""

    data: bytes
    schema: str


class Delivery(Protocol):
    """A message of a work queue, ours until it is settled or ``ack_wait`` runs out."""

    @property
    def message(self) -> Message: ...

    @property
    def attempts(self) -> int:
        """Return the number of deliveries, this one included (1 = first)."""

    async def ack(self) -> None:
        """Done; never deliver again."""

    async def nak(self, delay: float = 0.0) -> None:
        """Deliver again after ``delay`` seconds."""

    async def term(self) -> None:
        """Never deliver again, although it was not done (after dead-lettering)."""

    async def in_progress(self) -> None:
        """Report progress: start ``ack_wait`` again."""


@dataclass(frozen=True, slots=True)
class PublishAck:
    stream: str
    sequence: int
    duplicate: bool


class Subscription(Protocol):
    """A standing pull on a durable consumer; it recovers after a reconnect or a silent server.

    A message that arrives while no task waits in ``next`` is returned to the queue within a moment, unless one asks first.
    """

    async def next(self, timeout: float) -> Delivery | None:  # noqa: ASYNC109 - it bounds one poll, not the caller's work
        """The next delivery, or None when none came within ``timeout`` seconds."""

    async def take(self) -> Delivery | None:
        """Return a delivery that is in the queue now, or None; leave no request open."""

    async def close(self) -> None:
        """Stop, and give back what came and was not taken."""


class Bus(Protocol):
    """A connected bus."""

    @property
    def connected(self) -> bool:
        """Return whether the server is connected now (for a readiness probe)."""

    @property
    def layout(self) -> LedgerLayout:
        """Return the layout of the ledger's streams."""

    @property
    def process(self) -> str:
        """Return the id under which this process reports itself to operators; empty while it serves nothing."""

    def keyed_hashes(self, text: str) -> tuple[str, ...]:
        """64 hexadecimal digits that only connections with the same credential can make of ``text``.

        The first is the one to give out; where the credential's key was replaced, that of the other key is accepted too.
        """

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
        """Store a message durably, with ``headers`` in addition to those of schema and message id.

        Args:
            message_id: a second publish with the same id within the dedupe window is acknowledged as a duplicate.
            expected_subject_sequence: the stream sequence of the subject's last message (0: none yet).

        Raises:
            ConflictError: the subject's last message has another sequence.
        """

    async def consume(self, consumer: Consumer) -> Subscription:
        """Start to pull from a durable consumer of the topology, one delivery at a time."""

    def replay(self, subject: str, *, follow: bool = False, after: Seen = 0) -> AsyncGenerator[Message, None]:
        """Yield stored messages of a subject (``*`` and ``>`` allowed) in order; with ``follow``, continue with new ones.

        Only messages beyond ``after``: a sequence, or for a partitioned ledger the last position in each stream. Without
        ``follow`` it ends with the last message that existed at the start. Leave it early through ``aclose``.
        """

    def unsettled(self, subject: str) -> AsyncGenerator[Message, None]:
        """Yield the unsettled messages of a work queue under a subject (``*`` and ``>`` allowed); take none."""

    async def stored(self, stream: str, sequence: int) -> Message | None:
        """The message at a place of a stream, or None; it is not taken."""

    async def remove(self, stream: str, sequence: int) -> None:
        """Remove a message from a work queue without delivering it; a missing one is no error."""

    async def broadcast(self, subject: str, data: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        """Send to all current listeners; nothing is stored."""

    async def listen(self, subject: str, listener: Listener) -> None:
        """Call ``listener`` for every broadcast from now on."""

    async def request(
        self,
        subject: str,
        data: bytes,
        *,
        schema: str,
        timeout: float,  # noqa: ASYNC109
        headers: Mapping[str, str] | None = None,
    ) -> Message:
        """Send a request to a service and return its answer; raises BusError if none arrives within ``timeout`` seconds."""

    async def serve(
        self,
        service: str,
        endpoints: Mapping[str, Handler],
        *,
        waiting: Collection[str] = (),
        apart: Collection[Collection[str]] = (),
    ) -> None:
        """Register a NATS micro service (``$SRV.PING``) with one handler per endpoint subject or pattern; may be empty.

        A pattern with a trailing wildcard serves the subjects that no exact endpoint serves.

        Args:
            waiting: endpoints whose handlers mostly wait; many more of their requests run concurrently.
            apart: groups of endpoints that each get a connection of their own, so that a party that floods one of them
                loses only
                its own requests.
        """

    async def another(self) -> Bus:
        """Open another connection with the same rights, so that other traffic cannot displace its messages; the caller closes
        it."""

    async def put_artifact(self, data: bytes) -> str:
        """Store bytes under their sha256; returns the URI ``artifact:sha256:<hex>``. Putting twice is harmless."""

    async def get_artifact(self, uri: str) -> bytes:
        """The bytes of ``artifact:sha256:<hex>``, digest checked. Raises ArtifactError."""

    async def get_upload(self, uri: str, publisher: str) -> bytes:
        """The same, as this publisher stored it; what others stored is not there. For gatekeepers."""

    async def kv_get(self, key: str) -> tuple[bytes, int] | None:
        """Value and revision of a key of the locks bucket, or None."""

    async def kv_put(self, key: str, value: bytes, *, revision: int) -> int:
        """Compare-and-set (revision 0: create); returns the new revision. Raises ConflictError."""

    async def close(self) -> None:
        """Drain and disconnect. Safe to call twice."""
