"""The HTTP face: what it shows, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus

import pytest

from gatewright.errors import ConfigurationError
from gatewright.telemetry import health
from gatewright.telemetry.health import HealthServer, Page, verdict_page
from tests.waiting import PATIENCE


@pytest.fixture
def missing() -> dict[str, str]:
    return {}


@pytest.fixture
async def server(missing: dict[str, str]) -> AsyncIterator[HealthServer]:
    pages: dict[str, Callable[[str], Page]] = {
        "/readyz": lambda _accept: verdict_page(missing),
        "/metrics": lambda accept: Page(HTTPStatus.OK, accept.encode() or b"m 1\n", health.METRICS_TEXT),
    }
    served = HealthServer(pages, host="127.0.0.1", port=0)
    await served.start()
    yield served
    await served.close()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def ask(server: HealthServer, request: bytes) -> tuple[str, dict[str, str], str]:
    """Status line, headers and body of the answer to a raw request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(request)
    head, _, body = (await asyncio.wait_for(reader.read(), PATIENCE)).decode().partition("\r\n\r\n")
    await hang_up(writer)
    status, *lines = head.split("\r\n")
    return status, dict(line.split(": ", 1) for line in lines if line), body


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_a_page_receives_the_accept_header(server: HealthServer) -> None:
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\naccept:  a/b;q=0.5, c/d \r\n\r\n"
    assert (await ask(server, request))[2] == "a/b;q=0.5, c/d"


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        ("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,*/*;q=0.1", True),
        ("application/openmetrics-text", True),
        ("text/plain, Application/OpenMetrics-Text; Version=1.0.0; charset=utf-8", True),
        ("application/openmetrics-text;version=0.0.1", False),
        ("application/openmetrics-text;q=0", False),
        ("text/plain;version=0.0.4", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_openmetrics_is_for_those_that_ask_for_it(accept: str, taken: bool) -> None:
    assert health.takes_open_metrics(accept) == taken


async def test_page_is_served_with_its_content_type(server: HealthServer) -> None:
    status, headers, body = await ask(server, get("/metrics"))
    assert (status, body) == ("HTTP/1.1 200 OK", "m 1\n")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert headers["Content-Length"] == "4"


async def test_readiness_names_what_is_missing(server: HealthServer, missing: dict[str, str]) -> None:
    assert await ask(server, get("/readyz?verbose=1")) == (
        "HTTP/1.1 200 OK",
        {
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Length": "3",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "Connection": "close",
        },
        "ok\n",
    )
    missing["probe"] = "no user namespaces"
    status, _, body = await ask(server, get("/readyz"))
    assert (status, body) == ("HTTP/1.1 503 Service Unavailable", "probe: no user namespaces\n")


async def test_head_has_the_length_but_no_body(server: HealthServer) -> None:
    status, headers, body = await ask(server, get("/metrics", "HEAD"))
    assert (status, headers["Content-Length"], body) == ("HTTP/1.1 200 OK", "4", "")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (get("/"), 404),
        (get("/metrics/"), 404),
        (get("/../metrics"), 404),
        (get("/metrics", "POST"), 405),
        (b"GET /metrics\r\n\r\n", 400),
        (b"\x00\xff\r\n\r\n", 400),
        (b"GET /metrics SMTP/1.1\r\n\r\n", 400),
        (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n\r\n", 431),
    ],
)
async def test_what_is_no_plain_get_of_a_known_path_is_refused(server: HealthServer, request_bytes: bytes, status: int) -> None:
    answer, _, _ = await ask(server, request_bytes)
    assert answer.split(" ")[1] == str(status)


async def test_slow_request_is_cut_off(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.2)
    assert await ask(server, b"GET /metrics HTTP/1.1\r\n") == ("", {}, "")


async def test_flood_of_idle_connections_is_bounded_and_ends(server: HealthServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "MAX_CONNECTIONS", 2)
    monkeypatch.setattr(health, "REQUEST_SECONDS", 0.5)
    idle = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(2)]
    await asyncio.sleep(0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    assert await asyncio.wait_for(reader.read(), 0.3) == b""
    await asyncio.gather(*(reader.read() for reader, _ in idle), return_exceptions=True)
    status, _, _ = await ask(server, get("/metrics"))
    assert status == "HTTP/1.1 200 OK"
    for _, each in [*idle, (reader, writer)]:
        await hang_up(each)


async def test_close_does_not_wait_for_an_idle_connection(server: HealthServer) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await asyncio.sleep(0.05)
    await asyncio.wait_for(server.close(), PATIENCE)
    await hang_up(writer)
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_address_that_is_taken_is_a_configuration_error(server: HealthServer) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot serve metrics on 127.0.0.1:{server.port}"):
        await HealthServer({}, host="127.0.0.1", port=server.port).start()
    with pytest.raises(ConfigurationError, match="cannot serve metrics"):
        await HealthServer({}, host="no such host", port=0).start()
