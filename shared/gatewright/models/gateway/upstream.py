"""Sending of a request to a provider, adding the key at the last moment. No redirects, no decompression, one attempt."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import aiohttp
from yarl import URL

from gatewright.errors import ConfigurationError
from gatewright.models.apis.endpoints import Endpoint, key_header, upstream_url
from gatewright.models.gateway.reading import GatewayLimits
from gatewright.models.policy import Provider
from gatewright.version import __version__


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """A request to send. ``headers`` of the client that the API needs; ``upstream_name`` is the model at the provider."""

    endpoint: Endpoint
    upstream_name: str
    body: bytes
    stream: bool
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UpstreamReply:
    """A reply whose head has arrived. ``scrubber`` knows the key that was sent."""

    status: int
    content_type: str
    retry_after: str | None
    encoded: bool
    content: aiohttp.StreamReader
    scrubber: KeyScrubber


class Upstream:
    """The connections to providers of one gateway."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._contexts: dict[Path | None, ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Connections are kept open within."""
        limits = self._limits
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_seconds, sock_read=limits.upstream_idle)
        session = aiohttp.ClientSession(
            timeout=timeout,
            auto_decompress=False,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            max_field_size=limits.header_bytes,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
        )
        async with session:
            self._session = session
            try:
                yield
            finally:
                self._session = None

    @asynccontextmanager
    async def sent(self, provider: Provider, order: UpstreamRequest) -> AsyncIterator[UpstreamReply]:
        """The reply to ``order``. Raises ConfigurationError, ``aiohttp.ClientError`` and ``TimeoutError``."""
        if self._session is None:
            raise ConfigurationError("the gateway does not serve")
        headers = {
            **provider.headers,
            **order.headers,
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if order.stream else "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": f"gatewright/{__version__}",
        }
        key = "" if provider.key is None else await asyncio.to_thread(provider.key.read)
        if key:
            headers |= key_header(order.endpoint.api, key)
        url = upstream_url(provider.base_url, order.endpoint, order.upstream_name, stream=order.stream)
        sending = self._session.post(
            URL(url, encoded=True),
            data=order.body,
            headers=headers,
            allow_redirects=False,
            proxy=provider.proxy,
            ssl=await self._context(provider.ca_file),
        )
        async with sending as reply:
            yield UpstreamReply(
                status=reply.status,
                content_type=reply.content_type,
                retry_after=reply.headers.get("Retry-After"),
                encoded=reply.headers.get("Content-Encoding", "identity").lower() != "identity",
                content=reply.content,
                scrubber=KeyScrubber([key] if key else []),
            )

    async def _context(self, ca_file: Path | None) -> ssl.SSLContext:
        if ca_file not in self._contexts:
            try:
                context = await asyncio.to_thread(ssl.create_default_context, cafile=ca_file)
            except OSError as error:  # includes ssl's own errors
                raise ConfigurationError(f"ca_file {ca_file}: {error.strerror or error}") from error
            self._contexts[ca_file] = context
        return self._contexts[ca_file]


# Removal of a provider's key from all its output, even if the pieces of a stream split it.
_INSTEAD = b"[redacted:provider_key]"
#: A shorter key could appear in any text by chance; no provider has one.
_SHORTEST = 8
#: The length of a key's prefix that is searched before the rest is compared.
_SURE = 4


class KeyScrubber:
    """A scrubber for one reply, in pieces. Finds a key in plain, percent-encoded, base64, hexadecimal and JSON form."""

    def __init__(self, keys: Iterable[str]) -> None:
        forms = sorted({form for key in keys for form in _forms(key)}, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, forms))) if forms else None  # noqa: TID251 - literals of our own
        self._starts = tuple(forms)
        self._kept = b""
        self.found = 0

    def whole(self, data: bytes) -> bytes:
        """``data`` without a key; not a piece of a stream."""
        if self._pattern is None:
            return data
        data, found = self._pattern.subn(_INSTEAD, data)
        self.found += found
        return data

    def text(self, words: str) -> str:
        """Return ``words`` without keys."""
        return self.whole(words.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def feed(self, chunk: bytes) -> bytes:
        """Return the text that is safe to pass on; a possible prefix of a key waits for the next piece."""
        data = self.whole(self._kept + chunk)
        keep = self._beginning(data)
        self._kept = data[len(data) - keep :]
        return data[: len(data) - keep]

    def finish(self) -> bytes:
        """Return the waiting text, at the end of the stream."""
        kept, self._kept = self._kept, b""
        return kept

    def _beginning(self, data: bytes) -> int:
        """Return how many of the last bytes are the beginning of a key."""
        return max((_overlap(data, form) for form in self._starts), default=0)


def _overlap(data: bytes, form: bytes) -> int:
    """Return how many of the last bytes of ``data`` are a proper prefix of ``form``."""
    window = data[max(len(data) - len(form) + 1, 0) :]
    place = window.find(form[:_SURE])
    while place >= 0:
        if form.startswith(window[place:]):
            return len(window) - place
        place = window.find(form[:_SURE], place + 1)
    return next((length for length in range(_SURE - 1, 0, -1) if window.endswith(form[:length])), 0)


def _forms(key: str) -> Iterable[bytes]:
    if len(key) < _SHORTEST:
        return
    raw = key.encode()
    yield raw
    yield quote(key, safe="").encode()
    yield json.dumps(key)[1:-1].encode()
    yield base64.b64encode(raw).rstrip(b"=")
    yield base64.b64encode(b"Bearer " + raw).rstrip(b"=")
    yield raw.hex().encode()
