"""What a provider fails to answer is asked for again, then of the next model of the route, and the record says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gatewright.models.apis.error_answers import error_name
from gatewright.models.gateway import GatewayLimits, ModelGateway
from gatewright.models.policy import ModelsPolicy
from tests.models.calls import QUICK, ask, make_gateway, raw, request_of
from tests.models.provider import ScriptedProvider
from tests.models.test_attacks import http
from tests.models.turns import Fail, Hang, Raw, Say, Slow, Turn

SSE = {"Content-Type": "text/event-stream"}


def _policy(provider: ScriptedProvider) -> ModelsPolicy:
    """The script ``first``, and ``second`` to fall back on."""
    policy: dict[str, Any] = {
        "version": "1",
        "providers": [provider.provider("first", name="one"), provider.provider("second", name="two")],
        "models": [{"name": name, "provider": of, "price": None} for name, of in (("main", "one"), ("spare", "two"))],
        "routes": [{"role": "worker", "models": ["main", "spare"]}],
    }
    return ModelsPolicy.model_validate(policy)


def two_providers(provider: ScriptedProvider, limits: GatewayLimits = QUICK) -> ModelGateway:
    """A gateway with ``main`` and ``spare``."""
    loaded = _policy(provider)
    return ModelGateway(loaded, loaded.grant("worker"), limits=limits)


FAILURES: dict[str, Turn] = {
    "429": Fail(429),
    "500": Fail(500),
    "529": Fail(529),
    "packed": Raw((b"x",), headers={"Content-Encoding": "gzip"}),
    "redirect": Fail(301, b"", {"Location": "/elsewhere"}),
    "no-json": Raw((b"<html>",)),
    "a-list": Raw((b"[]",)),
    "empty": Raw(()),
    "empty-stream": Raw((), headers=SSE),
    "broken": Raw((b'{"half":',), close=True, headers={"Content-Length": "100"}),
    "unreachable": Raw((), close=True),
}


@pytest.mark.parametrize("failure", FAILURES)
async def test_the_next_model_of_the_route_answers_when_the_first_does_not(provider: ScriptedProvider, failure: str) -> None:
    provider.scripts |= {"first": [FAILURES[failure]], "second": [Say("from the spare")]}
    gateway = two_providers(provider)
    path, body = request_of("messages", model="main")
    got = await ask(gateway, path, body)
    assert (got.status, "from the spare" in got.text) == (200, True)
    call = gateway.records.calls[0]
    assert (call.model, call.model_used, call.provider) == ("main", "spare", "two")
    assert call.tried
    assert all(each.startswith("one/main: ") for each in call.tried)
    assert provider.requests[-1].json["model"] == "spare"
    said = gateway.records.stand_ins("main")
    assert said.startswith("main was to be asked, and spare answered 1 of 1 calls; tried first: one/main: ")
    assert gateway.records.stand_ins("spare") == ""


@pytest.mark.parametrize("status", [400, 404, 413, 422])
async def test_a_client_error_is_passed_on_and_not_retried(provider: ScriptedProvider, status: int) -> None:
    provider.scripts |= {"first": [Fail(status, b'{"error": {"message": "too many images"}}')], "second": [Say("no")]}
    got = await ask(two_providers(provider), *request_of("messages", model="main"))
    assert got.status == status
    assert "too many images" in got.text
    assert len(provider.requests) == 1


async def test_a_failure_that_passes_is_waited_for(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Fail(529, times=2, then=Say("at last"))]
    gateway = make_gateway(provider, limits=replace(QUICK, attempts=4))
    got = await ask(gateway, *request_of("messages", streamed=True))
    assert got.status == 200
    assert len(gateway.records.calls[0].tried) == 2
    assert gateway.usage.iterations == 1


async def test_how_long_to_wait_is_the_providers_word_within_bounds(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Fail(429, headers={"Retry-After": "3600"}, times=1, then=Say("in an hour"))]
    got = await ask(make_gateway(provider), *request_of("messages"))
    assert got.status == 429
    assert got.headers["Retry-After"] == "3601"
    assert "x-should-retry" not in got.headers
    assert len(provider.requests) == 1


@pytest.mark.parametrize(("status", "tries"), [(503, 2), (401, 1), (403, 1), (301, 1)])
async def test_when_every_model_fails_the_first_ones_reason_is_reported(
    provider: ScriptedProvider, status: int, tries: int
) -> None:
    limited = Fail(429, b'{"error": {"type": "rate_limit_error", "message": "scripted"}}', {"Retry-After": "0"})
    provider.scripts |= {"first": [limited], "second": [Fail(status)]}
    gateway = two_providers(provider)
    got = await ask(gateway, *request_of("messages", model="main"))
    assert (got.status, got.headers["Retry-After"]) == (429, "1")
    assert "no model could be had: one/main: 429 rate_limit_error; two/spare: " in got.text
    assert gateway.records.calls[0].refused == "model_unavailable"
    assert [each.partition(":")[0] for each in gateway.records.calls[0].tried] == ["one/main"] * 2 + ["two/spare"] * tries


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"error": {"code": "insufficient_quota", "type": "x"}}', "insufficient_quota"),
        (b'{"type": "error", "error": {"type": "overloaded_error"}}', "overloaded_error"),
        (b'{"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}', "RESOURCE_EXHAUSTED"),
        (b'{"error": {"code": "sk-1234567890abcdef", "message": "the key sk-1"}}', ""),
        (b'{"error": "insufficient_quota"}', ""),
        (b"[" * 100_000, ""),
        (b"\xff{}", ""),
        (b"", ""),
    ],
)
def test_only_the_name_of_a_providers_error_is_repeated(body: bytes, name: str) -> None:
    assert error_name(body) == name


async def test_a_quota_that_is_used_up_is_not_waited_for(provider: ScriptedProvider) -> None:
    used_up = Fail(429, b'{"error": {"code": "insufficient_quota"}}', times=1, then=Say("too late"))
    provider.scripts |= {"first": [used_up], "second": [Say("from the spare")]}
    gateway = two_providers(provider)
    assert "from the spare" in (await ask(gateway, *request_of("messages", model="main"))).text
    assert gateway.records.calls[0].tried == ("one/main: 429 insufficient_quota",)


async def test_an_error_whose_body_never_ends_is_given_up(provider: ScriptedProvider) -> None:
    endless = Raw((b"x" * 1000,) * 10_000, status=429, delay=0.01)
    provider.scripts |= {"first": [endless], "second": [Say("from the spare")]}
    gateway = two_providers(provider, replace(QUICK, attempts=1))
    assert "from the spare" in (await ask(gateway, *request_of("messages", model="main"))).text


@pytest.mark.parametrize("model", ["main", "spare"])
def test_a_named_model_has_no_other_in_its_route(provider: ScriptedProvider, model: str) -> None:
    assert _policy(provider).grant("worker", model=model, fallback=False).routes == {model: (model,)}


async def test_a_reply_that_breaks_off_is_not_restarted(provider: ScriptedProvider) -> None:
    piece = b'data: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "half a"}}\n\n'
    provider.scripts |= {"first": [Raw((piece,), headers=SSE, close=True, delay=0.1)], "second": [Say("another beginning")]}
    gateway = two_providers(provider)
    got = await ask(gateway, *request_of("messages", model="main", streamed=True))
    assert (got.whole, "half a" in got.text, "another" in got.text) == (False, True, False)
    assert not gateway.records.calls[0].whole
    assert len(provider.requests) == 1


async def test_a_stream_without_an_end_marker_is_not_complete(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Raw((b'data: {"type": "response.created"}\n\n',), headers=SSE)]
    gateway = make_gateway(provider)
    await ask(gateway, *request_of("responses", streamed=True))
    assert not gateway.records.calls[0].whole


async def test_a_silent_provider_is_given_up(provider: ScriptedProvider) -> None:
    provider.scripts |= {"first": [Hang()], "second": [Say("awake")]}
    gateway = two_providers(provider, replace(QUICK, upstream_idle=0.3, attempts=1))
    assert "awake" in (await ask(gateway, *request_of("messages", model="main"))).text


async def test_the_time_of_a_call_ends_it(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Hang()]
    got = await ask(make_gateway(provider, limits=replace(QUICK, call_seconds=0.3)), *request_of("responses"))
    assert got.status == 502
    assert "the time of the call is up" in got.text


async def test_a_slow_reply_is_waited_for(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Slow(0.2)]
    assert "slowly" in (await ask(make_gateway(provider), *request_of("gemini"))).text


async def test_a_reply_beyond_all_bounds_is_cut(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Raw((b"data: x\n\n" * 1000,) * 100, headers=SSE)]
    gateway = make_gateway(provider, limits=replace(QUICK, reply_bytes=100_000))
    got = await ask(gateway, *request_of("responses", streamed=True))
    assert len(got.text) <= 100_000
    assert not got.whole or got.status == 502
    assert gateway.records.calls[0].refused == "model_reply_too_large"


async def test_one_event_beyond_all_bounds_is_cut(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Raw((b"data: " + b"x" * (1 << 20),) * 20, headers=SSE)]
    gateway = make_gateway(provider)
    got = await ask(gateway, *request_of("responses", streamed=True))
    assert not got.whole
    assert gateway.records.calls[0].refused == "model_reply_too_large"


async def test_a_bomb_of_gzip_is_not_unpacked(provider: ScriptedProvider) -> None:
    import gzip

    bomb = gzip.compress(b"\0" * (50 << 20))
    provider.scripts["say"] = [Raw((bomb,), headers=SSE | {"Content-Encoding": "gzip"})]
    got = await ask(make_gateway(provider), *request_of("responses", streamed=True))
    assert got.status == 502
    assert len(got.text) < 1000
    assert provider.requests[0].header("Accept-Encoding") == "identity"


async def test_a_provider_with_headers_without_end_is_given_up(provider: ScriptedProvider) -> None:
    headers = {f"X-{number}": "y" * 1000 for number in range(500)}
    provider.scripts |= {"first": [Raw((b"{}",), headers=headers)], "second": [Say("short")]}
    assert "short" in (await ask(two_providers(provider), *request_of("messages", model="main"))).text


async def test_a_model_of_another_api_does_not_stand_in(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Fail(500)]
    gateway = make_gateway(provider)
    got = await ask(gateway, *request_of("responses"))
    assert got.status == 500
    assert all("scripted-openai" in each for each in gateway.records.calls[0].tried)


async def test_a_model_asked_by_the_wrong_api_is_not_there(provider: ScriptedProvider) -> None:
    path, body = request_of("responses", model="scripted-claude")
    got = await ask(make_gateway(provider), path, body)
    assert got.status == 404
    assert provider.requests == []


async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("welcome")]
    answer = await raw(make_gateway(provider), http("/v1/responses", "Expect: 100-continue"))
    assert answer.startswith(b"HTTP/1.1 100 Continue")
    assert b" 200 " in answer


async def test_eight_calls_at_once_are_all_answered(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Slow(0.1)]
    gateway = make_gateway(provider)
    path, body = request_of("chat_completions", streamed=True)
    async with gateway.client() as client:

        async def one() -> int:
            async with client.post(path, json=body) as reply:
                await reply.read()
                return reply.status

        assert await asyncio.gather(*(one() for _ in range(8))) == [200] * 8
    assert [call.number for call in gateway.records.calls] == list(range(1, 9))
