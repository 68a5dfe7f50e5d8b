"""Attempts of an installer to leave a pull: each is refused, its honest form passes, and without its rule it arrives."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from yarl import URL

from gatewright.egress import gateway, upstream
from gatewright.egress.authority import PullAuthority
from gatewright.egress.policy import EgressSource
from gatewright.egress.request_head import RequestHead
from gatewright.egress.upstream import Exchange, Upstream
from tests.egress.attempts import HONEST, PAGE, ROWS, Attempt
from tests.egress.registry import Door, RefusedTunnelError, Registry, served

#: Attempts that several rules refuse: without the first one that does, the next one does.
SEVERAL = {
    # The policy has no such host or port, and TLS, the resolver or the parser refuses this form of it.
    *("6to4 address", "decimal address", "empty label", "link-local address with a zone", "loopback of version 6"),
    *("mapped address", "nat64 address", "octal address", "short address", "user", "user before the host", "homograph"),
    *("negative port", "path in connect", "port beyond all", "port with a zero", "port zero", "two ports"),
    # TLS and ``Host`` name other hosts.
    "fronting by all three",
    # The path is not plain, and the address has no canonical form.
    *("absolute form with another host", "path with backslash"),
    # No other scheme belongs to a source.
    *("file", "ftp"),
    # The head ends before ``Host``, which is then missing.
    *("http 2 preface", "line feeds only", "long target"),
}


async def send(door: Door, registry: Registry, attempt: Attempt) -> int:
    """Return the status of the answer; 0 without one."""
    port = registry.port
    try:
        if attempt.tunnel is None:
            return (await door.ask_plainly(attempt.text(port))).status
        return (await door.ask(attempt.tunnel.replace("{port}", str(port)), attempt.text(port), attempt.sni)).status
    except RefusedTunnelError as refused:
        return refused.reply.status
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError, UnicodeError):
        return 0


@pytest.mark.every_case
@pytest.mark.parametrize("name", sorted(ROWS))
async def test_a_bypass_is_refused_and_its_honest_form_passes(registry: Registry, name: str) -> None:
    attempt, code = ROWS[name]
    async with served(registry) as door:
        assert await send(door, registry, attempt) in {0, 403}
        line = (await door.logged(1))[-1]
        assert (line.decision, line.reason) == ("refused", code)
        assert registry.seen == []
        assert await send(door, registry, HONEST) == 200
        assert registry.paths == [f"GET {PAGE}"]


def certificate_of(authority: PullAuthority, host: str, see: Callable[[str | None], None]) -> ssl.SSLContext:
    context = CERTIFIED(authority, host, see)
    context.sni_callback = None
    return context


CERTIFIED = PullAuthority.context


def source_of_any(sent: Upstream, scheme: str, host: str, port: int) -> EgressSource:
    del scheme, host, port
    return sent._sources[0]


def head_of_anything(data: bytes, **_: bool) -> RequestHead:
    """Read a head as a generous server does that reads no body."""
    first, *lines = re.split("\r\n|[\r\n]", data.decode("latin-1"))
    words, headers = [*first.split(), "", ""], (line.partition(":") for line in reversed(lines))
    fields = {name.strip().lower(): value.strip() for name, _, value in headers}
    return RequestHead(words[0].upper(), words[1], 1, {name: fields[name] for name in fields if name != "content-length"})


def address_of_anything(_: object, head: RequestHead, tunnel: Any, exchange: Exchange) -> URL:
    del exchange
    place = tunnel.authority if tunnel else head.headers["host"]
    return URL(head.target) if "://" in head.target else URL(f"https://{place}/{head.target.lstrip('/')}", encoded=True)


#: By reason, or attempt: the function that judges, and one in its place that permits everything.
OFF: dict[str, tuple[tuple[object, str, object], ...]] = {
    "egress_host_mismatch": ((gateway._Site, "check_host", lambda *_, **__: None),),
    **dict.fromkeys(("fronting by sni", "no server name"), ((PullAuthority, "context", certificate_of),)),
    "egress_host_refused": ((Upstream, "judge_host", source_of_any),),
    "egress_method_refused": ((gateway, "_METHODS", {name.split()[-1] for name in ROWS if name.startswith("method ")}),),
    "egress_address_refused": tuple((module, "is_plain_path", lambda _: True) for module in (gateway, upstream)),
    **dict.fromkeys(
        ("old version", "asterisk", "absolute form with the same host", "own door", "https without a tunnel"),
        ((gateway.EgressGateway, "_parse_address", address_of_anything),),
    ),
    "egress_request_malformed": ((gateway, "parse_head", head_of_anything),),
    "canary_leaked": ((gateway, "canary_spans", lambda _: ()),),
}


def lead_everywhere(patch: pytest.MonkeyPatch, door: Door, registry: Registry) -> list[tuple[str, int]]:
    """Let each address lead to the registry, which has a certificate for it. Return the addresses that are connected to."""
    loop, reached = asyncio.get_running_loop(), list[tuple[str, int]]()
    connect = loop.sock_connect

    async def redirected(sock: socket.socket, address: tuple[str, int]) -> None:
        if address[1] != door.port:
            reached.append(address)
            address = ("::ffff:127.0.0.1" if sock.family == socket.AF_INET6 else "127.0.0.1", registry.port)
        await connect(sock, address)

    patch.setattr(loop, "sock_connect", redirected)
    assert registry.trust is not None
    registry.trust.check_hostname, registry.trust.verify_mode = False, ssl.CERT_NONE
    return reached


@pytest.mark.every_case
@pytest.mark.parametrize("name", sorted(ROWS))
async def test_without_its_rule_a_bypass_arrives(registry: Registry, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    attempt, code = ROWS[name]
    async with served(registry) as door:
        reached = lead_everywhere(monkeypatch, door, registry)
        for place, function, permissive in OFF.get(name) or OFF[code]:
            monkeypatch.setattr(place, function, permissive)
        await send(door, registry, attempt)
    assert bool(reached) == (name not in SEVERAL), reached
