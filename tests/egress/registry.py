"""What the tests of the gateway need: a registry with TLS, a served gateway, and clients that send anything."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from gatewright.clock import SystemClock
from gatewright.egress.allowed import AllowedAddresses, AnyAddress
from gatewright.egress.authority import PullAuthority
from gatewright.egress.gateway import EgressGateway, Sending
from gatewright.egress.policy import EgressPolicy, EgressSource
from gatewright.egress.record import EgressRecord


class ExactAddresses(AnyAddress):
    """Allows the given addresses, which are canonical."""

    def __init__(self, *urls: str) -> None:
        self._urls = urls

    def refusal(self, url: str) -> str:
        return "" if url in self._urls else "it was not given"


#: The hosts of the registry's certificate; ``OTHER`` belongs to another source, ``FOREIGN`` to none.
INDEX, FILES, OTHER, FOREIGN = "index.example", "files.example", "other.example", "foreign.example"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def authority() -> PullAuthority:
    return PullAuthority((INDEX, FILES, OTHER, FOREIGN), dt.datetime.now(dt.UTC))


@dataclass
class Registry:
    """Answers by path: bytes, a response's arguments, or a handler. ``seen`` has every request that reached it."""

    pages: dict[str, bytes | Mapping[str, Any] | Handler] = field(default_factory=dict)
    seen: list[web.BaseRequest] = field(default_factory=list)
    port: int = 0
    trust: ssl.SSLContext | None = None

    @property
    def paths(self) -> list[str]:
        return [f"{each.method} {each.raw_path}" for each in self.seen]

    @contextlib.asynccontextmanager
    async def serving(self, *, tls: bool = True) -> AsyncIterator[Registry]:
        signer = authority()
        self.trust = ssl.create_default_context(cadata=signer.certificate.decode())
        context = signer.context(INDEX, lambda _: None) if tls else None
        if context is not None:
            contexts = {host: signer.context(host, lambda _: None) for host in (INDEX, FILES, OTHER, FOREIGN)}

            def choose(tunnel: Any, host: str | None, _: ssl.SSLContext) -> None:
                tunnel.context = contexts.get(host or INDEX, context)

            context.sni_callback = choose
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(request)
        page = self.pages.get(request.path)
        if page is None:
            return web.Response(status=404, body=b"missing")
        if callable(page):
            return await page(request)
        return web.Response(body=page) if isinstance(page, bytes) else web.Response(**page)


@dataclass
class Reply:
    """An answer as a client read it. ``cut``: the connection ended before the answer did."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    cut: bool = False


@dataclass
class Door:
    """A served gateway: its port, its authority, and the log so far."""

    port: int
    trust: str
    log: list[EgressRecord]
    gateway: EgressGateway
    news: asyncio.Event

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.trust)

    async def tunnel(self, target: str, sni: str | None = INDEX) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a tunnel. Raises ssl.SSLError or ConnectionError if its TLS is refused, RefusedTunnelError before that."""
        reader, writer = await self.connect()
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode("latin-1"))
        try:
            await self.secure(reader, writer, sni)
        except BaseException:
            writer.transport.abort()
            raise
        return reader, writer

    async def secure(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, sni: str | None) -> None:
        """Read the answer to CONNECT, and start TLS."""
        head = await read_head(reader)
        if head.status != 200:
            raise RefusedTunnelError(await read_body(reader, head))
        context = self.context()
        if sni != INDEX:  # a hostile client does not check
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        await writer.start_tls(context, server_hostname=sni or "")

    async def ask(self, target: str, request: str | bytes, sni: str | None = INDEX) -> Reply:
        """Send one request in a tunnel."""
        reader, writer = await self.tunnel(target, sni)
        return await exchange(reader, writer, request)

    async def ask_plainly(self, request: str | bytes) -> Reply:
        """Send one request without a tunnel."""
        return await exchange(*await self.connect(), request)

    async def logged(self, count: int) -> list[EgressRecord]:
        """Wait for records: a client may have its answer before the log has its line."""
        while len(self.log) < count:
            self.news.clear()
            await self.news.wait()
        return self.log


class RefusedTunnelError(Exception):
    """CONNECT was refused; ``reply`` is the answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply)
        self.reply = reply


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: str | bytes) -> Reply:
    try:
        writer.write(request.encode("latin-1") if isinstance(request, str) else request)
        head = await read_head(reader)
        return await read_body(reader, head, bare=bytes(str(request), "utf-8").startswith(b"HEAD"))
    finally:
        writer.transport.abort()


async def read_head(reader: asyncio.StreamReader) -> Reply:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:-2])}
    return Reply(int(lines[0].split()[1]), headers)


async def read_body(reader: asyncio.StreamReader, reply: Reply, *, bare: bool = False) -> Reply:
    if bare:
        return reply
    try:
        if "content-length" in reply.headers:
            reply.body = await reader.readexactly(int(reply.headers["content-length"]))
            return reply
        while reply.headers.get("transfer-encoding") == "chunked":
            size = int(await reader.readuntil(b"\r\n"), 16)
            reply.body += (await reader.readexactly(size + 2))[:-2]
            if size == 0:
                break
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        reply.body += getattr(error, "partial", b"")
        reply.cut = True
    return reply


@contextlib.asynccontextmanager
async def served(
    registry: Registry,
    *,
    sources: Sequence[EgressSource] = (),
    allowed: AllowedAddresses | None = None,
    secrets: Mapping[str, str] | None = None,
    addresses: Mapping[str, Sequence[str]] | None = None,
    record: Callable[[EgressRecord], None] | None = None,
    idle: float = 30.0,
    sending: Sending | None = None,
    **limits: Any,
) -> AsyncIterator[Door]:
    """Serve a gateway to a registry. Without ``sources`` there is one, of ``INDEX`` and ``FILES``, and one of ``OTHER``."""
    log: list[EgressRecord] = []
    news = asyncio.Event()

    def keep(line: EgressRecord) -> None:
        log.append(line)
        news.set()

    async def resolve(host: str, _: int) -> Sequence[str]:
        return (addresses or {}).get(host, ["127.0.0.1"])

    policy = EgressPolicy(version="1", sources=tuple(sources) or standard(registry), **limits)
    gateway = EgressGateway(
        policy,
        allowed or AnyAddress(),
        record or keep,
        clock=SystemClock(),
        secrets=secrets or {},
        resolve=resolve,
        tls=registry.trust,
        sending=sending,
        idle=idle,
    )
    listening = socket.create_server(("127.0.0.1", 0))
    serving = asyncio.create_task(gateway.serve(listening))
    try:
        yield Door(listening.getsockname()[1], gateway.certificate.decode(), log, gateway, news)
    finally:
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving


def standard(registry: Registry, **fields: Any) -> tuple[EgressSource, ...]:
    """The source of ``INDEX`` and ``FILES``, with further fields, and the one of ``OTHER``."""
    port = registry.port
    first = {"name": "index", "hosts": (f"{INDEX}:{port}", f"{FILES}:{port}"), "private": True, "ecosystem": "python"}
    other = EgressSource(name="other", hosts=(f"{OTHER}:{port}",), private=True)
    return EgressSource.model_validate(first | {"index": "/simple"} | fields), other


def get(registry: Registry, path: str, host: str = INDEX, *headers: str, method: str = "GET") -> str:
    """A request in a tunnel."""
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}:{registry.port}", *headers, "", ""])


def write_trust(folder: Path, pem: str) -> Path:
    path = folder / "authority.pem"
    path.write_text(pem)
    return path
