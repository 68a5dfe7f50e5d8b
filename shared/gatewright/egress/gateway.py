"""The gateway of one pull: an HTTP proxy on a socket that only the box reaches, and the way from there to the registries."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import aiohttp
import msgspec
from yarl import URL

from gatewright.canary import canary_spans
from gatewright.clock import Clock, timestamp
from gatewright.egress.addresses import Resolve, canonical_address, is_plain_path, resolve_host
from gatewright.egress.allowed import AllowedAddresses
from gatewright.egress.answer import GONE, Answer, close_politely
from gatewright.egress.authority import PullAuthority
from gatewright.egress.policy import EgressPolicy
from gatewright.egress.record import EgressRecord
from gatewright.egress.request_head import MOST_BYTES, RequestHead, body_too_large, parse_head, read_chunks, read_head
from gatewright.egress.upstream import Exchange, Upstream, unpack_part
from gatewright.errors import DeniedError, GatewrightError, UnavailableError

_CONNECTIONS: Final = 64
_LONGEST: Final = 2000
_PORTS: Final = {"https": 443, "http": 80}
_METHODS: Final = frozenset({"GET", "HEAD"})


class _Site(NamedTuple):
    """What a client connected to, or asks for; ``authority`` is its place in an address."""

    scheme: str
    host: str
    port: int

    @classmethod
    def parse(cls, scheme: str, authority: str) -> _Site:
        """Raises DeniedError for a port that is not in its usual form."""
        host, colon, digits = authority.partition(":")
        port = int(digits) if digits.isdecimal() and len(digits) < 6 else 0
        if colon and (str(port) != digits or not 0 < port < 65536):
            raise DeniedError(f"{authority[:253]}: name a host and its port, as HOST:443", code="egress_host_refused")
        return cls(scheme, host, port or _PORTS[scheme])

    @property
    def authority(self) -> str:
        return self.host if self.port == _PORTS[self.scheme] else f"{self.host}:{self.port}"

    def check_host(self, head: RequestHead, *, needed: bool) -> None:
        """Raises DeniedError if the header Host names another host, or none where it is needed."""
        given = head.headers.get("host")
        if given not in {self.authority, f"{self.host}:{self.port}"} and (needed or given is not None):
            words = f"Host is {(given or 'missing')[:253]!r} in a request to {self.authority}: name one host everywhere"
            raise DeniedError(words, code="egress_host_mismatch")


class Sending(NamedTuple):
    """What clients may send: ``methods`` besides GET and HEAD, by the name of their source, with bodies of ``most`` bytes."""

    methods: Mapping[str, Collection[str]]
    most: int

    def check(self, head: RequestHead, source: str) -> None:
        """Raises DeniedError (``egress_method_refused``, ``egress_limit``)."""
        if head.method not in self.methods.get(source, ()):
            words = f"{head.method} is no method of {source}: add it to its `methods` if that is meant"
            raise DeniedError(words, code="egress_method_refused")
        if head.length > self.most:
            raise body_too_large(self.most)


class EgressGateway:
    """The gateway of one pull. ``certificate``: its certificate authority (PEM), which the installer has to trust.

    Args:
        allowed: the addresses that may be read.
        record: receives each request after it ended (``EgressLog.append``).
        secrets: the values of the credentials that sources name.
        tls: settings for connections to registries; the system's authorities by default.
        sending: what may be sent besides GET and HEAD; nothing by default.
        idle: seconds that the gateway waits for a client's next request.

    Raises ConfigurationError (``egress_credential_missing``).
    """

    def __init__(
        self,
        policy: EgressPolicy,
        allowed: AllowedAddresses,
        record: Callable[[EgressRecord], None],
        *,
        clock: Clock,
        secrets: Mapping[str, str],
        resolve: Resolve = resolve_host,
        tls: ssl.SSLContext | None = None,
        sending: Sending | None = None,
        idle: float = 60.0,
    ) -> None:
        sources = policy.sources
        self._policy = policy
        self._keep = record
        self._clock = clock
        self._idle = idle
        self._sending = sending
        self._upstream = Upstream(policy, sources, allowed, secrets, resolve=resolve, tls=tls)
        self._authority = PullAuthority((host.partition(":")[0] for each in sources for host in each.hosts), clock.now())
        self._clients: set[asyncio.Task[Any]] = set()
        self._count = 0
        self.certificate = self._authority.certificate

    async def serve(self, listening: socket.socket) -> None:
        """Serve HTTP/1.1 on a socket that listens, until cancelled; then every connection is closed, and the socket too.

        Raises OSError if a record cannot be kept: nothing is read that the log does not show.
        """
        listening.setblocking(False)
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with self._upstream.connect():
            server = await asyncio.start_server(self._take_client, sock=listening, limit=MOST_BYTES)
            try:
                await self._broken
            finally:
                server.close()
                while self._clients:
                    for each in self._clients:
                        each.cancel()
                    await asyncio.wait(self._clients)

    async def _take_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = asyncio.current_task()
        if client is None or len(self._clients) >= _CONNECTIONS or self._full:
            writer.transport.abort()
            return
        self._clients.add(client)
        ends = [writer]
        try:
            with contextlib.suppress(TimeoutError, asyncio.CancelledError, *GONE):  # it left, or the pull ends
                await self._converse(reader, ends)
        finally:
            self._clients.discard(client)
            for each in reversed(ends):
                each.transport.abort()

    @property
    def _full(self) -> bool:
        """Whether the pull has used up its requests: the last record is the first refused one."""
        return self._count > self._policy.requests

    async def _converse(self, reader: asyncio.StreamReader, ends: list[asyncio.StreamWriter]) -> None:
        """Answer the requests of one connection. ``ends``: its writers; the last one is in use."""
        tunnel: _Site | None = None
        while self._count <= self._policy.requests:
            async with asyncio.timeout(self._idle):
                data = await read_head(reader)
            if not data:
                return
            exchange, answer = Exchange(host=tunnel.authority if tunnel else ""), Answer(ends[-1])
            async with self._recorded(exchange, answer):
                head = parse_head(data, bodies=self._sending is not None)
                exchange.method = head.method
                if self._full:
                    words = f"at most {self._policy.requests} requests are permitted: raise `requests` in {self._policy.file}"
                    raise DeniedError(words, code="egress_limit")
                if head.method == "CONNECT" and tunnel is None:
                    tunnel = self._judge_tunnel(head, exchange)
                    reader = await self._secure(tunnel, ends, answer)
                    continue
                await self._answer(head, tunnel, exchange, answer, reader)
            if not answer.stays:
                if answer.whole:
                    await close_politely(reader, ends[-1])
                return

    @asynccontextmanager
    async def _recorded(self, exchange: Exchange, answer: Answer) -> AsyncIterator[None]:
        """Record the request at the end; a failure is answered. A tunnel that is open is no request."""
        self._count += 1
        try:
            yield
        except (GatewrightError, aiohttp.ClientError, OSError, ValueError, TimeoutError, EOFError) as error:
            failure = _failure(exchange, error)
            self._keep_record(exchange, failure)
            with contextlib.suppress(GatewrightError):
                await answer.refuse(failure)
        except asyncio.CancelledError:
            self._keep_record(exchange, UnavailableError("the pull has ended", code="egress_interrupted"))
            raise
        else:
            if answer.begun:
                self._keep_record(exchange, None)
            else:
                self._count -= 1

    def _keep_record(self, exchange: Exchange, failure: GatewrightError | None) -> None:
        record = EgressRecord(
            source=exchange.source,
            host=exchange.host[:_LONGEST],
            method=exchange.method,
            path=exchange.path[:_LONGEST],
            decision="refused" if isinstance(failure, DeniedError) else "allowed",
            at=timestamp(self._clock.now()),
            reason=failure.reason if failure else "",
            ip=exchange.ip,
            status=exchange.status,
            bytes=exchange.bytes,
            sha256=exchange.digest.hexdigest() if exchange.bytes else "",
            sent=len(exchange.body) or msgspec.UNSET,
            sent_sha256=hashlib.sha256(exchange.body).hexdigest() if exchange.body else msgspec.UNSET,
        )
        try:
            self._keep(record)
        except OSError as error:
            if not self._broken.done():
                self._broken.set_exception(error)
            raise

    def _judge_tunnel(self, head: RequestHead, exchange: Exchange) -> _Site:
        exchange.host = head.target
        site = _Site.parse("https", head.target)
        site.check_host(head, needed=False)
        exchange.source = self._upstream.judge_host(*site).name
        return site

    async def _secure(self, site: _Site, ends: list[asyncio.StreamWriter], answer: Answer) -> asyncio.StreamReader:
        """Open the tunnel, and end its TLS here. What the client sent before the handshake is not read."""
        asked: list[str | None] = []
        answer.begun = True
        ends[0].write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MOST_BYTES)
        protocol = asyncio.StreamReaderProtocol(reader)
        context = self._authority.context(site.host, asked.append)
        try:
            transport = await loop.start_tls(ends[0].transport, protocol, context, server_side=True, ssl_handshake_timeout=15.0)
        except OSError as error:
            if asked and asked[-1] != site.host:
                words = f"TLS names {asked[-1] or 'no host'} in a tunnel to {site.host}: name one host everywhere"
                raise DeniedError(words, code="egress_host_mismatch") from error
            words = f"no TLS connection in the tunnel to {site.host}: use TLS 1.2 or later, and trust the pull's authority"
            raise DeniedError(words, code="egress_tls_refused") from error
        if transport is None:
            raise DeniedError(f"the client left the tunnel to {site.host}", code="egress_tls_refused")
        protocol.connection_made(transport)
        ends.append(asyncio.StreamWriter(transport, protocol, reader, loop))
        answer.begun = False
        return reader

    async def _answer(
        self, head: RequestHead, tunnel: _Site | None, exchange: Exchange, answer: Answer, reader: asyncio.StreamReader
    ) -> None:
        answer.bare, answer.stays = head.method == "HEAD", head.stays
        url = self._parse_address(head, tunnel, exchange)
        reads = head.method in _METHODS
        if not reads and self._sending is None:
            raise DeniedError(f"{exchange.host}: a pull sends GET and HEAD, not {head.method}", code="egress_method_refused")
        source = self._upstream.judge(url)
        exchange.source = source.name
        if not reads and self._sending is not None:
            self._sending.check(head, source.name)
        async with asyncio.timeout(self._policy.seconds):
            if head.length or head.chunked:
                await self._receive_body(head, exchange, answer, reader)
            await self._upstream.fetch(url, source, exchange, answer, head.headers)

    async def _receive_body(self, head: RequestHead, exchange: Exchange, answer: Answer, reader: asyncio.StreamReader) -> None:
        """Read the body of a request whole, and judge it. Raises DeniedError; IncompleteReadError if the client left."""
        if "expect" in head.headers:
            await answer.invite()
        most = self._sending.most if self._sending is not None else 0
        body = await read_chunks(reader, most) if head.chunked else await reader.readexactly(head.length)
        if "content-encoding" in head.headers:
            body = await asyncio.to_thread(_unpack, body, most)
        if await asyncio.to_thread(canary_spans, body):
            raise DeniedError(f"{exchange.host}: the body holds the canary of a box", code="canary_leaked")
        exchange.body = body

    def _parse_address(self, head: RequestHead, tunnel: _Site | None, exchange: Exchange) -> URL:
        """Return the canonical address of a request, whose parts all name one host."""
        site, target = tunnel, head.target
        if site is None:
            if not target.startswith("http://"):
                words = "this is a proxy: connect to a host with CONNECT HOST:443, or GET http://HOST/ of an http source"
                raise DeniedError(words, code="egress_host_refused")
            authority, slash, rest = target.removeprefix("http://").partition("/")
            exchange.host, target = authority, slash + rest
            site = _Site.parse("http", authority)
        path, _, query = target.partition("?")
        exchange.path = path + (f"?sha256={hashlib.sha256(query.encode()).hexdigest()}" if query else "")
        site.check_host(head, needed=True)
        if head.minor == 0 or not is_plain_path(path):
            words = f"{site.host}: send HTTP/1.1, and a plain path: no empty, dot or encoded segments"
            raise DeniedError(words, code="egress_address_refused")
        self._upstream.judge_host(*site)
        if canary_spans(target.encode("utf-8", "surrogateescape")):
            exchange.path = ""
            raise DeniedError(f"{site.host}: the address holds the canary of a box", code="canary_leaked")
        try:
            return canonical_address(f"{site.scheme}://{site.authority}{target}")
        except ValueError as error:  # it is too long
            raise DeniedError(str(error), code="egress_address_refused") from error


def _unpack(body: bytes, most: int) -> bytes:
    """Return the content of a gzip body: it is judged, and sent on. Raises DeniedError (``egress_limit``), ValueError."""
    content = unpack_part(unpacker := zlib.decompressobj(wbits=31), body, most)
    if len(content) > most:
        raise body_too_large(most)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("the compressed body is not one whole part")
    return content


def _failure(exchange: Exchange, error: Exception) -> GatewrightError:
    if isinstance(error, GatewrightError):
        return error
    words = f"{exchange.host} gave no answer: {(str(error) or type(error).__name__)[:200]}"
    return UnavailableError(words, code="egress_source_unavailable")
