"""The way to the registries: requests made of parsed parts, to addresses that were judged, within the limits of the pull."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from urllib.parse import urljoin

import aiohttp
from yarl import URL

from gatewright.egress.addresses import (
    REDIRECTS,
    PinnedResolver,
    Resolve,
    canonical_address,
    is_plain_path,
    resolve_once,
)
from gatewright.egress.allowed import AllowedAddresses
from gatewright.egress.answer import Answer
from gatewright.egress.policy import EgressPolicy, EgressSource, is_host, source_of
from gatewright.errors import ConfigurationError, DeniedError, UnavailableError
from gatewright.version import __version__

#: Bytes of an index page, which is read as a whole, and the number of them at a time.
_INDEX_BYTES: Final = 32 << 20
_INDEXES: Final = 4
_SMALL: Final = 1 << 16
_CONNECT_SECONDS: Final = 15.0
_IDLE_SECONDS: Final = 60.0
_KEPT: Final = ("Content-Type", "ETag", "Last-Modified", "Cache-Control")
#: The media types that package managers ask for. What a client sends never leaves: an index gets one of these lines.
_ACCEPTED: Final = {
    "application/vnd.pypi.simple.v1+json": "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1",
    "application/vnd.npm.install-v1+json": "application/vnd.npm.install-v1+json, application/json;q=0.8, */*;q=0.1",
}


@dataclass
class Exchange:
    """One request and what came of it, for the log."""

    method: str = ""
    host: str = ""
    path: str = ""
    source: str = ""
    ip: str = ""
    body: bytes = b""
    status: int = 0
    bytes: int = 0
    digest: Any = field(default_factory=hashlib.sha256)


class Upstream:
    """Sends the requests of one pull."""

    def __init__(
        self,
        policy: EgressPolicy,
        sources: tuple[EgressSource, ...],
        allowed: AllowedAddresses,
        secrets: Mapping[str, str],
        *,
        resolve: Resolve,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._policy = policy
        self._sources = sources
        self._allowed = allowed
        self._authorizations = {each.name: _authorization(each, secrets) for each in sources if each.credential}
        self._resolve = resolve
        self._tls = tls
        self._pins: dict[tuple[str, int], str] = {}
        self._judged: dict[tuple[str, str, int], EgressSource] = {}
        self._pinning = asyncio.Lock()
        self._indexes = asyncio.Semaphore(_INDEXES)
        #: The versions of index pages that this pull has read: only such a one may be asked for again.
        self._versions: dict[str, str] = {}
        #: Addresses that a registry redirected to, with the number of redirects that led there.
        self._targets: dict[str, int] = {}
        self._total = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[None]:
        """Have a pool of connections within. The environment's proxies are not used."""
        # SSL_CERT_FILE and SSL_CERT_DIR of this process name other authorities than the system's: reading them is slow.
        self._tls = self._tls or ssl.create_default_context()
        connector = aiohttp.TCPConnector(resolver=PinnedResolver(self._pins), use_dns_cache=False, limit=64, ssl=self._tls)
        async with aiohttp.ClientSession(
            connector=connector,
            trust_env=False,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_IDLE_SECONDS),
            read_bufsize=1 << 18,
        ) as self._session:
            yield

    def judge_host(self, scheme: str, host: str, port: int) -> EgressSource:
        """Return the source of a host. It is not resolved. Raises DeniedError (``egress_host_refused``)."""
        source = self._judged.get((scheme, host, port))
        if source is None:
            source = source_of(self._sources, scheme, host, port) if is_host(host) else None
            if source is None:
                words = f"{scheme}://{host[:253]}:{port} belongs to no source: add the host, as a name, to {self._policy.file}"
                raise DeniedError(words, code="egress_host_refused")
            self._judged[scheme, host, port] = source
        return source

    def judge(self, url: URL) -> EgressSource:
        """Return the source of an address that the installer may read.

        Raises DeniedError (``egress_host_refused``, ``egress_address_refused``).
        """
        source = self.judge_host(url.scheme, str(url.raw_host), int(url.port or 0))
        if not is_plain_path(url.raw_path):
            words = f"{url.host}: the path has segments that servers read differently: use its plain form"
            raise DeniedError(words, code="egress_address_refused")
        refusal = "" if str(url) in self._targets else self._allowed.refusal(str(url))
        if refusal:
            raise DeniedError(f"{url.host}{url.raw_path[:200]}: {refusal}", code="egress_address_refused")
        return source

    async def fetch(self, url: URL, source: EgressSource, exchange: Exchange, answer: Answer, given: Mapping[str, str]) -> None:
        """Send the request of an allowed address, and pass its answer on. ``given`` are the client's headers.

        Raises DeniedError for an answer that a rule ends, UnavailableError for one that is unusable; ``aiohttp.ClientError``,
        OSError and ValueError if there is none.
        """
        exchange.ip = await self._pin(url, source)
        is_index = exchange.method == "GET" and self._allowed.reads(str(url))
        headers = {"User-Agent": f"gatewright/{__version__}", "Accept": _media_types(given.get("accept", ""))}
        headers["Accept-Encoding"] = "gzip" if is_index else "identity"
        known = self._versions.get(str(url), "")
        if is_index and known and given.get("if-none-match") == known:
            headers["If-None-Match"] = known
        if exchange.body and (media := given.get("content-type", "")):
            headers["Content-Type"] = media
        if source.credential:
            headers["Authorization"] = self._authorizations[source.name]
        sent = exchange.body or None
        async with self._session.request(exchange.method, url, headers=headers, data=sent, allow_redirects=False) as reply:
            exchange.status = reply.status
            kept = {name: reply.headers[name][:1000] for name in _KEPT if name in reply.headers}
            if reply.status == 304 and "If-None-Match" in headers:
                await answer.begin(304, kept, None)
            elif 300 <= reply.status < 400:
                await self._redirect(url, source, reply, answer)
                return
            elif reply.status == 200 and is_index:
                await self._pass_index(url, reply, exchange, answer, kept)
            else:
                await answer.begin(reply.status, kept, self._check(url, reply))
                async for part in self._parts(reply, exchange, self._policy.answer_bytes):
                    await answer.send(part)
            await answer.end()

    async def _pass_index(
        self, url: URL, reply: aiohttp.ClientResponse, exchange: Exchange, answer: Answer, kept: Mapping[str, str]
    ) -> None:
        """Read an index page, and pass it on: the client may then ask for what it names."""
        packed = reply.headers.get("Content-Encoding", "identity").lower() == "gzip"
        self._check(url, reply, packed=packed)
        async with self._indexes:
            page = b"".join([part async for part in self._parts(reply, exchange, _INDEX_BYTES, packed=packed)])
            learn = partial(self._allowed.learn, str(url), reply.headers.get("Content-Type", ""), page)
            # A change of threads costs more than a small page, and waits for a processor once more.
            await asyncio.to_thread(learn) if len(page) > _SMALL else learn()
            self._versions[str(url)] = kept.get("ETag", "")
            await answer.begin(200, kept, len(page))
            await answer.send(page)

    async def _pin(self, url: URL, source: EgressSource) -> str:
        host, port = str(url.raw_host), int(url.port or 0)
        async with self._pinning:
            if (host, port) not in self._pins:
                try:
                    ip = await resolve_once(host, port, private=source.private, resolve=self._resolve)
                except ValueError as error:
                    words = f"{error}: set `private` of the source {source.name} in {self._policy.file} if that is meant"
                    raise DeniedError(words, code="egress_ip_refused") from error
                self._pins[host, port] = ip
            return self._pins[host, port]

    def _too_much(self, message: str) -> DeniedError:
        return DeniedError(f"{message}, a limit of {self._policy.file}", code="egress_limit")

    async def _redirect(self, url: URL, source: EgressSource, reply: aiohttp.ClientResponse, answer: Answer) -> None:
        """Pass on a redirect to an address that may be read: the client's next request is judged like every other.

        The registry chose the target, so nothing of the client's is in it: within one source it needs no index.
        """
        location, depth = reply.headers.get("Location", ""), self._targets.get(str(url), 0) + 1
        if reply.status not in REDIRECTS or not location or not location.isprintable():
            raise UnavailableError(f"{url.host} answered {reply.status} without an address", code="egress_source_unavailable")
        if depth > self._policy.redirects:
            raise DeniedError(f"{url.host}: more than {self._policy.redirects} redirects", code="egress_redirect_refused")
        try:
            target = canonical_address(urljoin(str(url), location))
            same = self.judge_host(target.scheme, str(target.raw_host), int(target.port or 0)) is source
            if not same or not is_plain_path(target.raw_path):
                self.judge(target)
        except (ValueError, DeniedError) as error:
            words = f"{url.host} redirects to an address that is not allowed: {error}"
            raise DeniedError(words, code="egress_redirect_refused") from error
        self._targets[str(target)] = max(depth, self._targets.get(str(target), 0))
        await answer.begin(reply.status, {"Location": str(target)}, 0)
        await answer.end()

    def _check(self, url: URL, reply: aiohttp.ClientResponse, *, packed: bool = False) -> int | None:
        """Return the length that the answer declares."""
        plain = packed or reply.headers.get("Content-Encoding", "identity").lower() == "identity"
        if not plain or reply.status in {101, 407}:
            words = f"{url.host} answered in a form that was not asked for: status {reply.status}, or compressed"
            raise UnavailableError(words, code="egress_source_unavailable")
        if (reply.content_length or 0) > self._policy.answer_bytes:
            raise self._too_much(f"{url.host}: an answer has at most {self._policy.answer_bytes} bytes")
        return reply.content_length

    async def _parts(
        self, reply: aiohttp.ClientResponse, exchange: Exchange, most: int, *, packed: bool = False
    ) -> AsyncIterator[bytes]:
        """Yield the content as the client gets it. ValueError if packed content is broken or has no end."""
        unpacker = zlib.decompressobj(wbits=31) if packed else None
        async for data in reply.content.iter_any():
            part = data if unpacker is None else unpack_part(unpacker, data, most)
            if exchange.bytes + len(part) > min(most, self._policy.answer_bytes):
                raise self._too_much(
                    f"{exchange.host}: an answer has at most {self._policy.answer_bytes} bytes, an index {_INDEX_BYTES}"
                )
            if self._total + len(part) > self._policy.total_bytes:
                raise self._too_much(f"{exchange.host}: all answers together have at most {self._policy.total_bytes} bytes")
            exchange.bytes += len(part)
            self._total += len(part)
            exchange.digest.update(part)
            yield part
        if unpacker is not None and (not unpacker.eof or unpacker.unused_data):
            raise ValueError("its compressed content has no end")


def unpack_part(unpacker: Any, data: bytes, most: int) -> bytes:
    """Return the content of a piece, at most one byte more than ``most``. Raises ValueError."""
    try:
        part: bytes = unpacker.decompress(data, most + 1)
    except zlib.error as error:
        raise ValueError(f"its compressed content is broken: {error}") from error
    return part


def _media_types(value: str) -> str:
    return next((line for name, line in _ACCEPTED.items() if name in value), "*/*")


def _authorization(source: EgressSource, secrets: Mapping[str, str]) -> str:
    """Return the value of the header Authorization: ``user:password`` becomes Basic, one word a Bearer token."""
    value = secrets.get(source.credential, "").strip()
    if not value or not value.isascii() or not value.isprintable():
        words = f"the credential of the source {source.name} is missing or no header value: set {source.credential}"
        raise ConfigurationError(words, code="egress_credential_missing")
    if " " in value:
        return value
    return f"Basic {base64.b64encode(value.encode()).decode()}" if ":" in value else f"Bearer {value}"
