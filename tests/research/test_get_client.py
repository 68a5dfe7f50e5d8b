"""The client for GET requests: what a hostile address, name server, site or redirect gets."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from pydantic import ValidationError

from gatewright.errors import DeniedError, UnavailableError
from gatewright.research.get_client import AnswerStore, GetClient, RequestRecord
from gatewright.research.policy import ResearchPolicy, SearchService
from gatewright.research.searxng import SearXng
from tests.handler_fixture import StandingClock
from tests.research.site import Site


def client_of(
    site: Site, tmp_path: Path, *, private: bool = True, hours: int = 24, **limits: Any
) -> tuple[GetClient, list[Any]]:
    base = site.root if private else "https://search.example"
    hosts = ("localhost", "docs.example", "*.wide.example")
    service = SearchService(name="web", kind="searxng", base_url=base, hosts=hosts, private=private)
    policy = ResearchPolicy(version="1", services=(service,), keep_hours=hours, **limits)
    log: list[RequestRecord] = []
    clock = StandingClock()
    return GetClient(service, policy, log.append, AnswerStore(tmp_path / "kept", hours, clock), clock), log


async def test_a_page_of_a_permitted_host_is_fetched(site: Site, tmp_path: Path) -> None:
    client, log = client_of(site, tmp_path)
    source = await client.get(f"{site.root}/limits#part")
    assert b"512 messages" in source.content
    assert source.address == f"{site.root}/limits"
    assert (log[-1].status, log[-1].bytes) == (200, len(source.content))


async def test_the_same_address_twice_sends_one_request(site: Site, tmp_path: Path) -> None:
    client, log = client_of(site, tmp_path)
    first, second = await client.get(f"{site.root}/limits"), await client.get(f"{site.root}/limits")
    assert first == second
    assert site.seen == ["GET /limits"]
    assert [each.stored for each in log] == [False, True]


async def test_an_old_answer_is_requested_again(site: Site, tmp_path: Path) -> None:
    client, _ = client_of(site, tmp_path, hours=0)
    await client.get(f"{site.root}/limits")
    await client.get(f"{site.root}/limits")
    assert site.seen == ["GET /limits"] * 2


REFUSED = [
    "https://elsewhere.example/",
    "https://docs.example.evil.example/",
    "https://evil-docs.example/",
    "https://wide.example/",
    "https://docs.example@evil.example/",
    "https://user:key@docs.example/",
    "https://docs.example:8443/",
    "http://docs.example/",
    "ftp://docs.example/",
    "file:///etc/passwd",
    "data:text/plain,x",
    "//docs.example/",
    "docs.example",
    "https://127.0.0.1/",
    "https://[::1]/",
    "https://2130706433/",
    "https://0x7f.1/",
    "https://169.254.169.254/latest/meta-data/",
    "https://docs.example\\@evil.example/",
    "https://docs.example\r\nX: y/",
    "https://docs.ex\u0430mple/",
    "https://docs.example%00.evil.example/",
    "https:///docs.example/",
    "https://docs.example/" + "a" * 3000,
    "",
]


@pytest.mark.parametrize("address", REFUSED)
async def test_an_address_beyond_the_policy_is_refused(site: Site, tmp_path: Path, address: str) -> None:
    client, log = client_of(site, tmp_path, private=False)
    with pytest.raises(DeniedError) as caught:
        await client.get(address)
    assert caught.value.reason == "research_address_refused"
    assert log[-1].refused
    assert not client.may_fetch(address)


@pytest.mark.parametrize("address", ["https://docs.example/a?b=c", "https://a.wide.example/", "https://DOCS.example./"])
async def test_an_address_within_the_policy_may_be_fetched(site: Site, tmp_path: Path, address: str) -> None:
    client, _ = client_of(site, tmp_path, private=False)
    assert client.may_fetch(address)


PRIVATE = ["127.0.0.1", "10.0.0.8", "169.254.169.254", "100.64.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.8", "fd00::1"]
PRIVATE += ["0.0.0.1", "224.0.0.1", "2002:a00:8::1", "64:ff9b:1::a00:8", "64:ff9b::a00:8"]


@pytest.mark.parametrize("ip", PRIVATE)
async def test_a_name_of_a_private_address_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ip: str
) -> None:
    def resolve(host: str, port: int, *_: object, **__: object) -> list[object]:
        public = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.215.14", port))
        return [public, (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (ip, port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    client, log = client_of(site, tmp_path, private=False)
    with pytest.raises(DeniedError, match="no public address"):
        await client.get("https://docs.example/")
    assert log[-1].ip == ""


async def test_the_connection_goes_to_the_judged_address(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([[(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", site.port))]])

    def resolve(*_: object, **__: object) -> list[object]:
        return list(next(answers))  # a second question would raise

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    client, log = client_of(site, tmp_path)
    await client.get(f"http://docs.example:{site.port}/limits")
    assert log[-1].ip == "127.0.0.1"


@pytest.mark.parametrize("target", ["https://elsewhere.example/", "file:///etc/passwd", "//elsewhere.example/x"])
async def test_a_redirect_is_judged_again(site: Site, tmp_path: Path, target: str) -> None:
    site.pages["/away"] = web.Response(status=302, headers={"Location": target})
    client, log = client_of(site, tmp_path)
    with pytest.raises(DeniedError):
        await client.get(f"{site.root}/away")
    assert site.seen == ["GET /away"]
    assert [bool(each.refused) for each in log] == [False, True]


async def test_a_redirect_loop_ends(site: Site, tmp_path: Path) -> None:
    site.pages["/loop"] = web.Response(status=302, headers={"Location": "/loop"})
    client, _ = client_of(site, tmp_path)
    with pytest.raises(UnavailableError, match="redirects"):
        await client.get(f"{site.root}/loop")
    assert len(site.seen) < 10


ANSWERS = {
    "large": web.Response(body=b"x" * 3000, content_type="text/plain"),
    "compressed": web.Response(body=b"\x1f\x8b", headers={"Content-Encoding": "gzip", "Content-Type": "text/plain"}),
    "missing": web.Response(status=404),
    "broken": web.Response(status=500, body=b"secret"),
}


@pytest.mark.parametrize("name", sorted(ANSWERS))
async def test_an_unusable_answer_is_refused(site: Site, tmp_path: Path, name: str) -> None:
    site.pages["/page"] = ANSWERS[name]
    client, _ = client_of(site, tmp_path, bytes=2000)
    with pytest.raises(UnavailableError) as caught:
        await client.get(f"{site.root}/page")
    assert caught.value.reason == "research_source_unavailable"


async def test_a_site_that_is_down_is_reported(site: Site, tmp_path: Path) -> None:
    client, log = client_of(site, tmp_path)
    with pytest.raises(UnavailableError):
        await client.get("http://localhost:1/")
    assert log[-1].status == 0


async def test_results_on_other_hosts_are_left_out(site: Site, tmp_path: Path) -> None:
    found = {"results": [{"url": "https://evil.example/"}, {"url": f"{site.root}/limits", "title": "L", "content": "c"}]}
    site.pages["/search"] = web.Response(body=json.dumps(found).encode(), content_type="application/json")
    client, _ = client_of(site, tmp_path)
    service = SearchService(name="web", kind="searxng", base_url=site.root, hosts=("localhost",), private=True)
    hits = await SearXng(service, client).search("queue", 10)
    assert [hit.address for hit in hits] == [f"{site.root}/limits"]


async def test_a_searxng_without_json_is_explained(site: Site, tmp_path: Path) -> None:
    client, _ = client_of(site, tmp_path)
    service = SearchService(name="web", kind="searxng", base_url=site.root, hosts=("localhost",), private=True)
    site.pages["/search"] = web.Response(status=403, body=b"Forbidden")
    with pytest.raises(UnavailableError, match=r"answered 403; .*`search\.formats`"):
        await SearXng(service, client).search("queue", 10)


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"results": 3}', b'{"results": [{"title": "x"}]}', b"[" * 5000])
async def test_an_answer_that_is_not_searxngs_is_named(site: Site, tmp_path: Path, body: bytes) -> None:
    client, _ = client_of(site, tmp_path)
    service = SearchService(name="web", kind="searxng", base_url=site.root + "/other", hosts=("localhost",), private=True)
    site.pages["/other/search"] = web.Response(body=body, content_type="application/json")
    with pytest.raises((UnavailableError, DeniedError)):
        await SearXng(service, client).search("queue", 10)


@pytest.mark.parametrize(
    "fields",
    [
        {"base_url": "http://search.example"},
        {"base_url": "https://user@search.example"},
        {"hosts": ()},
        {"hosts": ("*",)},
        {"hosts": ("https://docs.example",)},
        {"hosts": ("Docs.example",)},
        {"kind": "google"},
        {"key": "x"},
    ],
)
def test_a_service_that_would_open_too_much_is_refused(fields: dict[str, Any]) -> None:
    good = {"name": "web", "kind": "searxng", "base_url": "https://search.example", "hosts": ("docs.example",)}
    SearchService.model_validate(good)
    with pytest.raises(ValidationError):
        SearchService.model_validate(good | fields)
