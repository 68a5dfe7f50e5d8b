"""Attacks on the gateway from inside the box, over HTTP and below it: nothing of them reaches a provider."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from gatewright.canary import new_canary
from gatewright.errors import DeniedError
from gatewright.models.gateway import GatewayLimits
from tests.models.calls import QUICK, ask, make_gateway, raw, request_of
from tests.models.provider import ScriptedProvider
from tests.models.turns import Hang, Say
from tests.waiting import PATIENCE, until

BODY = json.dumps(request_of("responses")[1]).encode()


def http(target: str, *headers: str, body: bytes = BODY, method: str = "POST", length: bool = True) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", "Host: gateway", "Connection: close", *headers]
    if length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1:9/v1/responses",
        "http://gateway/v1/responses",
        "//v1/responses",
        "/v1//responses",
        "/v1/responses/",
        "/v1/responses/../files",
        "/v1/x/../responses",
        "/v1/%72esponses",
        "/v1/responses%00",
        "/v1/responses;x=1",
        "/V1/RESPONSES",
        "/v1/responses/resp_1/cancel",
        "/v1/files",
        "/v1/containers",
        "/v1/messages/batches",
        "/v1/organizations/api_keys",
        "/v1beta/models/scripted-gemini:streamGenerateContent",
        "/v1beta/models/scripted-gemini:generateContent:countTokens",
        "/v1beta/models/../tunedModels/x:generateContent",
        "/v1beta/models/scripted%2Dgemini:generateContent",
        "/v1beta/cachedContents",
        "/",
        "/v1/responses?" + "a" * 5000,
    ],
)
async def test_another_path_is_refused_and_recorded(provider: ScriptedProvider, target: str) -> None:
    provider.scripts["say"] = [Say("reached")]
    gateway = make_gateway(provider)
    answer = await raw(gateway, http(target))
    assert b" 403 " in answer.partition(b"\r\n")[0]
    assert [(call.status, call.refused) for call in gateway.records.calls] == [(403, "endpoint_not_allowed")]
    assert provider.requests == []


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH"])
async def test_another_method_is_refused(provider: ScriptedProvider, method: str) -> None:
    target = "provider.example:443" if method == "CONNECT" else "/v1/responses"
    answer = await raw(make_gateway(provider), http(target, method=method, body=b""))
    assert answer.split()[1] in {b"403", b"400"}
    assert provider.requests == []


SECOND = b"POST /v1/files HTTP/1.1\r\nHost: gateway\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    "request_bytes",
    [
        http("/v1/responses", "Transfer-Encoding: chunked", body=b"0\r\n\r\n" + SECOND),
        http("/v1/responses", f"Content-Length: {len(BODY) + len(SECOND)}", body=BODY),
        http("/v1/responses", "Transfer-Encoding: chunked, identity", length=False, body=b"0\r\n\r\n" + SECOND),
        http("/v1/responses", "Transfer-Encoding:\x0bchunked", length=False, body=b"0\r\n\r\n" + SECOND),
        http("/v1/responses", "Content-Length: +5", length=False, body=b"{}   " + SECOND),
        http("/v1/responses", "X: a\r\n b", "Transfer-Encoding: xchunked", length=False),
        http("/v1/responses", "Content Length: 3"),
        http("/v1/responses", "X: a\nTransfer-Encoding: chunked"),
        http("/v1/responses", "Transfer-Encoding: chunked", length=False, body=b"5;\n{}\r\n0\r\n\r\n" + SECOND),
        b"POST /v1/responses HTTP/1.1\nHost: gateway\nContent-Length: 2\n\n{}",
    ],
    ids=["both", "two", "te-list", "te-tab", "signed", "te-unknown", "space", "bare-lf", "chunk-lf", "lf-only"],
)
async def test_a_smuggled_request_reaches_no_provider(provider: ScriptedProvider, request_bytes: bytes) -> None:
    provider.scripts["say"] = [Say("reached")]
    gateway = make_gateway(provider, limits=replace(QUICK, client_idle=0.5))
    answer = await raw(gateway, request_bytes)
    assert b" 200 " not in answer
    assert provider.requests == []


async def test_two_requests_in_one_packet_are_two_and_each_is_judged(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("reached")]
    first = http("/v1/responses").replace(b"Connection: close\r\n", b"")
    gateway = make_gateway(provider, limits=replace(QUICK, client_idle=1.0))
    answer = await raw(gateway, first + SECOND)
    assert (answer.count(b"HTTP/1.1 200"), answer.count(b"HTTP/1.1 403")) == (1, 1)
    assert [seen.path for seen in provider.requests] == ["/s/say/v1/responses"]


@pytest.mark.parametrize("encode", [str, lambda token: token[::-1], lambda token: token.encode().hex()])
async def test_a_request_with_a_canary_reaches_no_provider(provider: ScriptedProvider, encode: Callable[[str], str]) -> None:
    provider.scripts["say"] = [Say("reached")]
    gateway = make_gateway(provider)
    answer = await raw(
        gateway, http("/v1/responses", body=json.dumps(request_of("responses", encode(new_canary()))[1]).encode())
    )
    assert b" 200 " not in answer
    assert [call.refused for call in gateway.records.calls] == ["canary_leaked"]
    assert provider.requests == []
    with pytest.raises(DeniedError, match="canary"):
        gateway.check_refused()
    honest = make_gateway(provider)
    assert b" 200 " in await raw(honest, http("/v1/responses"))


async def test_a_host_header_leads_nowhere(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("reached")]
    request = http("/v1/responses", "X-Forwarded-Host: evil.example", "Forwarded: host=evil.example").replace(
        b"Host: gateway", b"Host: evil.example"
    )
    assert b" 200 " in await raw(make_gateway(provider), request)
    assert provider.requests[0].header("Host") == f"127.0.0.1:{provider.port}"
    assert "evil" not in str(provider.requests[0].headers)


async def test_a_body_of_33_mb_is_refused_by_its_length_alone(provider: ScriptedProvider) -> None:
    request = http("/v1/responses", f"Content-Length: {33 << 20}", length=False, body=b"{")
    gateway = make_gateway(provider)
    assert b" 413 " in await raw(gateway, request)
    assert gateway.records.calls[0].refused == "model_request_too_large"


async def test_an_oversized_body_without_a_length_is_refused(provider: ScriptedProvider) -> None:
    piece = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
    gateway = make_gateway(provider)
    async with gateway.private() as path:
        _, writer = await asyncio.open_unix_connection(str(path))
        writer.write(http("/v1/responses", "Transfer-Encoding: chunked", length=False, body=b""))
        try:
            for _ in range(33):
                writer.write(piece)
                await writer.drain()
        except ConnectionError:
            pass
        await until(lambda: bool(gateway.records.calls))
        writer.close()
    assert gateway.records.calls[0].refused == "model_request_too_large"
    assert provider.requests == []


async def test_ten_thousand_headers_are_refused(provider: ScriptedProvider) -> None:
    answer = await raw(make_gateway(provider), http("/v1/responses", *(f"X-{number}: 1" for number in range(10_000))))
    assert b" 400 " in answer.partition(b"\r\n")[0]
    assert provider.requests == []


async def test_one_endless_header_is_refused(provider: ScriptedProvider) -> None:
    answer = await raw(make_gateway(provider), http("/v1/responses", "X: " + "a" * (1 << 20)))
    assert b" 200 " not in answer
    assert provider.requests == []


async def test_a_packed_body_is_refused(provider: ScriptedProvider) -> None:
    assert b" 400 " in await raw(make_gateway(provider), http("/v1/responses", "Content-Encoding: gzip"))
    assert provider.requests == []


@pytest.mark.parametrize(
    "sent", [b"", b"POST /v1/res", http("/v1/responses")[:-10]], ids=["nothing", "half-a-head", "half-a-body"]
)
async def test_a_client_that_sends_slowly_is_let_go(provider: ScriptedProvider, sent: bytes) -> None:
    gateway = make_gateway(provider, limits=replace(QUICK, client_idle=0.3))
    answer = await raw(gateway, sent, most=20)
    assert b" 200 " not in answer
    assert provider.requests == []


async def test_a_flood_of_calls_waits_or_is_refused(provider: ScriptedProvider) -> None:
    provider.scripts |= {"hang": [Hang()], "say": [Say("alive")]}
    limits = GatewayLimits(calls=4, waiting=6, connections=40, attempts=1)
    gateway = make_gateway(provider, "hang", limits=limits)
    path, body = request_of("responses")
    async with gateway.client() as client:

        async def one() -> int:
            async with client.post(path, json=body) as reply:
                return reply.status

        calls = [asyncio.ensure_future(one()) for _ in range(30)]
        refused = 0
        for done in asyncio.as_completed(calls):
            refused += await done == 429
            if refused == 20:
                break
        assert len(provider.requests) <= 4
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
    assert {call.refused for call in gateway.records.calls if call.status == 429} == {"model_calls_limit"}
    assert (await ask(make_gateway(provider), path, body)).status == 200


async def test_connections_beyond_the_bound_are_closed_at_once(provider: ScriptedProvider) -> None:
    gateway = make_gateway(provider, limits=replace(QUICK, connections=3))
    async with gateway.private() as path:
        opened = [await asyncio.open_unix_connection(str(path)) for _ in range(10)]
        ended = [asyncio.ensure_future(reader.read()) for reader, _ in opened]
        done, _ = await asyncio.wait(ended[3:], timeout=PATIENCE)
        assert len(done) == 7
        assert not any(each.done() for each in ended[:3])
        for _, writer in opened:
            writer.close()
        await asyncio.gather(*ended, return_exceptions=True)


@pytest.mark.parametrize(
    "model",
    [
        "Scripted",
        "scripted ",
        " scripted",
        "scripted\u0000",
        "scripted\n",
        "models/scripted",
        "scripted,gpt-5",
        "\u0455cripted",
        "*",
        "gpt-5",
        "scripted-claude/../gpt-5",
        "x" * 100_000,
    ],
    ids=lambda name: ascii(name)[:30],
)
async def test_a_name_that_is_nearly_an_allowed_one_is_none(provider: ScriptedProvider, model: str) -> None:
    provider.scripts["say"] = [Say("reached")]
    path, body = request_of("responses", model=model)
    gateway = make_gateway(provider)
    got = await ask(gateway, path, body)
    assert got.status == 404
    assert json.loads(got.text)["error"]["code"] == "model_not_allowed"
    assert gateway.records.calls[0].refused == "model_not_allowed"
    assert provider.requests == []


@pytest.mark.parametrize(
    "text", ['{"model": "scripted", "model": "gpt-5", "input": "x"}', '{"model": ["scripted"], "input": "x"}', "[]"]
)
async def test_a_request_that_two_readers_read_differently_is_refused(provider: ScriptedProvider, text: str) -> None:
    answer = await raw(make_gateway(provider), http("/v1/responses", body=text.encode()))
    assert b" 400 " in answer
    assert provider.requests == []


async def test_the_model_in_the_path_wins_over_the_body(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("reached")]
    path, body = request_of("gemini", model="gemini-ultra")
    assert (await ask(make_gateway(provider), path, body)).status == 200
    assert "ultra" not in provider.requests[0].path
    assert b"ultra" not in provider.requests[0].body
