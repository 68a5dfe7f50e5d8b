"""Requests with a body, which only sources with further methods take."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gatewright.canary import new_canary
from gatewright.egress.gateway import Sending
from gatewright.egress.record import EgressLog, parse_egress_log
from tests.egress.registry import INDEX, Door, Registry, get, read_body, read_head, served, standard

POST: Mapping[str, tuple[str, ...]] = {"index": ("POST",)}


def posted(registry: Registry, body: bytes, *headers: str, method: str = "POST", length: str | None = None) -> bytes:
    size = f"Content-Length: {len(body) if length is None else length}"
    return get(registry, "/file", INDEX, size, *headers, method=method).encode() + body


async def ask(door: Door, registry: Registry, request: bytes) -> tuple[int, str]:
    """Send a request; return the status and the code of a refusal."""
    reply = await door.ask(f"{INDEX}:{registry.port}", request)
    return reply.status, json.loads(reply.body)["code"] if reply.status in {403, 502} else ""


@pytest.fixture
def bodies(registry: Registry) -> list[tuple[str, bytes, str]]:
    """The requests that arrive: method, body, media type."""
    seen: list[tuple[str, bytes, str]] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        seen.append((request.method, await request.read(), request.headers.get("Content-Type", "")))
        return web.Response(status=201, body=b"made")

    registry.pages["/file"] = answer
    return seen


async def test_a_body_arrives_and_is_recorded(registry: Registry, bodies: list[tuple[str, bytes, str]], tmp_path: Path) -> None:
    log = EgressLog(tmp_path / "log")
    async with served(registry, sending=Sending(POST, 100), record=log.append) as door:
        request = posted(registry, b'{"a": 1}', "Content-Type: application/json", "Authorization: Bearer mine")
        reply = await door.ask(f"{INDEX}:{registry.port}", request)
    assert (reply.status, reply.body) == (201, b"made")
    assert bodies == [("POST", b'{"a": 1}', "application/json")]
    assert "Authorization" not in registry.seen[0].headers
    (line,) = parse_egress_log((tmp_path / "log").read_bytes(), log.head)
    assert (line.method, line.sent, line.sent_sha256) == ("POST", 8, hashlib.sha256(b'{"a": 1}').hexdigest())


async def test_a_client_may_wait_for_leave_to_send(registry: Registry, bodies: list[tuple[str, bytes, str]]) -> None:
    async with served(registry, sending=Sending(POST, 100)) as door:
        reader, writer = await door.tunnel(f"{INDEX}:{registry.port}")
        writer.write(posted(registry, b"", "Expect: 100-continue", length="3"))
        assert (await read_head(reader)).status == 100
        writer.write(b"abc")
        assert (await read_body(reader, await read_head(reader))).status == 201
        writer.transport.abort()
    assert bodies == [("POST", b"abc", "application/octet-stream")]


async def test_a_second_request_cannot_hide_behind_a_body(registry: Registry, bodies: list[tuple[str, bytes, str]]) -> None:
    async with served(registry, sending=Sending(POST, 100)) as door:
        reader, writer = await door.tunnel(f"{INDEX}:{registry.port}")
        writer.write(posted(registry, b"abc") + posted(registry, b"hidden"))
        assert (await read_body(reader, await read_head(reader))).status == 201
        assert await reader.read() == b""
        writer.transport.abort()
    assert [body for _, body, _ in bodies] == [b"abc"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"method": "DELETE"}, "egress_method_refused"),
        ({"body": b"x" * 101}, "egress_limit"),
        ({"length": "+3"}, "egress_request_malformed"),
        ({"length": "03"}, "egress_request_malformed"),
        ({"headers": ("Transfer-Encoding: chunked",)}, "egress_request_malformed"),
        ({"headers": ("Expect: 200-ok",)}, "egress_request_malformed"),
        ({"method": "GET"}, "egress_request_malformed"),
        ({"method": "HEAD"}, "egress_request_malformed"),
        ({"body": f"token={new_canary()}".encode()}, "canary_leaked"),
    ],
    ids=["method", "size", "signed length", "padded length", "chunked", "expectation", "get", "head", "canary"],
)
async def test_a_body_against_the_rules_does_not_arrive(
    registry: Registry, bodies: list[tuple[str, bytes, str]], fields: dict[str, Any], code: str
) -> None:
    given = {"body": b"abc"} | fields
    request = posted(registry, given.pop("body"), *given.pop("headers", ()), **given)
    async with served(registry, sending=Sending(POST, 100)) as door:
        reply = await door.ask(f"{INDEX}:{registry.port}", request)
        assert reply.status == 403
        assert code in {"", *[each.reason for each in await door.logged(1)]}
        assert await ask(door, registry, posted(registry, b"honest")) == (201, "")
    assert [body for _, body, _ in bodies] == [b"honest"]


def chunked(registry: Registry, body: bytes, *headers: str) -> bytes:
    return get(registry, "/file", INDEX, "Transfer-Encoding: chunked", *headers, method="POST").encode() + body


async def test_a_body_in_chunks_arrives_whole(registry: Registry, bodies: list[tuple[str, bytes, str]]) -> None:
    async with served(registry, sending=Sending(POST, 100)) as door:
        assert await ask(door, registry, chunked(registry, b"3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n")) == (201, "")
    assert [body for _, body, _ in bodies] == [b"abc0123456789"]
    assert "Transfer-Encoding" not in registry.seen[0].headers


async def test_a_gzip_body_arrives_unpacked(registry: Registry, bodies: list[tuple[str, bytes, str]]) -> None:
    async with served(registry, sending=Sending(POST, 5000)) as door:
        request = posted(registry, gzip.compress(b"a" * 5000), "Content-Encoding: gzip")
        assert await ask(door, registry, request) == (201, "")
    assert [body for _, body, _ in bodies] == [b"a" * 5000]
    assert "Content-Encoding" not in registry.seen[0].headers


CHUNKS = {
    "no size": (b"\r\nabc\r\n0\r\n\r\n", "egress_request_malformed"),
    "an extension": (b"3;a=b\r\nabc\r\n0\r\n\r\n", "egress_request_malformed"),
    "a sign": (b"+3\r\nabc\r\n0\r\n\r\n", "egress_request_malformed"),
    "a prefix": (b"0x3\r\nabc\r\n0\r\n\r\n", "egress_request_malformed"),
    "a bare line feed": (b"3\nabc\r\n0\r\n\r\n", "egress_request_malformed"),
    "a short size": (b"2\r\nabc\r\n0\r\n\r\n", "egress_request_malformed"),
    "a trailer": (b"3\r\nabc\r\n0\r\nX-A: b\r\n\r\n", "egress_request_malformed"),
    "a long line": (b"3" * 70_000, "egress_request_malformed"),
    "too much": (b"3\r\nabc\r\n62\r\n" + b"x" * 98 + b"\r\n0\r\n\r\n", "egress_limit"),
    "a huge size": (b"ffffffff\r\nabc", "egress_limit"),
}


@pytest.mark.parametrize(("body", "code"), CHUNKS.values(), ids=CHUNKS.keys())
async def test_chunks_of_another_form_do_not_arrive(
    registry: Registry, bodies: list[tuple[str, bytes, str]], body: bytes, code: str
) -> None:
    async with served(registry, sending=Sending(POST, 100)) as door:
        assert await ask(door, registry, chunked(registry, body)) == (403, code)
        assert await ask(door, registry, posted(registry, b"honest")) == (201, "")
    assert [body for _, body, _ in bodies] == [b"honest"]


PACKED = {
    "a bomb": (gzip.compress(b"a" * 5001), "egress_limit"),
    "no gzip": (b"abc", "egress_source_unavailable"),
    "two parts": (gzip.compress(b"a") + gzip.compress(b"b"), "egress_source_unavailable"),
    "cut off": (gzip.compress(b"a")[:-3], "egress_source_unavailable"),
    "the canary": (gzip.compress(f"token={new_canary()}".encode()), "canary_leaked"),
}


@pytest.mark.parametrize(("body", "code"), PACKED.values(), ids=PACKED.keys())
async def test_a_packed_body_is_judged_by_its_content(
    registry: Registry, bodies: list[tuple[str, bytes, str]], body: bytes, code: str
) -> None:
    async with served(registry, sending=Sending(POST, 5000)) as door:
        _, found = await ask(door, registry, posted(registry, body, "Content-Encoding: gzip"))
    assert found == code
    assert bodies == []


async def test_another_source_takes_no_body(registry: Registry, bodies: list[tuple[str, bytes, str]]) -> None:
    async with served(registry, sending=Sending({"other": ("POST",)}, 100), sources=standard(registry)) as door:
        assert await ask(door, registry, posted(registry, b"abc")) == (403, "egress_method_refused")
    assert bodies == []


async def test_a_pull_takes_no_body(registry: Registry, bodies: list[tuple[str, bytes, str]]) -> None:
    async with served(registry) as door:
        assert await ask(door, registry, posted(registry, b"abc")) == (403, "egress_request_malformed")
        assert await ask(door, registry, posted(registry, b"", length="0")) == (403, "egress_method_refused")
    assert bodies == []


async def test_a_body_that_breaks_off_does_not_arrive(registry: Registry, bodies: list[tuple[str, bytes, str]]) -> None:
    async with served(registry, sending=Sending(POST, 100)) as door:
        _, writer = await door.tunnel(f"{INDEX}:{registry.port}")
        writer.write(posted(registry, b"abc", length="50"))
        await writer.drain()
        writer.close()
        (line,) = await door.logged(1)
    assert line.reason == "egress_source_unavailable"
    assert bodies == []


async def test_a_redirect_is_not_followed_with_a_body(registry: Registry) -> None:
    registry.pages["/file"] = {"status": 307, "headers": {"Location": f"https://foreign.example:{registry.port}/file"}}
    async with served(registry, sending=Sending(POST, 100)) as door:
        status, code = await ask(door, registry, posted(registry, b"abc"))
    assert (status, code) == (403, "egress_redirect_refused")
    assert len(registry.seen) == 1


async def test_each_client_sends_its_own_body(registry: Registry, bodies: list[tuple[str, bytes, str]]) -> None:
    async with served(registry, sending=Sending(POST, 1 << 20)) as door:
        sent = [bytes([each]) * 70_000 for each in range(8)]
        asked = [ask(door, registry, posted(registry, each)) for each in sent]
        assert await asyncio.gather(*asked) == [(201, "")] * 8
    assert sorted(body for _, body, _ in bodies) == sent
