"""The port: all that Gatewright needs from a message bus, in its own words.

Two implementations ship: JetStream (``jetstream``) and in-memory (``memory``); one conformance suite runs on both.
Nothing outside ``gatewright.bus`` imports the NATS client. Every method raises BusError when the bus cannot serve.
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
#: Goes with a task: the publisher that submitted its run, whom its agents may ask.
PUBLISHER_HEADER = "Gw-Publisher"
#: Goes with a task whose agents ask the people of a rule, and not the publisher: the name of that rule.
LEAVE_HEADER = "Gw-Leave"
#: Goes with a task: the seconds of the beat in which the process that has it in hand claims so; without it nothing is claimed.
BEAT_HEADER = "Gw-Beat"
#: Names the run of a document that has no key of its own. Unlike ``Nats-Msg-Id``, the server does not look at it.
KEY_HEADER = "Gw-Idempotency-Key"

#: Reasons (``error.reason``) that callers tell apart. No answer: it may or may not have been done.
NO_ANSWER: Final = "bus_no_answer"
NO_RESPONDERS: Final = "bus_no_responders"

Handler = Callable[["Message"], Awaitable["Reply"]]
Listener = Callable[["Message"], Awaitable[None]]


def size_of_headers(headers: Mapping[str, str]) -> int:
    """Bytes of headers: each is a line with a colon, a space and an end of two bytes."""
    return sum(len(name) + len(value) + 4 for name, value in headers.items())


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it came: ``sequence`` is its place in the stream (0 outside streams), or in a ledger of several.

    ``stored_at``: when the server stored it, in seconds since 1970; 0 where that is not told.
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
        """How often it has been delivered, this time included (1 = first)."""

    async def ack(self) -> None:
        """Done; never deliver again."""

    async def nak(self, delay: float = 0.0) -> None:
        """Deliver again after ``delay`` seconds."""

    async def term(self) -> None:
        """Never deliver again, although it was not done (after dead-lettering)."""

    async def in_progress(self) -> None:
        """Still at work: start ``ack_wait`` anew."""


@dataclass(frozen=True, slots=True)
class PublishAck:
    stream: str
    sequence: int
    duplicate: bool


class Subscription(Protocol):
    """A standing pull on a durable consumer; re-created by itself after a reconnect or a silent server.

    What comes while no task waits in ``next`` is given back within a moment, unless one comes for it before.
    """

    async def next(self, timeout: float) -> Delivery | None:  # noqa: ASYNC109 - it bounds one poll, not the caller's work
        """The next delivery, or None when none came within ``timeout`` seconds."""

    async def take(self) -> Delivery | None:
        """What is in the queue at this moment, or None; it waits for no message to come, and lets none be sent later."""

    async def close(self) -> None:
        """Stop, and give back what came and was not taken."""


class Bus(Protocol):
    """A connected bus."""

    @property
    def connected(self) -> bool:
        """Whether the server is there at this moment (for a readiness probe)."""

    @property
    def layout(self) -> LedgerLayout:
        """In how many streams the ledger lies."""

    @property
    def process(self) -> str:
        """The id under which this process answers operators that ask for it; empty while it serves nothing."""

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
        """Store a message durably; ``headers`` go with it beside those of schema and message id.

        A second publish with the same ``message_id`` within the dedupe window is acknowledged as a duplicate.
        ``expected_subject_sequence`` is the stream sequence of the subject's last message (0: none yet);
        raises ConflictError when it is another one.
        """

    async def consume(self, consumer: Consumer) -> Subscription:
        """Start to pull from a durable consumer of the topology, one delivery at a time."""

    def replay(self, subject: str, *, follow: bool = False, after: Seen = 0) -> AsyncGenerator[Message, None]:
        """Stored messages of a subject (``*`` and ``>`` allowed) in order; with ``follow`` it goes on with new ones.

        Only those beyond ``after``: a sequence, or of a ledger in several streams the last place in each. Without ``follow`` it
        ends with the last message that existed at the start. Leave it early through ``aclose``.
        """

    def unsettled(self, subject: str) -> AsyncGenerator[Message, None]:
        """What lies in a work queue under a subject (``*`` and ``>`` allowed), waiting or in hand; nothing is taken."""

    async def stored(self, stream: str, sequence: int) -> Message | None:
        """The message at a place of a stream, or None; it is not taken."""

    async def remove(self, stream: str, sequence: int) -> None:
        """Take a message out of a work queue without its being delivered; nothing happens when it is gone."""

    async def broadcast(self, subject: str, data: bytes, *, headers: Mapping[str, str] | None = None) -> None:
        """Send to all who listen now; nothing is stored."""

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
        """Ask a service and wait for its answer; raises BusError when none comes within ``timeout`` seconds."""

    async def serve(
        self,
        service: str,
        endpoints: Mapping[str, Handler],
        *,
        waiting: Collection[str] = (),
        apart: Collection[Collection[str]] = (),
    ) -> None:
        """Register a NATS micro service (``$SRV.PING``) with one handler per endpoint subject or pattern; may be empty.

        A pattern, whose subjects name it last, answers what no endpoint of its own does.
        ``waiting``: the endpoints whose handlers do little but wait; many more of their requests are in hand at a time.
        ``apart``: groups of endpoints, each of which is heard by a connection of its own: a party that sends more there than
        can be read loses what is its own, and no other party loses anything.
        """

    async def another(self) -> Bus:
        """One more connection with the same rights, for what must not be lost in what others send; the caller closes it."""

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
