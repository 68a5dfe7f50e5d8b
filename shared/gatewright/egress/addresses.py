"""Addresses in one canonical form, and connections to an IP address that was judged.

An address is parsed once, and requests are built from its parts. A host is resolved once, and the connection goes to the
judged IP address: a name server that answers differently later has no effect.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from gatewright.patterns import TextPattern

#: Characters of an address.
LONGEST: Final = 2000
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
#: IPv6 prefixes that lead to IPv4 addresses; not all versions of Python exclude them.
_NAT64: Final = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_PATH: Final = TextPattern(r"(?:/(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[2-7][0-9A-Fa-f])*)+")
#: Encoded: a percent sign, a dot, separators of some servers, DEL.
_ENCODED: Final = TextPattern(r"(?i)%(?:25|2e|2f|3b|5c|7f)")
#: npm encodes the separator of a scoped name.
_SCOPED: Final = TextPattern(r"(/@[A-Za-z0-9_.~-]+)%2[fF]")

#: Returns the IP addresses of a host.
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


def canonical_address(text: str) -> URL:
    """Return the canonical form of an absolute address. The fragment is left out: it never reaches a server.

    Raises ValueError for text that programs could read differently, and for an address with a user.
    """
    if len(text) > LONGEST or not text.isprintable() or "\\" in text:
        raise ValueError(f"{text[:200]!r} is too long, or has characters that no address has")
    try:
        url = URL(text).with_fragment(None)
        host = (url.raw_host or "").rstrip(".")
        url = url.with_host(host) if host else url
    except ValueError as error:
        raise ValueError(f"{text[:200]!r} is no address: {error}") from error
    if not host or url.user is not None or url.password is not None:
        raise ValueError(f"{text[:200]}: an address has a host and no user")
    return url


@lru_cache(maxsize=256)  # the path of each request is judged twice
def is_plain_path(path: str) -> bool:
    """Return whether all servers read the raw path alike: no empty or dot segments, no encoded separators or controls."""
    path = _SCOPED.replaced(path, r"\1/") if "%" in path else path
    segments = path.split("/")[1:]
    encoded = "%" in path and _ENCODED.is_in(path)
    return bool(_PATH.fullmatch(path) is not None and not encoded and "" not in segments[:-1] and not {".", ".."} & {*segments})


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Return the IP addresses of a host, each once, as the system's resolver orders them."""
    answers = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in answers))


async def resolve_once(host: str, port: int, *, private: bool, resolve: Resolve = resolve_host) -> str:
    """Return the one IP address that the connection goes to.

    Raises ValueError if any address of the host is not public, unless ``private``.
    """
    addresses = await resolve(host, port)
    for each in addresses:
        if not private and not is_public_address(each):
            raise ValueError(f"{host} resolves to {each}, which is no public address")
    if not addresses:
        raise OSError(f"{host} has no address")
    return addresses[0]


def is_public_address(address: str) -> bool:
    """Return whether an IP address belongs to the public internet."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(ip, "ipv4_mapped", None) or getattr(ip, "sixtofour", None)
    if ip.is_multicast or any(ip in each for each in _NAT64):
        return False
    return ip.is_global and (inner is None or inner.is_global)


class PinnedResolver(AbstractResolver):
    """Resolves hosts to their judged addresses: ``pins`` has one by host and port."""

    def __init__(self, pins: Mapping[tuple[str, int], str]) -> None:
        self._pins = pins

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[ResolveResult]:  # noqa: ARG002
        ip = self._pins.get((host, port))
        if ip is None:
            raise OSError(f"{host} was not judged")
        kind = socket.AF_INET6 if ":" in ip else socket.AF_INET
        return [ResolveResult(hostname=host, host=ip, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST)]

    async def close(self) -> None:
        return None
