"""The only way of a searcher to the network: GET, permitted hosts, one resolution, no redirect without a new judgement.

A request is built from the parsed parts of an address, never relayed. Addresses are resolved once, and the connection goes to
the judged IP address. No proxy, cookie, credential, referrer or compression is used.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gatewright.clock import Clock, timestamp
from gatewright.errors import DeniedError, UnavailableError
from gatewright.research.port import REFUSED, UNAVAILABLE, FetchedSource
from gatewright.version import __version__

if TYPE_CHECKING:
    from gatewright.research.answer_store import AnswerStore
    from gatewright.research.policy import ResearchPolicy, SearchService

#: IPv6 prefixes that lead to IPv4 addresses; not all versions of Python exclude them.
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_MOST_REDIRECTS: Final = 5
_LONGEST: Final = 2000
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


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
                self._record(RequestRecord(self._service.name, address[:_LONGEST], refused=error.message))
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
        ip = await self._resolve(host, port)
        connector = aiohttp.TCPConnector(resolver=_Pinned(host, ip), use_dns_cache=False, limit=1, force_close=True)
        headers = {"User-Agent": f"gatewright/{__version__}", "Accept": "text/html, text/*, application/json"}
        headers["Accept-Encoding"] = "identity"
        async with (
            aiohttp.ClientSession(
                connector=connector, trust_env=False, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.get(url, headers=headers, allow_redirects=False) as reply,
        ):
            if reply.status in _REDIRECTS and "Location" in reply.headers:
                self._record(RequestRecord(self._service.name, str(url), reply.status, ip))
                return reply.headers["Location"][:_LONGEST]
            content = await self._content(reply)
            self._record(RequestRecord(self._service.name, str(url), reply.status, ip, len(content)))
            if reply.status != 200:
                raise UnavailableError(f"{address[:200]} answered {reply.status}", code=UNAVAILABLE)
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
        if len(address) > _LONGEST or not address.isprintable() or "\\" in address:
            raise DeniedError(f"{address[:200]!r} is too long, or has characters that no address has", code=REFUSED)
        try:
            url = URL(address).with_fragment(None)
            host = (url.raw_host or "").rstrip(".")
            url = url.with_host(host) if host else url
        except ValueError as error:
            raise DeniedError(f"{address[:200]!r} is no address: {error}", code=REFUSED) from error
        private = self._service.private
        own = own and str(url).startswith(self._service.base_url + "/")
        port = URL(self._service.base_url).port if own else {"https": 443, "http": 80}.get(url.scheme)
        if url.scheme not in ({"https", "http"} if private else {"https"}) or not host:
            raise DeniedError(f"{address[:200]}: only https addresses are allowed", code=REFUSED)
        if url.user is not None or url.password is not None or (url.port != port and not private):
            raise DeniedError(f"{address[:200]}: an address has no user, and the port of its scheme", code=REFUSED)
        if not own and not self._service.allows(host):
            words = f"{host[:200]} is no host of {self._service.name} in research.json"
            raise DeniedError(words, code=REFUSED)
        return url

    async def _resolve(self, host: str, port: int) -> str:
        """Return the one IP address that the connection goes to."""
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        for each in addresses:
            if not self._service.private and not _is_public(each):
                raise DeniedError(f"{host} resolves to {each}, which is no public address", code=REFUSED)
        return addresses[0]


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None)
    if ip.is_multicast or any(ip in each for each in _NAT64):
        return False
    return ip.is_global and (inner is None or inner.is_global)


class _Pinned(AbstractResolver):
    """Resolves one host to the judged address."""

    def __init__(self, host: str, ip: str) -> None:
        self._host = host
        self._ip = ip

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[ResolveResult]:  # noqa: ARG002
        if host != self._host:
            raise OSError(f"{host} was not judged")
        kind = socket.AF_INET6 if ":" in self._ip else socket.AF_INET
        return [ResolveResult(hostname=host, host=self._ip, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)]

    async def close(self) -> None:
        return None
