"""What was recorded is played back exactly, without key or provider; what was not recorded fails, and says where."""

from __future__ import annotations

import asyncio
import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from gatewright.contracts.vocabulary import Budget
from gatewright.errors import MalformedError
from gatewright.models.apis.endpoints import Endpoint
from gatewright.models.apis.requests import read_request
from gatewright.models.cassettes import Cassette, canonical_request
from gatewright.models.cassettes.cassette import as_piece
from gatewright.models.cassettes.difference import nearest_difference
from gatewright.models.gateway import ModelGateway
from gatewright.models.policy import ModelsPolicy
from gatewright.secrets import SecretScanner
from tests.models.calls import APIS, QUICK, Got, ask, make_gateway, request_of
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Fail, Raw, Say, Script
from tests.models.wire_forms import Api

Request = tuple[str, dict[str, Any]]


async def recorded(provider: ScriptedProvider, script: Script, *requests: Request) -> tuple[bytes, list[Got]]:
    """The cassette of these calls, and what their client got."""
    provider.scripts["say"] = script
    cassette = Cassette()
    gateway = make_gateway(provider, cassette=cassette)
    got = [await ask(gateway, *each) for each in requests]
    return cassette.as_jsonl(), got


def player(provider: ScriptedProvider, tape: bytes, **options: Any) -> ModelGateway:
    return make_gateway(provider, cassette=Cassette.read(tape), **options)


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("api", APIS)
async def test_a_recorded_call_is_played_to_the_byte_without_key_or_provider(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, api: Api, streamed: bool
) -> None:
    request = request_of(api, streamed=streamed)
    tape, (live,) = await recorded(provider, [Say("once more, with feeling")], request)
    assert KEY.encode() not in tape
    monkeypatch.delenv("SCRIPTED_KEY")
    provider.requests.clear()
    gateway = player(provider, tape)
    played = await ask(gateway, *request)
    assert (played.status, played.text, played.whole) == (live.status, live.text, True)
    assert played.headers["Content-Type"] == live.headers["Content-Type"]
    assert provider.requests == []
    call = gateway.records.calls[0]
    assert call.played
    assert (call.cost_usd, call.model_used) == (0.0, gateway.grant.routes[call.model or ""][0])
    assert call.cassette_sha256 == json.loads(tape.partition(b"\n")[0])["sha256"]
    assert gateway.usage.tokens == call.input_tokens + call.output_tokens > 0


@pytest.mark.parametrize("api", APIS)
async def test_one_changed_byte_of_a_prompt_is_a_miss_that_says_where_and_goes_nowhere(
    provider: ScriptedProvider, api: Api
) -> None:
    tape, _ = await recorded(provider, [Say("yes")], request_of(api, "Rename the option."), request_of(api, "Something else"))
    provider.requests.clear()
    gateway = player(provider, tape)
    got = await ask(gateway, *request_of(api, "Rename the optioN."))
    assert got.status == 400
    assert "cassette_miss" in got.text
    assert "optioN" in got.text
    assert "/body/" in got.text
    assert gateway.records.calls[0].refused == "cassette_miss"
    assert provider.requests == []


async def test_equal_requests_are_played_in_the_order_of_their_recording_and_not_more_often(provider: ScriptedProvider) -> None:
    request = request_of("responses")
    answers = iter(["first", "second"])
    tape, _ = await recorded(provider, lambda _: Say(next(answers)), request, request)
    gateway = player(provider, tape)
    got = [await ask(gateway, *request) for _ in range(3)]
    assert ["first" in got[0].text, "second" in got[1].text] == [True, True]
    assert "fewer times" in got[2].text


async def test_errors_and_broken_replies_are_played_as_they_were(provider: ScriptedProvider) -> None:
    piece = b'data: {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "half a"}}\n\n'
    broken = Raw((piece,), headers={"Content-Type": "text/event-stream"}, close=True, delay=0.1)

    def script(body: dict[str, Any]) -> Raw | Fail:
        text = str(body["messages"])
        return broken if "break" in text else Fail(400, b'{"error": {"message": "no"}}') if "wrong" in text else Fail(500)

    requests = [request_of("messages", text, streamed=True) for text in ("break", "wrong", "fail")]
    tape, live = await recorded(provider, script, *requests)
    provider.requests.clear()
    gateway = player(provider, tape)
    played = [await ask(gateway, *each) for each in requests]
    assert [(got.status, got.whole, got.text) for got in played] == [(got.status, got.whole, got.text) for got in live]
    assert [got.status for got in played] == [200, 400, 500]
    assert provider.requests == []


async def test_what_the_gateway_refuses_is_not_recorded_and_refused_again(provider: ScriptedProvider) -> None:
    request = request_of("responses", background=True)
    tape, _ = await recorded(provider, [Say("no")], request)
    assert tape.count(b"\n") == 1
    assert "model_field_not_allowed" in (await ask(player(provider, tape), *request)).text


async def test_a_budget_holds_for_what_is_played_too(provider: ScriptedProvider) -> None:
    request = request_of("responses")
    tape, _ = await recorded(provider, [Say("much", usage=(900, 0, 200))], request)
    gateway = player(provider, tape, budget=Budget(tokens=1000))
    await ask(gateway, *request)
    assert gateway.exceeded.is_set()


@pytest.mark.parametrize("damage", ["byte", "line", "head", "empty", "piece"])
async def test_a_cassette_that_was_changed_is_none(provider: ScriptedProvider, damage: str) -> None:
    tape, _ = await recorded(provider, [Say("genuine")], request_of("responses"), request_of("gemini"))
    lines = tape.splitlines(keepends=True)
    match damage:
        case "byte":
            tape = tape.replace(b"genuine", b"forgery")
        case "line":
            tape = b"".join(lines[:-1])
        case "head":
            tape = b"".join(lines[1:])
        case "empty":
            tape = b""
        case "piece":
            tape = tape[:-10]
    with pytest.raises(MalformedError) as caught:
        Cassette.read(tape)
    assert caught.value.reason == "cassette_invalid"


def test_a_piece_that_is_no_text_comes_back_as_it_was() -> None:
    assert as_piece(b"plain") == "plain"
    for piece in (b"\xff\x00", b"base64:aGk="):
        assert as_piece(piece).startswith("base64:")


def canonical(api: Api, text: str, paths: dict[str, str] | None = None, **fields: Any) -> bytes:
    path, body = request_of(api, text, **fields)
    model = path.rpartition("/")[2].partition(":")[0] if api == "gemini" else None
    endpoint = Endpoint(api, "generate", path, model, False if api == "gemini" else None)
    return canonical_request(read_request(endpoint, body), paths or {})


@pytest.mark.parametrize(
    "line",
    [
        "Today's date: {date}",
        "Today's date is Sunday, {date} (formatted according to the user's locale).",
        "<current_date>{date}</current_date>",
        "<cwd>/tmp/{uuid}</cwd>",
        "Working directory: /tmp/{uuid}",
        "OS Version: Linux {uuid}",
        "My operating system is: {date}",
        "session {uuid} begins",
        "msg_{uuid}",
        "Wall time: 0.{digits} seconds",
        "Chunk ID: {digits}",
        "Process Group PGID: {digits}",
        "x-anthropic-billing-header: cch={digits};",
    ],
)
def test_what_differs_from_run_to_run_without_a_meaning_is_not_compared(line: str) -> None:
    def text(number: int) -> str:
        unlike = line.format(date=f"2026-11-0{number}", uuid=uuid.UUID(int=number), digits=number * 11)
        return f"Before.\n{unlike}\nAfter."

    for api in APIS:
        assert canonical(api, text(1)) == canonical(api, text(2))
        assert canonical(api, text(1)) != canonical(api, text(1) + "!")
        assert canonical(api, text(1)) != canonical(api, text(1).replace("Before", "before"))


def test_sessions_and_named_paths_are_not_compared_and_anything_else_is() -> None:
    assert canonical("responses", "x", prompt_cache_key="a", client_metadata={"a": 1}) == canonical("responses", "x")
    assert canonical("messages", "x", metadata={"user_id": "a"}) == canonical("messages", "x")
    assert canonical("chat_completions", "x", user="me") == canonical("chat_completions", "x")
    here, there = {"/tmp/home-1": "@HOME@"}, {"/tmp/home-2": "@HOME@"}
    assert canonical("gemini", "in /tmp/home-1/a", here) == canonical("gemini", "in /tmp/home-2/a", there)
    assert canonical("messages", "x", temperature=0.1) != canonical("messages", "x", temperature=0.2)
    assert canonical("responses", "x", streamed=True) != canonical("responses", "x")


def test_the_ids_that_gemini_makes_of_the_time_are_not_compared() -> None:
    def calls(number: int, name: str = "f") -> list[dict[str, Any]]:
        call = {"functionCall": {"id": f"f_{number}", "name": name, "args": {"id": "x"}}}
        return [{"role": "model", "parts": [call, {"functionResponse": {"id": f"f_{number}", "name": "f", "response": {}}}]}]

    assert canonical("gemini", "", contents=calls(1)) == canonical("gemini", "", contents=calls(2))
    assert canonical("gemini", "", contents=calls(1)) != canonical("gemini", "", contents=calls(1, "g"))
    assert b'"args":{"id":"x"}' in canonical("gemini", "", contents=calls(1))


def test_the_order_of_keys_does_not_matter() -> None:
    endpoint = Endpoint("responses", "generate", "/v1/responses")
    one = read_request(endpoint, {"model": "m", "input": "x", "text": {"a": 1, "b": 2}})
    other = read_request(endpoint, {"text": {"b": 2, "a": 1}, "input": "x", "model": "m"})
    assert canonical_request(one, {}) == canonical_request(other, {})


def test_the_nearest_request_is_the_one_that_shares_most() -> None:
    recorded = [json.dumps(each).encode() for each in ({"a": 1, "b": 2, "c": 3}, {"a": 9, "b": 9, "c": 9})]
    found = nearest_difference(b'{"a": 1, "b": 2, "c": 4}', recorded)
    assert found == ("/c", "3", "4")
    longer = nearest_difference(b'{"a": 1, "b": 2, "c": 3, "d": ["x"]}', recorded)
    assert longer == ("/d/0", "nothing", '"x"')
    assert nearest_difference(b"{}", []) is None


def test_a_long_text_is_shown_around_its_first_difference() -> None:
    one, other = ("a" * 5000 + end + "z" * 5000 for end in ("X", "Y"))
    found = nearest_difference(json.dumps({"t": other}).encode(), [json.dumps({"t": one}).encode()])
    assert found is not None
    assert ("X" in found.recorded, "Y" in found.asked) == (True, True)
    assert len(found.words) < 500


@pytest.mark.parametrize("pieces", [1, 9], ids=["in-one-event", "cut-by-events"])
async def test_secrets_are_taken_out_of_a_cassette(provider: ScriptedProvider, pieces: int) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    asks, tells = (
        request_of("messages", f"my token is {token}", streamed=True),
        request_of("messages", "and mine?", streamed=True),
    )
    provider.scripts["say"] = lambda body: Say(f"it is {token}", pieces=pieces) if "mine" in str(body) else Say("ok")
    cassette = Cassette()
    gateway = make_gateway(provider, cassette=cassette)
    for request in (asks, tells):
        await ask(gateway, *request)
    tape = await asyncio.to_thread(cassette.as_jsonl, SecretScanner())
    assert token[4:12].encode() not in tape
    playing = player(provider, tape)
    assert (await ask(playing, *asks)).whole
    assert (await ask(playing, *asks)).status == 400
    assert "the recorded reply ends here" in (await ask(playing, *tells)).text
    assert "cassette_miss" in (await ask(playing, *request_of("messages", "another", streamed=True))).text


async def test_equal_requests_at_once_each_get_a_reply_of_their_own(provider: ScriptedProvider) -> None:
    request = request_of("responses")
    answers = iter(f"answer-{number}-" for number in range(8))
    tape, _ = await recorded(provider, lambda _: Say(next(answers)), *([request] * 8))
    gateway = player(provider, tape)
    async with gateway.client() as client:

        async def one() -> str:
            async with client.post(request[0], json=request[1]) as reply:
                return await reply.text()

        texts = await asyncio.gather(*(one() for _ in range(8)))
    assert {number for number in range(8) for text in texts if f"answer-{number}-" in text} == set(range(8))


def test_a_cassette_knows_what_was_not_asked_for() -> None:
    tape = Cassette()
    assert Cassette.read(tape.as_jsonl()).left == 0
    player = Cassette.read(tape.as_jsonl())
    assert player.find(b"{}") is None
    assert "nothing is recorded" in player.miss(b"{}").message


async def test_a_task_of_two_turns_is_played_with_one_turn_left_when_it_stops(provider: ScriptedProvider) -> None:
    requests = [request_of("responses", text) for text in ("one", "two")]
    tape, _ = await recorded(provider, [Say("ok")], *requests)
    cassette = Cassette.read(tape)
    policy = ModelsPolicy.model_validate(provider.policy("say"))
    await ask(ModelGateway(policy, policy.grant("worker"), cassette=cassette, limits=replace(QUICK, attempts=1)), *requests[1])
    assert cassette.left == 1
