"""What a hostile or broken registry gets: its redirects, its sizes, and answers that end early."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from gatewright.egress.allowed import IndexedAddresses
from tests.egress.registry import FILES, FOREIGN, INDEX, OTHER, ExactAddresses, Registry, Reply, get, served, standard


def redirect(target: str, status: int = 302) -> dict[str, Any]:
    return {"status": status, "headers": {"Location": target}}


async def ask(registry: Registry, path: str, **options: Any) -> tuple[Reply, list[Any]]:
    async with served(registry, **options) as door:
        reply = await door.ask(f"{INDEX}:{registry.port}", get(registry, path))
        return reply, await door.logged(1)


REDIRECTS = {
    "foreign host": f"https://{FOREIGN}:{{port}}/file",
    "another port": f"https://{INDEX}:1/file",
    "address": "https://127.0.0.1:{port}/file",
    "metadata": "http://169.254.169.254/latest/meta-data/",
    "plain http": f"http://{INDEX}:{{port}}/file",
    "file": "file:///etc/passwd",
    "data": "data:text/plain,x",
    "network path": f"//{FOREIGN}:{{port}}/file",
    "user": f"https://user@{INDEX}:{{port}}/file",
    "backslash": f"https://{FOREIGN}\\@{INDEX}:{{port}}/file",
    "line break": "/file\tx",
    "unplain path": "/a/%2e%2e%2ffile",
}


@pytest.mark.every_case
@pytest.mark.parametrize("name", sorted(REDIRECTS))
async def test_a_redirect_outside_is_refused(registry: Registry, name: str) -> None:
    registry.pages["/away"] = redirect(REDIRECTS[name].replace("{port}", str(registry.port)))
    reply, log = await ask(registry, "/away")
    assert (reply.status, log[0].status) == (502 if name == "line break" else 403, 302)
    assert log[0].reason == ("egress_source_unavailable" if name == "line break" else "egress_redirect_refused")
    assert "location" not in reply.headers
    registry.pages["/away"] = redirect("/file")
    reply, _ = await ask(registry, "/away")
    assert (reply.status, reply.headers["location"]) == (302, f"https://{INDEX}:{registry.port}/file")
    assert registry.paths == ["GET /away"] * 2


async def test_a_redirect_within_a_source_opens_its_target_only(registry: Registry) -> None:
    place = f"https://{INDEX}:{registry.port}"
    target = f"https://{FILES}:{registry.port}/file?signature=a%20b"
    registry.pages["/away"] = redirect(target)
    async with served(registry, allowed=ExactAddresses(f"{place}/away")) as door:

        async def status(path: str) -> int:
            return (await door.ask(f"{FILES}:{registry.port}", get(registry, path, FILES), FILES)).status

        assert await status("/file?signature=a%20b") == 403
        reply = await door.ask(f"{INDEX}:{registry.port}", get(registry, "/away"))
        assert reply.headers["location"] == target
        assert [await status("/file?signature=a%20b"), await status("/file"), await status("/file?signature=a")] == [
            200,
            403,
            403,
        ]


async def test_a_redirect_to_another_source_needs_its_own_permission(registry: Registry) -> None:
    place = f"https://{INDEX}:{registry.port}/away"
    target = f"https://{OTHER}:{registry.port}/file"
    registry.pages["/away"] = redirect(target)
    reply, _ = await ask(registry, "/away", allowed=ExactAddresses(place))
    assert reply.status == 403
    reply, _ = await ask(registry, "/away", allowed=ExactAddresses(place, target))
    assert reply.status == 302


async def test_a_redirect_loop_ends(registry: Registry) -> None:
    registry.pages |= {"/a": redirect("/b"), "/b": redirect("/a")}
    async with served(registry, redirects=3) as door:
        statuses = [
            (await door.ask(f"{INDEX}:{registry.port}", get(registry, f"/{'ab'[number % 2]}"))).status for number in range(5)
        ]
    assert statuses == [302, 302, 302, 403, 302]
    assert [each.reason for each in door.log][3] == "egress_redirect_refused"


@pytest.mark.parametrize("page", [redirect("", 302), {"status": 304}, {"status": 300, "headers": {"Location": "/file"}}])
async def test_a_redirect_without_a_target_is_an_error(registry: Registry, page: dict[str, Any]) -> None:
    registry.pages["/away"] = page
    reply, log = await ask(registry, "/away")
    assert (reply.status, log[0].reason) == (502, "egress_source_unavailable")


async def flood(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"x" * 4096)
        await asyncio.sleep(0)  # the installer and the gateway run in this loop, too


async def test_a_declared_answer_above_the_limit_is_refused(registry: Registry) -> None:
    registry.pages["/file"] = b"x" * 2000
    reply, log = await ask(registry, "/file", answer_bytes=1999)
    assert (reply.status, json.loads(reply.body)["code"]) == (403, "egress_limit")
    assert (log[0].status, log[0].bytes, log[0].decision) == (200, 0, "refused")
    reply, _ = await ask(registry, "/file", answer_bytes=2000)
    assert len(reply.body) == 2000


async def test_a_flood_is_cut_visibly(registry: Registry) -> None:
    registry.pages["/flood"] = flood
    reply, log = await ask(registry, "/flood", answer_bytes=100_000)
    assert (reply.status, reply.cut, log[0].reason) == (200, True, "egress_limit")
    assert len(reply.body) <= log[0].bytes <= 100_000


async def test_the_bytes_of_a_pull_are_limited(registry: Registry) -> None:
    registry.pages["/file"] = b"x" * 2000
    async with served(registry, total_bytes=3000) as door:
        replies = [await door.ask(f"{INDEX}:{registry.port}", get(registry, "/file")) for _ in range(2)]
    assert [each.status for each in replies] == [200, 403]
    assert (json.loads(replies[1].body)["code"], door.log[1].reason) == ("egress_limit", "egress_limit")


async def shortened(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "100"})
    await response.prepare(request)
    await response.write(b"x" * 10)
    assert request.transport is not None
    request.transport.abort()
    return response


async def unfinished(request: web.BaseRequest) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"x" * 10)
    assert request.transport is not None
    request.transport.abort()
    return response


@pytest.mark.parametrize("page", [shortened, unfinished])
async def test_an_answer_that_ends_early_is_cut_for_the_installer(
    registry: Registry, page: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
) -> None:
    registry.pages["/file"] = page
    reply, log = await ask(registry, "/file")
    assert (reply.cut, log[0].reason, log[0].decision) == (True, "egress_source_unavailable", "allowed")


async def test_an_answer_of_unknown_length_arrives_whole(registry: Registry) -> None:
    async def pieces(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(5):
            await response.write(b"y" * 1000)
        return response

    registry.pages["/file"] = pieces
    reply, log = await ask(registry, "/file")
    assert (reply.body, reply.cut) == (b"y" * 5000, False)
    assert (log[0].bytes, log[0].reason) == (5000, "")


async def test_a_slow_registry_is_left(registry: Registry) -> None:
    never = asyncio.Event()

    async def wait(_: web.BaseRequest) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    registry.pages["/file"] = wait
    reply, log = await ask(registry, "/file", seconds=0.1)
    assert (reply.status, log[0].reason) == (502, "egress_source_unavailable")
    never.set()


async def test_a_registry_that_is_down_is_reported(registry: Registry) -> None:
    reply, log = await ask(registry, "/file", addresses={INDEX: []})
    assert (reply.status, log[0].reason) == (502, "egress_source_unavailable")


@pytest.mark.parametrize("page", [{"status": 407}, {"body": b"\x1f\x8b", "headers": {"Content-Encoding": "gzip"}}])
async def test_an_answer_in_another_form_is_refused(registry: Registry, page: dict[str, Any]) -> None:
    registry.pages["/file"] = page
    reply, log = await ask(registry, "/file")
    assert (reply.status, log[0].reason) == (502, "egress_source_unavailable")


async def test_a_registry_with_a_foreign_certificate_is_refused(registry: Registry) -> None:
    async with Registry().serving() as another:
        registry.trust = another.trust
        reply, log = await ask(registry, "/file")
    assert (reply.status, log[0].reason) == (502, "egress_source_unavailable")
    assert registry.seen == []


async def test_proxies_of_the_environment_are_not_used(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    reply, _ = await ask(registry, "/file")
    assert reply.body == b"content"


async def test_an_installer_that_leaves_is_recorded(registry: Registry) -> None:
    registry.pages["/flood"] = flood
    async with served(registry) as door:
        reader, writer = await door.tunnel(f"{INDEX}:{registry.port}")
        writer.write(get(registry, "/flood").encode())
        await reader.readexactly(100)
        writer.transport.abort()
        assert (await door.logged(1))[0].reason == "egress_interrupted"


async def test_a_request_at_the_end_of_a_pull_is_recorded(registry: Registry) -> None:
    registry.pages["/flood"] = flood
    async with served(registry) as door:
        reader, writer = await door.tunnel(f"{INDEX}:{registry.port}")
        writer.write(get(registry, "/flood").encode())
        await reader.readexactly(100)
    writer.transport.abort()
    assert [each.reason for each in door.log] == ["egress_interrupted"]


async def test_files_are_read_after_the_index_that_names_them(registry: Registry) -> None:
    registry.pages["/simple/demo/"] = {
        "body": b'<a href="../../files/demo-1.0.whl#sha256=00">demo</a>',
        "content_type": "text/html",
    }
    registry.pages |= {"/files/demo-1.0.whl": b"wheel", "/files/other-1.0.whl": b"other"}
    async with served(registry, allowed=IndexedAddresses(standard(registry), {"demo"})) as door:

        async def status(path: str) -> int:
            return (await door.ask(f"{INDEX}:{registry.port}", get(registry, path))).status

        assert await status("/files/demo-1.0.whl") == 403
        assert await status("/simple/demo/?data=c2VjcmV0") == 403
        assert await status("/simple/c2vjcmv0/") == 403
        assert await status("/simple/demo/") == 200
        assert await status("/files/demo-1.0.whl") == 200
        assert await status("/files/demo-1.0.whl?data=c2VjcmV0") == 403
        assert await status("/files/other-1.0.whl") == 403
    assert registry.paths == ["GET /simple/demo/", "GET /files/demo-1.0.whl"]
