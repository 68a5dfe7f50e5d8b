"""The record of calls: bounded, without secrets, one line a call."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gatewright.models.apis.endings import is_complete
from gatewright.secrets import SecretScanner
from tests.models.calls import APIS, QUICK, ask, make_gateway, request_of
from tests.models.provider import ScriptedProvider
from tests.models.turns import Say
from tests.models.wire_forms import Api

TOKEN = "ghp_" + "a1B2c3D4e5" * 4


async def test_secrets_of_prompts_and_replies_are_not_kept(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say(f"your token is {TOKEN}", pieces=1)]
    gateway = make_gateway(provider)
    got = await ask(gateway, *request_of("responses", f"here: {TOKEN}"))
    assert TOKEN in got.text
    (line,) = gateway.recording.as_jsonl(SecretScanner()).splitlines()[1:]
    assert TOKEN.encode() not in line
    kept, call = json.loads(line), gateway.records.calls[0]
    assert "[redacted:" in kept["request"]
    assert (kept["request_sha256"], kept["reply"], kept["withheld"]) == (call.request_sha256, [], True)


@pytest.mark.parametrize("api", APIS)
async def test_a_secret_that_a_stream_cuts_in_pieces_is_not_kept_either(provider: ScriptedProvider, api: Api) -> None:
    provider.scripts["say"] = [Say(f"your token is {TOKEN}", pieces=15)]
    gateway = make_gateway(provider)
    await ask(gateway, *request_of(api, streamed=True))
    kept = gateway.recording.as_jsonl(SecretScanner())
    assert b'"withheld":true' in kept
    assert TOKEN[4:8].encode() not in kept


async def test_a_call_that_cannot_be_recorded_is_not_made(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("fine")]
    gateway = make_gateway(provider, limits=replace(QUICK, records=2))
    statuses = [(await ask(gateway, *request_of("responses"))).status for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert len(provider.requests) == 2
    assert len(gateway.records.calls) == 2


ENDINGS: dict[Api, str] = {
    "responses": "max_output_tokens",
    "chat_completions": "length",
    "messages": "max_tokens",
    "gemini": "MAX_TOKENS",
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("api", APIS)
async def test_the_record_contains_why_a_reply_ended(provider: ScriptedProvider, api: Api, streamed: bool) -> None:
    provider.scripts["say"] = [Say("half of it", ending=ENDINGS[api])]
    gateway = make_gateway(provider)
    await ask(gateway, *request_of(api, streamed=streamed))
    provider.scripts["say"] = [Say("all of it")]
    await ask(gateway, *request_of(api, streamed=streamed))
    cut_off, complete = (call.ending for call in gateway.records.calls)
    assert (cut_off, is_complete(api, cut_off), is_complete(api, complete)) == (ENDINGS[api], False, True)
