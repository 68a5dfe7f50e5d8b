"""Index pages on their way: compressed by the registry, asked for again by version, and hostile ones."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from aiohttp import web

from gatewright.egress.allowed import IndexedAddresses
from tests.egress.registry import INDEX, Door, Registry, Reply, get, served, standard

PAGE = b'<a href="../../files/demo-1.0.whl#sha256=00">demo</a>' + b" " * 5_000
PLACE = "/simple/demo/"


def packed(body: bytes) -> dict[str, Any]:
    return {"body": body, "headers": {"Content-Encoding": "gzip", "Content-Type": "text/html", "ETag": '"one"'}}


async def ask(door: Door, registry: Registry, *headers: str, path: str = PLACE) -> Reply:
    return await door.ask(f"{INDEX}:{registry.port}", get(registry, path, INDEX, *headers))


async def test_a_compressed_page_is_passed_on_unpacked_and_opens_its_files(registry: Registry) -> None:
    registry.pages |= {PLACE: packed(gzip.compress(PAGE)), "/files/demo-1.0.whl": b"wheel"}
    async with served(registry, allowed=IndexedAddresses(standard(registry), {"demo"})) as door:
        reply = await ask(door, registry)
        assert (reply.status, reply.body, "content-encoding" in reply.headers) == (200, PAGE, False)
        assert (await ask(door, registry, path="/files/demo-1.0.whl")).body == b"wheel"
        log = await door.logged(2)
    assert [each.headers["Accept-Encoding"] for each in registry.seen] == ["gzip", "identity"]
    assert (log[0].bytes, log[1].bytes) == (len(PAGE), 5)


@pytest.mark.parametrize("fault", ["cut", "broken", "followed", "bomb"])
async def test_a_broken_or_endless_page_is_refused(registry: Registry, fault: str) -> None:
    whole = gzip.compress(PAGE)
    bodies = {
        "cut": whole[:-9],
        "broken": b"no gzip",
        "followed": whole + whole,
        "bomb": gzip.compress(b"\0" * (40 << 20)),
    }
    registry.pages[PLACE] = packed(bodies[fault])
    async with served(registry, allowed=IndexedAddresses(standard(registry), {"demo"})) as door:
        reply = await ask(door, registry)
        (line,) = await door.logged(1)
    assert reply.status == (403 if fault == "bomb" else 502)
    assert line.reason == ("egress_limit" if fault == "bomb" else "egress_source_unavailable")
    assert b"demo-1.0" not in reply.body


async def test_a_version_that_was_read_is_asked_for_and_no_other(registry: Registry) -> None:
    async def page(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("If-None-Match") == '"one"':
            return web.Response(status=304, headers={"ETag": '"one"'})
        return web.Response(body=PAGE, headers={"Content-Type": "text/html", "ETag": '"one"'})

    registry.pages[PLACE] = page
    async with served(registry, allowed=IndexedAddresses(standard(registry), {"demo"})) as door:
        replies = [await ask(door, registry, f"If-None-Match: {version}") for version in ('"one"', '"c2VjcmV0"', '"one"')]
        log = await door.logged(3)
    assert [each.status for each in replies] == [200, 200, 304]
    assert [each.headers.get("If-None-Match") for each in registry.seen] == [None, None, '"one"']
    assert [(each.status, each.bytes) for each in log] == [(200, len(PAGE)), (200, len(PAGE)), (304, 0)]
