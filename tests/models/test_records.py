"""The record of calls: bounded, without secrets, one line a call."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gatewright.models.records import CallRecord, CallRecords, sha256
from gatewright.secrets import SecretScanner
from tests.models.calls import APIS, QUICK, ask, make_gateway, request_of
from tests.models.provider import ScriptedProvider
from tests.models.turns import Say
from tests.models.wire_forms import Api

TOKEN = "ghp_" + "a1B2c3D4e5" * 4


def make_record(number: int) -> CallRecord:
    return CallRecord(number=number, time="2026-01-01T00:00:00.000Z", role="worker", endpoint="/v1/x", status=200, seconds=0.1)


async def test_secrets_of_prompts_and_replies_are_not_kept(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say(f"your token is {TOKEN}", pieces=1)]
    gateway = make_gateway(provider)
    got = await ask(gateway, *request_of("responses", f"here: {TOKEN}"))
    assert TOKEN in got.text
    bodies = [json.loads(line) for line in gateway.records.bodies(SecretScanner()).splitlines()]
    assert TOKEN not in json.dumps(bodies)
    assert all(body["redacted"] for body in bodies)
    call = gateway.records.calls[0]
    assert {body["sha256"] for body in bodies} == {call.request_sha256, call.reply_sha256}


@pytest.mark.parametrize("api", APIS)
async def test_a_secret_that_a_stream_cuts_in_pieces_is_not_kept_either(provider: ScriptedProvider, api: Api) -> None:
    provider.scripts["say"] = [Say(f"your token is {TOKEN}", pieces=15)]
    gateway = make_gateway(provider)
    await ask(gateway, *request_of(api, streamed=True))
    kept = gateway.records.bodies(SecretScanner())
    assert b"your token is [redacted:" in kept
    assert TOKEN[4:8].encode() not in kept


def test_bodies_beyond_the_bound_are_left_out_and_counted() -> None:
    records = CallRecords(most_bytes=10)
    records.add(make_record(1), b"12345", b"1234567")
    records.add(make_record(2), b"12345")
    assert records.bodies_left_out == 1
    assert [json.loads(line)["sha256"] for line in records.bodies(SecretScanner()).splitlines()] == [sha256(b"12345")]
    assert len(records.as_jsonl().splitlines()) == 2


async def test_a_call_that_cannot_be_recorded_is_not_made(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("fine")]
    gateway = make_gateway(provider, limits=replace(QUICK, records=2))
    statuses = [(await ask(gateway, *request_of("responses"))).status for _ in range(4)]
    assert statuses == [200, 200, 429, 429]
    assert len(provider.requests) == 2
    assert len(gateway.records.calls) == 2
