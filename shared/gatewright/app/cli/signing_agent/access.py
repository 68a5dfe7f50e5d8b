"""Who may ask the agent: pages of the consoles that were named, with the code that the agent has printed. Nothing is asked of a
person before that is sure.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from gatewright.app.http_access import is_loopback
from gatewright.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class AgentAccess:
    """``hosts``: what ``Host`` may say, so that a name which leads here is not enough. ``origins``: the consoles' own."""

    hosts: frozenset[str]
    origins: frozenset[str]
    code: str

    def knows_place(self, host: str | None, origin: str | None) -> bool:
        """Whether a browser asks from a page of a console that was named, and asked for this address."""
        return host in self.hosts and origin in self.origins

    def knows_code(self, authorization: str | None) -> bool:
        """Whether the page was given the code by the person."""
        return hmac.compare_digest((authorization or "").encode(), f"Bearer {self.code}".encode())

    def answers(self, origin: str) -> Mapping[str, str]:
        """The headers by which a browser lets this page read an answer, and no other."""
        return {
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": "authorization, content-type",
            "Access-Control-Allow-Private-Network": "true",
            "Access-Control-Max-Age": "600",
            "Vary": "Origin",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        }


def origin_of(address: str) -> str:
    """The origin of a console's address, as a browser writes it. Raises ConfigurationError for one without TLS elsewhere."""
    parts = urlsplit(address)
    try:
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    known = {"http": 80, "https": 443}
    if parts.scheme not in known or not host:
        raise ConfigurationError(f"{address} is no address of a console: https://HOST", code="configuration_invalid")
    if parts.scheme == "http" and not is_loopback(host):
        words = f"{address} is reached without TLS: others on the way could have it sign; name it by https://"
        raise ConfigurationError(words, code="configuration_invalid")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + (f":{port}" if port not in {None, known[parts.scheme]} else "")


def agent_origin(address: str) -> str:
    """The origin of signing agents, which is each reader's own host. Raises ConfigurationError for another host."""
    origin = origin_of(address)
    if not is_loopback((urlsplit(origin).hostname or "").strip("[]")):
        words = f"{address}: a signing agent is where the person sits: http://127.0.0.1:8791"
        raise ConfigurationError(words, code="configuration_invalid")
    return origin
