"""The only way of a searcher to the network: GET, permitted hosts, one resolution, no redirect without a new judgement.

Addresses and connections are those of ``gatewright.egress.addresses``. No proxy, cookie, credential, referrer or compression
is used.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urljoin

import aiohttp
import msgspec
from yarl import URL

from gatewright.clock import Clock, timestamp
from gatewright.egress.addresses import LONGEST, REDIRECTS, PinnedResolver, canonical_address, resolve_once
from gatewright.errors import DeniedError, UnavailableError
from gatewright.research.port import REFUSED, UNAVAILABLE, FetchedSource, RefusedBySiteError
from gatewright.version import __version__

if TYPE_CHECKING:
    from gatewright.research.policy import ResearchPolicy, SearchService


# Answers from the network, kept by service and address: the same question within the hours of the policy sends no request.

#: Files that are kept; the oldest go first.
_MOST: Final = 2000


class AnswerStore:
    """A folder of one process. Files that cannot be read are ignored: they cost a request."""

    def __init__(self, folder: Path, hours: int, clock: Clock) -> None:
        self._folder = folder
        self._kept = timedelta(hours=hours)
        self._clock = clock

    def find(self, service: str, address: str) -> FetchedSource | None:
        """Return a kept answer that is young enough. Slow: use a thread."""
        try:
            source = msgspec.msgpack.decode(self._file_of(service, address).read_bytes(), type=FetchedSource)
            young = self._clock.now() - datetime.fromisoformat(source.retrieved_at) < self._kept
        except (OSError, ValueError):  # includes msgspec's own errors
            return None
        return source if young else None

    def keep(self, service: str, address: str, source: FetchedSource) -> None:
        """Keep an answer. A full disk only costs the next request. Slow: use a thread."""
        if not self._kept:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path = self._file_of(service, address)
            fresh = path.with_suffix(f".{os.getpid()}")
            fresh.write_bytes(msgspec.msgpack.encode(source))
            fresh.replace(path)
            by_age = sorted(self._folder.iterdir(), key=lambda each: each.stat().st_mtime)
            for old in by_age[:-_MOST]:
                old.unlink(missing_ok=True)

    def _file_of(self, service: str, address: str) -> Path:
        return self._folder / hashlib.sha256(f"{service}\0{address}".encode()).hexdigest()


_MOST_REDIRECTS: Final = 5


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request, allowed or refused: a line of the research log.

    ``status`` 0: there was no answer. ``stored``: a kept answer was used, and nothing was sent.
    """

    service: str
    address: str
    status: int = 0
    ip: str = ""
    bytes: int = 0
    refused: str = ""
    stored: bool = False


class GetClient:
    """Sends the requests of one task to one service's hosts.

    Args:
        service: the service, with its hosts.
        limits: the policy, with the limits of one request.
        record: receives each request after it ended.
        store: the answers of earlier requests.
        clock: gives the time of retrieval.
    """

    def __init__(
        self,
        service: SearchService,
        limits: ResearchPolicy,
        record: Callable[[RequestRecord], None],
        store: AnswerStore,
        clock: Clock,
    ) -> None:
        self._service = service
        self._limits = limits
        self._record = record
        self._store = store
        self._clock = clock

    async def get(self, address: str, *, own: bool = False) -> FetchedSource:
        """Return what ``address`` answers.

        Args:
            address: an absolute address.
            own: it is the service's own address, which needs no permitted host.

        Raises:
            DeniedError: the address, or one that it redirects to, is not allowed (``research_address_refused``).
            UnavailableError: there is no usable answer (``research_source_unavailable``).
        """
        first, name = address, self._service.name
        kept = await asyncio.to_thread(self._store.find, name, first)
        if kept is not None:
            self._record(RequestRecord(name, kept.address, 200, bytes=len(kept.content), stored=True))
            return kept
        for _ in range(_MOST_REDIRECTS + 1):
            try:
                async with asyncio.timeout(self._limits.seconds):
                    answer = await self._get(address, own=own)
            except DeniedError as error:
                self._record(RequestRecord(self._service.name, address[:LONGEST], refused=error.message))
                raise
            except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
                self._record(RequestRecord(self._service.name, address))
                cause = str(error) or type(error).__name__
                raise UnavailableError(f"{address[:200]} gave no answer: {cause[:200]}", code=UNAVAILABLE) from error
            if isinstance(answer, FetchedSource):
                await asyncio.to_thread(self._store.keep, name, first, answer)
                return answer
            address = urljoin(address, answer)
        raise UnavailableError(f"{address[:200]}: more than {_MOST_REDIRECTS} redirects", code=UNAVAILABLE)

    def may_fetch(self, address: str) -> bool:
        """Return whether the policy allows the address; its host is not resolved."""
        try:
            self._judge(address, own=False)
        except DeniedError:
            return False
        return True

    async def _get(self, address: str, *, own: bool) -> FetchedSource | str:
        """Return the answer, or the address that it redirects to."""
        url = self._judge(address, own=own)
        host, port = str(url.raw_host), int(url.port or 443)
        try:
            ip = await resolve_once(host, port, private=self._service.private)
        except ValueError as error:
            raise DeniedError(str(error), code=REFUSED) from error
        resolver = PinnedResolver({(host, port): ip})
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, limit=1, force_close=True)
        headers = {"User-Agent": f"gatewright/{__version__}", "Accept": "text/html, text/*, application/json"}
        headers["Accept-Encoding"] = "identity"
        async with (
            aiohttp.ClientSession(
                connector=connector, trust_env=False, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.get(url, headers=headers, allow_redirects=False) as reply,
        ):
            if reply.status in REDIRECTS and "Location" in reply.headers:
                self._record(RequestRecord(self._service.name, str(url), reply.status, ip))
                return reply.headers["Location"][:LONGEST]
            content = await self._content(reply)
            self._record(RequestRecord(self._service.name, str(url), reply.status, ip, len(content)))
            if reply.status != 200:
                kind = RefusedBySiteError if reply.status == 403 else UnavailableError
                raise kind(f"{address[:200]} answered {reply.status}", code=UNAVAILABLE)
            media_type = reply.headers.get("Content-Type", "")[:200]
            return FetchedSource(str(url), content, media_type, timestamp(self._clock.now()))

    async def _content(self, reply: aiohttp.ClientResponse) -> bytes:
        if reply.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise UnavailableError(f"{reply.url} answered with a compression that was not asked for", code=UNAVAILABLE)
        parts, size = [], 0
        async for part in reply.content.iter_any():
            size += len(part)
            if size > self._limits.bytes:
                raise UnavailableError(f"{reply.url} has more than {self._limits.bytes} bytes", code=UNAVAILABLE)
            parts.append(part)
        return b"".join(parts)

    def _judge(self, address: str, *, own: bool) -> URL:
        """Return the canonical form of an allowed address. The fragment is left out: it never reaches a server."""
        try:
            url = canonical_address(address)
        except ValueError as error:
            raise DeniedError(str(error), code=REFUSED) from error
        host = str(url.raw_host)
        private = self._service.private
        own = own and str(url).startswith(self._service.base_url + "/")
        port = URL(self._service.base_url).port if own else {"https": 443, "http": 80}.get(url.scheme)
        if url.scheme not in ({"https", "http"} if private else {"https"}):
            raise DeniedError(f"{address[:200]}: only https addresses are allowed", code=REFUSED)
        if url.port != port and not private:
            raise DeniedError(f"{address[:200]}: an address has the port of its scheme", code=REFUSED)
        if not own and not self._service.allows(host):
            words = f"{host[:200]} is no host of {self._service.name} in research.json"
            raise DeniedError(words, code=REFUSED)
        return url
