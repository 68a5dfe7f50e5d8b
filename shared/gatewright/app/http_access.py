"""Common parts of HTTP servers: the token in a file, their permitted addresses, bounded bodies and rates. They have no TLS."""

from __future__ import annotations

import os
import socket
import stat
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from gatewright.errors import ConfigurationError, MalformedError, UnavailableError

#: Minimum characters of a token: 32 hexadecimal digits are 128 bits.
_SHORTEST_TOKEN = 32
#: Connections that wait to be accepted; the default of uvicorn.
_BACKLOG = 2048
#: Maximum number of buckets; the least recently used is removed.
_MOST_BUCKETS: Final = 1_000
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def read_address(text: str) -> tuple[str, int]:
    """Parse ``HOST:PORT`` into host and port. Raises ConfigurationError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise ConfigurationError(f"{text} is no address: 127.0.0.1:8765, for instance", code="configuration_invalid")
    return host.strip("[]"), int(port)


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket. Raises UnavailableError (``address_unavailable``)."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        words = f"{host}:{port} cannot be served: {error.strerror or error}"
        raise UnavailableError(words, code="address_unavailable") from error


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached only from this host."""
    return host in _LOOPBACK


def read_private_text(file: Path) -> str:
    """Read a file that other accounts of this host may not read, up to 4,096 characters. Raises ConfigurationError."""
    try:
        with file.open(encoding="ascii") as opened:
            facts = os.fstat(opened.fileno())
            text = opened.read(4096).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} cannot be read: {error}", code="configuration_invalid") from error
    if is_open_to_others(facts.st_mode, facts.st_uid, os.geteuid()):
        raise ConfigurationError(f"{file} may be read by others: chmod 600 {file}", code="configuration_invalid")
    return text


def is_open_to_others(mode: int, owner: int, account: int) -> bool:
    """Return whether accounts other than ``account`` may read or change a file.

    A Secret of a cluster belongs to root, and only the group of the pod may read it.
    """
    theirs = stat.S_IRWXG | stat.S_IRWXO
    return bool(mode & (theirs & ~stat.S_IRGRP if owner == 0 and account != 0 else theirs))


def read_token(file: Path) -> str:
    """Read a token from a file that other accounts of this host may not read. Raises ConfigurationError."""
    token = read_private_text(file)
    if len(token) < _SHORTEST_TOKEN or not token.isalnum():
        words = f"{file} holds no token: {_SHORTEST_TOKEN} letters and digits or more, for instance of `openssl rand -hex 32`"
        raise ConfigurationError(words, code="configuration_invalid")
    return token


def check_address(host: str, *, behind_proxy: bool) -> None:
    """Raise ConfigurationError for an address that others can reach, unless a proxy provides TLS for it."""
    if host not in _LOOPBACK and not behind_proxy:
        words = (
            f"{host} can be reached by others, and this server speaks no TLS: put a proxy that does before it (--behind-proxy)"
        )
        raise ConfigurationError(words, code="configuration_invalid")


class StreamedBody(Protocol):
    """A request whose body arrives in parts."""

    def stream(self) -> AsyncIterator[bytes]: ...


async def read_body(request: StreamedBody, most: int) -> bytes:
    """Read a body of at most ``most`` bytes. Raises MalformedError for a longer one, without reading all of it."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise MalformedError(f"more than {most} bytes were sent", code="malformed")
    return bytes(body)


@dataclass(slots=True)
class AskingRate:
    """One token bucket for each client. ``clock``: monotonic seconds; ``burst``: requests at once."""

    clock: Callable[[], float]
    burst: float
    each_second: float
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def wait_of(self, who: str) -> float:
        """Take one request of ``who``; return 0, or the seconds to wait, if none was available to take."""
        now = self.clock()
        left, at = self._buckets.pop(who, (self.burst, now))
        left = min(self.burst, left + (now - at) * self.each_second)
        wait = 0.0 if left >= 1.0 else (1.0 - left) / self.each_second
        self._buckets[who] = (left if wait else left - 1.0, now)
        while len(self._buckets) > _MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return wait
