"""The gateway as honest installers see it, and connections that are no requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from gatewright.clock import SystemClock
from gatewright.egress.allowed import AnyAddress
from gatewright.egress.gateway import EgressGateway
from gatewright.egress.policy import EgressPolicy, EgressSource
from gatewright.egress.record import EgressLog, EgressRecord, parse_egress_log
from gatewright.errors import ConfigurationError
from tests.egress.registry import (
    FILES,
    INDEX,
    OTHER,
    RefusedTunnelError,
    Registry,
    get,
    read_body,
    read_head,
    served,
    standard,
)
from tests.git.access.servers import make_certificate


async def test_an_installer_reads_a_page_of_a_registry(registry: Registry) -> None:
    async with served(registry) as door:
        reply = await door.ask(f"{INDEX}:{registry.port}", get(registry, "/simple/demo/"))
    assert (reply.status, reply.body, reply.cut) == (200, b"index", False)
    assert registry.paths == ["GET /simple/demo/"]
    line = door.log[0]
    assert (line.source, line.host, line.ip, line.path) == ("index", f"{INDEX}:{registry.port}", "127.0.0.1", "/simple/demo/")
    assert (line.status, line.bytes, line.decision, line.reason) == (200, 5, "allowed", "")
    assert line.sha256 == hashlib.sha256(b"index").hexdigest()


async def test_a_connection_serves_several_requests(registry: Registry) -> None:
    async with served(registry) as door:
        reader, writer = await door.tunnel(f"{INDEX}:{registry.port}")
        writer.write((get(registry, "/file", method="HEAD") + get(registry, "/missing") + get(registry, "/file")).encode())
        first = await read_head(reader)
        bodies = [(await read_body(reader, await read_head(reader))).body for _ in range(2)]
        writer.transport.abort()
        assert [each.status for each in await door.logged(3)] == [200, 404, 200]
    assert (first.headers["content-length"], bodies) == ("7", [b"missing", b"content"])
    assert registry.paths == ["HEAD /file", "GET /missing", "GET /file"]


async def test_a_pipelined_request_to_another_host_is_refused(registry: Registry) -> None:
    async with served(registry) as door:
        reader, writer = await door.tunnel(f"{INDEX}:{registry.port}")
        writer.write((get(registry, "/file") + get(registry, "/file", OTHER) + get(registry, "/file")).encode())
        replies = [await read_body(reader, await read_head(reader)) for _ in range(2)]
        assert await reader.read() == b""
        writer.transport.abort()
    assert [each.status for each in replies] == [200, 403]
    assert json.loads(replies[1].body)["code"] == "egress_host_mismatch"
    assert registry.paths == ["GET /file"]


async def test_old_clients_may_connect_without_a_host_header(registry: Registry) -> None:
    async with served(registry) as door:
        reader, writer = await door.connect()
        writer.write(f"CONNECT {INDEX}:{registry.port} HTTP/1.0\r\n\r\n".encode())
        await door.secure(reader, writer, INDEX)
        writer.write(get(registry, "/file").encode())
        assert (await read_head(reader)).status == 200
        writer.transport.abort()


async def test_connect_and_its_host_header_name_one_host(registry: Registry) -> None:
    async with served(registry) as door:
        reply = await door.ask_plainly(f"CONNECT {INDEX}:{registry.port} HTTP/1.1\r\nHost: {FILES}:{registry.port}\r\n\r\n")
    assert (reply.status, json.loads(reply.body)["code"]) == (403, "egress_host_mismatch")


async def test_a_refusal_names_host_rule_and_remedy(registry: Registry) -> None:
    async with served(registry) as door:
        with pytest.raises(RefusedTunnelError) as caught:
            await door.tunnel("pastebin.example:443", "pastebin.example")
    body = caught.value.reply.body
    assert body.endswith(b"}\n")
    assert body.count(b"\n") == 1
    answer = json.loads(body)
    assert answer["code"] == "egress_host_refused"
    assert "pastebin.example:443" in answer["message"]
    assert "egress.json" in answer["message"]


async def test_only_known_headers_reach_the_registry(registry: Registry) -> None:
    sent = [
        *(
            "Authorization: Basic eDp5",
            "Proxy-Authorization: Basic eDp5",
            "Cookie: a=b",
            "User-Agent: secret",
            "X-Data: secret",
        ),
        *("Accept: application/secret, application/vnd.npm.install-v1+json", "Accept-Encoding: br", "Referer: https://x/"),
        *("Range: bytes=0-1", 'If-None-Match: "secret"', "Accept-Language: secret"),
    ]
    async with served(registry) as door:
        reply = await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file", INDEX, *sent))
    assert reply.body == b"content"
    headers = registry.seen[0].headers
    assert {*headers} == {"Host", "User-Agent", "Accept", "Accept-Encoding"}
    assert headers["Accept"].startswith("application/vnd.npm.install-v1+json")
    assert headers["Accept-Encoding"] == "identity"
    assert "secret" not in str(headers)


async def test_only_known_headers_reach_the_installer(registry: Registry) -> None:
    registry.pages["/file"] = {
        "body": b"content",
        "headers": {"Set-Cookie": "a=b", "WWW-Authenticate": "Basic", "Alt-Svc": 'h3=":443"', "ETag": '"1"', "X-Any": "x"},
    }
    async with served(registry) as door:
        reader, writer = await door.tunnel(f"{INDEX}:{registry.port}")
        writer.write((get(registry, "/file") * 2).encode())
        replies = [await read_body(reader, await read_head(reader)) for _ in range(2)]
        writer.transport.abort()
    assert {*replies[0].headers} == {"etag", "content-type", "content-length", "connection"}
    assert "Cookie" not in registry.seen[1].headers


SECRETS = {"user:key": "Basic dXNlcjprZXk=", "token": "Bearer token", "Token abc": "Token abc"}


@pytest.mark.parametrize("secret", sorted(SECRETS))
async def test_credentials_reach_the_hosts_of_their_source_only(registry: Registry, secret: str) -> None:
    sources = standard(registry, credential="REGISTRY_KEY")
    async with served(registry, sources=sources, secrets={"REGISTRY_KEY": secret}) as door:
        reply = await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file", INDEX, "Authorization: Basic own"))
        other = await door.ask(f"{OTHER}:{registry.port}", get(registry, "/file", OTHER, "Authorization: Basic own"), OTHER)
    assert (reply.status, other.status) == (200, 200)
    assert [each.headers.get("Authorization") for each in registry.seen] == [SECRETS[secret], None]
    assert secret not in str(door.log) + str(reply)


@pytest.mark.parametrize("secrets", [{}, {"REGISTRY_KEY": "a\r\nHost: x"}, {"REGISTRY_KEY": " "}, {"REGISTRY_KEY": "k\xe9y"}])
async def test_an_unusable_credential_ends_the_pull_before_it(registry: Registry, secrets: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        async with served(registry, sources=standard(registry, credential="REGISTRY_KEY"), secrets=secrets):
            pass
    assert caught.value.reason == "egress_credential_missing"
    assert "Host" not in caught.value.message


async def test_http_is_served_for_sources_that_permit_it() -> None:
    async with Registry({"/simple/demo/": b"index"}).serving(tls=False) as registry:
        line = f"GET http://{INDEX}:{registry.port}/simple/demo/ HTTP/1.1\r\n"
        good = line + f"Host: {INDEX}:{registry.port}\r\n\r\n"
        async with served(registry, sources=standard(registry, http=True)) as door:
            assert (await door.ask_plainly(line + f"Host: {OTHER}:{registry.port}\r\n\r\n")).status == 403
            assert (await door.ask_plainly(good.replace(INDEX, f"user@{INDEX}"))).status == 403
            assert (await door.ask_plainly(good)).body == b"index"
        assert [each.reason for each in door.log] == ["egress_host_mismatch", "egress_host_refused", ""]
        async with served(registry) as door:
            assert (await door.ask_plainly(good)).status == 403
    assert len(registry.seen) == 1


async def test_an_address_is_served_where_a_private_source_names_it() -> None:
    async with Registry({"/file": b"content"}).serving(tls=False) as registry:
        source = EgressSource(name="own", hosts=(f"127.0.0.1:{registry.port}",), private=True, http=True)
        place = f"127.0.0.1:{registry.port}"
        async with served(registry, sources=(*standard(registry), source)) as door:
            reply = await door.ask_plainly(f"GET http://{place}/file HTTP/1.1\r\nHost: {place}\r\n\r\n")
            twisted = await door.ask_plainly(f"GET http://2130706433:{registry.port}/file HTTP/1.1\r\nHost: {place}\r\n\r\n")
    assert (reply.body, twisted.status) == (b"content", 403)


PRIVATE = ["127.0.0.1", "10.0.0.8", "169.254.169.254", "100.64.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.8", "fd00::1"]
PRIVATE += ["0.0.0.1", "224.0.0.1", "2002:a00:8::1", "64:ff9b::a00:8", "203.0.113.80"]


@pytest.mark.every_case
@pytest.mark.parametrize("ip", PRIVATE)
async def test_one_private_address_of_a_public_source_refuses_it(registry: Registry, ip: str) -> None:
    sources = standard(registry, private=False)
    async with served(registry, sources=sources, addresses={INDEX: ["93.184.215.14", ip]}) as door:
        reply = await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file"))
        assert (reply.status, json.loads(reply.body)["code"]) == (403, "egress_ip_refused")
    async with served(registry, addresses={INDEX: ["127.0.0.1", ip]}) as door:
        assert (await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file"))).status == 200


async def test_a_host_is_resolved_once_in_a_pull(registry: Registry) -> None:
    addresses = {INDEX: ["127.0.0.1"]}
    async with served(registry, addresses=addresses) as door:
        for _ in range(2):
            assert (
                await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file", INDEX, "Connection: close"))
            ).status == 200
            addresses[INDEX] = ["192.0.2.1"]
    assert [each.ip for each in door.log] == ["127.0.0.1"] * 2


async def test_a_refused_host_is_not_resolved(registry: Registry) -> None:
    addresses: dict[str, Any] = {}
    async with served(registry, addresses=addresses) as door:
        with pytest.raises(RefusedTunnelError):
            await door.tunnel("c2VjcmV0.foreign.example:443", None)
        addresses[INDEX] = None  # a question would fail
        assert (await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file", method="POST"))).status == 403


async def test_a_client_without_tls_gets_nothing(registry: Registry) -> None:
    async with served(registry) as door:
        reader, writer = await door.connect()
        writer.write(f"CONNECT {INDEX}:{registry.port} HTTP/1.1\r\n\r\n".encode())
        assert (await read_head(reader)).status == 200
        writer.write(get(registry, "/file").encode())
        await reader.read()
        writer.transport.abort()
        assert (await door.logged(1))[0].reason == "egress_tls_refused"
    assert registry.seen == []


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
async def test_old_tls_is_refused(registry: Registry) -> None:
    async with served(registry) as door:
        context = door.context()
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        door.context = lambda: context  # type: ignore[method-assign]
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await door.tunnel(f"{INDEX}:{registry.port}")
        assert (await door.logged(1))[0].reason == "egress_tls_refused"
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert (await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file"))).status == 200


async def test_a_client_certificate_changes_nothing(registry: Registry, tmp_path: Path) -> None:
    make_certificate(tmp_path)
    async with served(registry) as door:
        context = door.context()
        context.load_cert_chain(tmp_path / "server.pem")
        door.context = lambda: context  # type: ignore[method-assign]
        assert (await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file"))).status == 200


async def test_a_client_that_never_speaks_is_left(registry: Registry) -> None:
    async with served(registry, idle=0.05) as door:
        reader, writer = await door.connect()
        assert await reader.read() == b""
        writer.transport.abort()
        assert door.log == []
        reader, writer = await door.connect()
        writer.write(b"GET / HT")
        assert await reader.read() == b""
        writer.transport.abort()


async def test_requests_of_a_pull_are_limited(registry: Registry) -> None:
    async with served(registry, requests=2) as door:
        target = f"{INDEX}:{registry.port}"
        statuses = [(await door.ask(target, get(registry, "/file"))).status for _ in range(2)]
        with pytest.raises(RefusedTunnelError) as caught:
            await door.tunnel(target)
        reader, writer = await door.connect()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await read_head(reader)
        writer.transport.abort()
    assert (statuses, json.loads(caught.value.reply.body)["code"]) == ([200, 200], "egress_limit")
    assert [each.reason for each in door.log] == ["", "", "egress_limit"]


async def test_connections_are_limited(registry: Registry) -> None:
    async with served(registry) as door:
        held = [await door.connect() for _ in range(64)]
        for each in held:
            each[1].write(b"G")
        reader, writer = await door.connect()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await read_head(reader)
        for _, end in [*held, (reader, writer)]:
            end.transport.abort()


async def test_the_end_of_a_pull_closes_every_connection(registry: Registry) -> None:
    async with served(registry) as door:
        reader, writer = await door.tunnel(f"{INDEX}:{registry.port}")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError, ssl.SSLError)):
        await reader.readexactly(1)
    writer.transport.abort()
    with pytest.raises(ConnectionRefusedError):
        await door.connect()


async def test_a_log_that_cannot_be_written_ends_the_pull(registry: Registry) -> None:
    def refuse(_: EgressRecord) -> None:
        raise OSError("disk full")

    sources = standard(registry)
    gateway = EgressGateway(
        EgressPolicy(version="1", sources=sources), AnyAddress(), refuse, clock=SystemClock(), secrets={}, tls=registry.trust
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(gateway.serve(listening))
        _, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises(OSError, match="disk full"):
            await serving
        writer.transport.abort()


async def test_the_log_of_a_pull_is_a_verified_chain(registry: Registry, tmp_path: Path) -> None:
    log = EgressLog(tmp_path / "egress.log")
    async with served(registry, record=log.append) as door:
        await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file?key=secret"))
        await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file", method="PUT"))
    records = parse_egress_log(log.path.read_bytes(), log.head)
    assert [(each.n, each.method, each.decision) for each in records] == [(1, "GET", "allowed"), (2, "PUT", "refused")]
    assert "secret" not in log.path.read_text()
    assert records[0].path == f"/file?sha256={hashlib.sha256(b'key=secret').hexdigest()}"
