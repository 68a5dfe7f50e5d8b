"""Sending of a request to a provider, adding the key at the last moment. No redirects, no decompression, one attempt."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from yarl import URL

from gatewright.errors import ConfigurationError
from gatewright.models.apis.endpoints import Endpoint, key_header, upstream_url
from gatewright.models.gateway.key_scrubber import KeyScrubber
from gatewright.models.gateway.limits import GatewayLimits
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
