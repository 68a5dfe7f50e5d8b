"""One connection to a NATS server: how long calls wait for it, and what happens when it is lost.

It offers requests, subscriptions and the JetStream API as JSON; the modules beside it use them. It reconnects for ever.
When it is closed for good (the credential was refused), every waiting call fails and ``on_lost`` is called.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import nats.errors
import nkeys  # noqa: F401 - the client imports it only when it connects, in every role again
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from gatewright.bus import identities
from gatewright.bus.identities import BusAddress, Credential
from gatewright.bus.jetstream.api import ReplyT, decode_reply, translate_errors
from gatewright.bus.ledger_replay import cancel_until_done
from gatewright.bus.permissions import API_PREFIX
from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS
from gatewright.bus.subjects import check_service, check_size
from gatewright.clock import SystemClock, timestamp
from gatewright.errors import BusError, ConfigurationError

log = logging.getLogger(__name__)

#: Called once, with the cause, when the connection is closed for good.
OnLost = Callable[[BusError], None]
Receiver = Callable[[Msg], Awaitable[None]]

#: Seconds that one request may take, and that a call keeps trying while the server is away.
ANSWER_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 10.0

#: Reason of an error: the server knows no such identity, or knows it no more.
REFUSED: Final = "credential_refused"

_RECONNECT_WAIT = 0.1
_PAUSE_SECONDS = 0.05
_PING_SECONDS = 2
_FLUSH_SECONDS = 5
_PENDING_BYTES = 32 * 1024 * 1024
_REFUSED = re.compile("authorization violation|authentication (expired|revoked)", re.IGNORECASE)  # noqa: TID251 - the server's own words

Result = TypeVar("Result")


class Connection:
    """A NATS connection under a role's name. Make it with ``open``."""

    def __init__(self, name: str, on_lost: OnLost | None, address: BusAddress, credential: Credential | None = None) -> None:
        self.name = name
        self.address = address
        self.credential = credential
        self.client = Client()
        #: When the connection was lost (RFC 3339); empty while connected.
        self.away_since = ""
        #: Whether to abandon pending work instead of finishing it, because the process is interrupted.
        self.hurried = False
        self._on_lost = on_lost
        self._opened = False
        self._closing = False
        self._goodbye: asyncio.Task[None] | None = None
        self._lost: BusError | None = None
        self._complaint = ""
        #: The credential that the file held when last read, and the identity of that file.
        self._file_held: Credential | None = None
        self._file_read: tuple[int, int, int] | None = None
        self._up = asyncio.Event()
        self._watchers: set[Callable[[], None]] = set()
        self._open_requests: set[asyncio.Timeout] = set()

    @classmethod
    async def open(
        cls,
        address: str | BusAddress,
        *,
        name: str,
        on_lost: OnLost | None = None,
        patience: float = PATIENCE_SECONDS,
        credential: Credential | None = None,
    ) -> Connection:
        """Connect to an address or a URL (``nats://host:port``, several separated by commas).

        Args:
            patience: seconds to wait for the server.
            credential: replaces the credential of the address.

        Raises:
            BusError: no server answered in time, or, immediately, the credential is refused (``credential_refused``).
            ConfigurationError: ``name`` cannot name an inbox, or a file of the address cannot be used.
        """
        address = BusAddress(address) if isinstance(address, str) else address
        url = address.url
        held = credential or (identities.load(address.seed) if address.seed else None)
        self = cls(check_service(name), on_lost, address, held)
        trust = _trust(address.ca) if address.ca else None
        attempt = asyncio.create_task(self._connect(url, trust))
        try:
            await asyncio.wait({attempt}, timeout=patience)
            if not attempt.done():
                raise BusError(f"cannot reach a NATS server at {public_address(url)}{self._because()}")
            with translate_errors(f"cannot connect to {public_address(url)}"):
                await attempt
            self._opened = True
        finally:
            if not self._opened:
                await cancel_until_done([attempt])
                await self._disconnect()
        self._up.set()
        return self

    def present_credential(self) -> Credential | None:
        """The credential as its file holds it now; where that cannot be read, as it was read last.

        An operator replaces the key, and ends its replacement, while processes run.
        """
        file = self.address.seed
        if file is not None:
            with contextlib.suppress(OSError, ConfigurationError):
                facts = file.stat()
                changed = (facts.st_mtime_ns, facts.st_ino, facts.st_size)
                if changed != self._file_read:
                    self._file_held, self._file_read = identities.load(file), changed
        return self._file_held or self.credential

    async def _connect(self, url: str, trust: ssl.SSLContext | None) -> None:
        credential = self.credential
        await self.client.connect(
            servers=[part.strip() for part in url.split(",")],
            name=self.name,
            nkeys_seed_str=credential.seed if credential and not credential.token else None,
            user_jwt_cb=credential.token.encode if credential and credential.token else None,
            signature_cb=credential.signature if credential and credential.token else None,
            tls=trust,
            inbox_prefix=f"_INBOX_{credential.identity if credential else self.name}",
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnect,
            reconnected_cb=self._on_reconnect,
            closed_cb=self._on_closed,
            reconnect_time_wait=_RECONNECT_WAIT,  # type: ignore[arg-type] # it is only slept for
            max_reconnect_attempts=-1,
            ping_interval=_PING_SECONDS,
            max_outstanding_pings=2,
            pending_size=_PENDING_BYTES,
            drain_timeout=5,
        )

    async def another(self) -> Connection:
        """Open another connection with the same name and address; a flood on one does not affect the other."""
        return await Connection.open(self.address, name=self.name, on_lost=self._on_lost, credential=self.credential)

    @property
    def connected(self) -> bool:
        return self.client.is_connected and self._lost is None

    @property
    def lost(self) -> bool:
        """Return whether the connection is closed for good."""
        return self._lost is not None or self._closing

    @property
    def patient(self) -> bool:
        """Return whether an outstanding answer is worth waiting for."""
        return self.connected and not self.hurried

    def check(self) -> None:
        """Raise BusError when the connection is closed."""
        if self._lost is not None:
            raise BusError(self._lost.message)
        if self._closing:
            raise BusError("the bus connection is closed")

    def watch(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` whenever the connection returns or is lost."""
        self._watchers.add(changed)

    def unwatch(self, changed: Callable[[], None]) -> None:
        self._watchers.discard(changed)

    async def wait_up(self, patience: float) -> None:
        """Wait until the server is there; raises BusError after ``patience`` seconds."""
        self.check()
        if self.client.is_connected:
            return
        try:
            async with asyncio.timeout(_finite(patience)):
                await self._up.wait()
        except TimeoutError:
            raise BusError(f"no connection to the NATS server{self._because()}") from None
        self.check()

    async def patiently(self, attempt: Callable[[], Awaitable[Result]], patience: float) -> Result:
        """Repeat ``attempt`` while the server is away or silent, for ``patience`` seconds; it must bear repetition."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while True:
            try:
                await self.wait_up(deadline - loop.time())
                return await attempt()
            except BusError as error:
                if error.reason not in (NO_ANSWER, NO_RESPONDERS) or loop.time() + _PAUSE_SECONDS >= deadline:
                    raise
            await asyncio.sleep(_PAUSE_SECONDS)

    async def request(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        timeout: float,  # noqa: ASYNC109 - seconds that the answer may take
        survives_reconnect: bool = False,
    ) -> Msg:
        """Send one request and return its answer.

        A request that was pending when the connection broke is given up at the reconnect, unless it ``survives_reconnect``.

        Raises:
            BusError: ``NO_ANSWER`` after ``timeout`` seconds, ``NO_RESPONDERS``.
        """
        self.check()
        self.check_size(data)
        with translate_errors(f"request on {subject}"):
            async with asyncio.timeout(timeout) as limit:
                if not survives_reconnect:
                    self._open_requests.add(limit)
                try:
                    # The client's own limit is only a second safeguard: it swallows a cancellation while it flushes.
                    return await self.client.request(
                        subject, data, timeout=timeout + 1, headers=dict(headers) if headers else None
                    )
                finally:
                    self._open_requests.discard(limit)

    async def send(self, subject: str, data: bytes, *, reply: str = "", headers: Mapping[str, str] | None = None) -> None:
        """Send without waiting for an answer; buffered while the server is away. Raises BusError."""
        self.check()
        self.check_size(data)
        with translate_errors(f"send to {subject}"):
            await self.client.publish(subject, data, reply=reply, headers=dict(headers) if headers else None)

    async def subscribe(self, subject: str, receiver: Receiver, *, queue: str = "") -> Subscription:
        """Pass every message on ``subject`` to ``receiver``, in order, also after a reconnect.

        Of all subscribers that name the same ``queue``, one receives a message.
        """
        self.check()
        with translate_errors(f"subscribe to {subject}"):
            return await self.client.subscribe(subject, queue=queue, cb=receiver, pending_bytes_limit=0)

    def unique(self) -> str:
        """A token that no other connection makes."""
        return str(self.client.new_inbox()).rpartition(".")[2]

    async def flush(self) -> None:
        """Wait until the server has seen all that was sent."""
        self.check()
        with translate_errors("flush"):
            async with asyncio.timeout(_FLUSH_SECONDS):
                # The client writes its PING before what it still holds back: alone, that asks about too little.
                if (queue := self.client._flush_queue) is not None:  # noqa: SLF001
                    written = asyncio.get_running_loop().create_future()
                    await queue.put(written)
                    await written
            # Not the client's own flush: nats-py 2.16 cancels the pong it no longer waits for, and a late pong then stops its
            # reader.
            if self.client.is_closed:
                raise nats.errors.ConnectionClosedError
            answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            await self.client._send_ping(answer)  # noqa: SLF001
            await asyncio.wait({answer}, timeout=_FLUSH_SECONDS)
            if not answer.done():
                raise TimeoutError

    async def api(self, call: str, body: Mapping[str, Any], kind: type[ReplyT], *, timeout: float = ANSWER_SECONDS) -> ReplyT:  # noqa: ASYNC109
        """Ask the JetStream API, ``call`` without its prefix.

        A refusal raises BusError with reason ``jetstream_<err_code>``.
        """
        message = await self.request(api_subject(call), msgspec.json.encode(body), timeout=timeout)
        return decode_reply(message.data, kind, call)

    @property
    def guest(self) -> bool:
        """Return whether this identity uses an account of its own, where it cannot create consumers."""
        return self.credential is not None and self.credential.identity not in identities.RESIDENTS

    def check_size(self, data: bytes) -> None:
        """Raise MalformedError when the server would not take ``data`` in one message."""
        check_size(data, self.client.max_payload)

    async def close(self) -> None:
        """Send the last messages and disconnect; everything sent before reaches the server. Safe to call twice."""
        if self._closing:
            return
        self._closing = True
        with contextlib.suppress(nats.errors.Error, OSError):
            if self.client.is_connected and not self.client.is_draining:
                await self.client.drain()
        if self._goodbye is not None:
            await self._goodbye
        await self._disconnect()
        self._wake()

    async def _disconnect(self) -> None:
        if not self.client.is_connected:
            # nats-py 2.16 would write pending data to the closed transport and stop halfway through closing.
            self.client._pending_data_size = 0  # noqa: SLF001
        with contextlib.suppress(nats.errors.Error, OSError):
            await self.client.close()
        trying: asyncio.Task[None] | None = self.client._reconnection_task  # noqa: SLF001
        if trying is not None:
            # Before Python 3.12 a cancellation that meets a connection just made is swallowed, and the client would go on.
            await cancel_until_done([trying])
        self._drop_attempt()

    def _drop_attempt(self) -> None:
        """Close the socket of an attempt to connect that failed after it was there, as with a server that is stopped.

        The client opens the next one over it, and would leave it to the garbage collector.
        """
        transport = self.client._transport  # noqa: SLF001
        if transport and not self.client.is_connected:
            transport.close()  # type: ignore[no-untyped-call] # no types there

    def _because(self) -> str:
        return f" ({self._complaint})" if self._complaint else ""

    def _wake(self) -> None:
        now = asyncio.get_running_loop().time()
        for limit in self._open_requests:
            if not limit.expired():
                limit.reschedule(now)
        for changed in tuple(self._watchers):
            changed()

    async def _on_error(self, error: Exception) -> None:
        before, self._complaint = self._complaint, str(error) or type(error).__name__
        if self._complaint != before:  # the client repeats itself ten times a second
            log.warning("bus: %s: %s", self.name, self._complaint)
        if isinstance(error, nats.errors.Error) and _REFUSED.search(self._complaint) and not self._closing:
            self._refuse_credential(f"the NATS server refused the credential of {self.name}: {self._complaint}")
        self._drop_attempt()

    async def _on_disconnect(self) -> None:
        self.away_since = self.away_since or timestamp(SystemClock().now())
        self._up.clear()

    async def _on_reconnect(self) -> None:
        log.info("bus: %s: reconnected", self.name)
        self._complaint = ""
        self.away_since = ""
        self._up.set()
        self._wake()

    async def _on_closed(self) -> None:
        if not self._closing:
            self._report_loss(f"the bus connection of {self.name} was closed{self._because()}")

    def _refuse_credential(self, cause: str) -> None:
        """The client would offer the same credential for ever."""
        if not self._opened:
            raise BusError(cause, code=REFUSED)
        self._report_loss(cause)
        self._goodbye = asyncio.get_running_loop().create_task(self._disconnect())

    def _report_loss(self, cause: str) -> None:
        if self._lost is not None:
            return
        self._lost = BusError(cause)
        log.error("bus: %s", cause)
        self._up.set()
        self._wake()
        if self._on_lost is not None:
            self._on_lost(self._lost)


def _finite(seconds: float) -> float | None:
    return None if seconds == math.inf else seconds


def api_subject(call: str) -> str:
    """The subject of a call of the JetStream API."""
    return f"{API_PREFIX}.{call}"


def _trust(ca: Path) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=str(ca))
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{ca} holds no certificate: {error}", code="key_unreadable") from error


def public_address(url: str) -> str:
    """``url`` without its credential, for messages and logs."""
    return ",".join(part.partition("//")[2].rpartition("@")[2] or part.rpartition("@")[2] for part in url.split(","))
