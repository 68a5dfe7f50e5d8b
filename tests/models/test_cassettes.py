"""What was recorded is played back exactly, without key or provider; what was not recorded fails, and says where."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts.vocabulary import Budget
from gatewright.errors import MalformedError
from gatewright.models.apis.endpoints import Endpoint
from gatewright.models.apis.requests import read_request
from gatewright.models.cassettes import Cassette, CassetteWriter, Playback, Recorded, canonical_request, task_place
from gatewright.models.cassettes.cassette import as_piece, nearest_difference
from gatewright.models.gateway import ModelGateway
from gatewright.secrets import SecretScanner
from tests.models.calls import APIS, Got, ask, make_gateway, request_of
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Fail, Raw, Say, Script
from tests.models.wire_forms import Api

Request = tuple[str, dict[str, Any]]


async def recorded(provider: ScriptedProvider, script: Script, *requests: Request) -> tuple[bytes, list[Got]]:
    """The cassette of these calls, and what their client got."""
    provider.scripts["say"] = script
    gateway = make_gateway(provider, task="plan.w01")
    got = [await ask(gateway, *each) for each in requests]
    return gateway.recording.as_jsonl(), got


def player(provider: ScriptedProvider, tape: bytes, **options: Any) -> ModelGateway:
    return make_gateway(provider, playing=Cassette.read(tape), **options)


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
async def test_one_changed_prompt_byte_is_a_located_miss(provider: ScriptedProvider, api: Api) -> None:
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


async def test_equal_requests_are_replayed_in_recorded_order_and_only_once(provider: ScriptedProvider) -> None:
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


async def test_what_the_gateway_refuses_is_not_played_and_refused_again(provider: ScriptedProvider) -> None:
    request = request_of("responses", background=True)
    tape, _ = await recorded(provider, [Say("no")], request)
    (call,) = Cassette.read(tape).calls
    assert (call.refused, Cassette.read(tape).left) == ("model_field_not_allowed", 0)
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
        "Today's date: 2026-11-0{number}",
        "Today's date: Sun Nov 0{number} 2026",
        "Today's date is Sunday, November {number}, 2026 (formatted according to the user's locale).",
        "Today is {number} November 2026, by the way",
        "<current_date>2026-11-0{number}</current_date>",
        "<timezone>Europe/Berlin{number}</timezone>",
        " - OS Version: Linux 6.1.0-{number}-amd64",
    ],
)
def test_day_and_host_lines_of_an_agent_are_not_compared(line: str) -> None:
    def text(number: int) -> str:
        return f"Before.\n{line.format(number=number)}\nAfter."

    for api in APIS:
        assert canonical(api, text(1)) == canonical(api, text(2))
        assert canonical(api, text(1)) != canonical(api, text(1) + "!")
        assert canonical(api, text(1)) != canonical(api, text(1).replace("Before", "before"))


@pytest.mark.parametrize(
    "line",
    [
        "Today is a good day to rename option {number}",
        "Today's date is in file {number}",
        "Working directory: src/{number}",
        "<cwd>/workspace/{number}</cwd>",
        "<current_date>the day of {number}</current_date>",
        "My operating system is: {number}",
        "use 00000000-0000-0000-0000-00000000000{number} as the id",
        "Wall time: 0.{number} seconds at most",
        "it must end within 0.{number} s",
        "read /tmp/tmpabcdefg{number}",
        "the header x-anthropic-billing-header: {number}",
    ],
)
def test_prompt_text_that_looks_like_a_measure_is_compared_exactly(line: str) -> None:
    for api in APIS:
        assert canonical(api, line.format(number=1)) != canonical(api, line.format(number=2))


def printed(api: Api, text: str) -> bytes:
    """The canonical form of a request in which a tool gives back ``text``."""
    match api:
        case "responses":
            return canonical(api, "", input=[{"type": "function_call_output", "call_id": "c", "output": text}])
        case "chat_completions":
            return canonical(api, "", messages=[{"role": "tool", "tool_call_id": "c", "content": text}])
        case "messages":
            block = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": text}]}
            return canonical(api, "", messages=[{"role": "user", "content": [block]}])
        case "gemini":
            answer = {"functionResponse": {"name": "f", "response": {"output": text}}}
            return canonical(api, "", contents=[{"role": "user", "parts": [answer]}])


@pytest.mark.parametrize(
    "line",
    [
        "Wall time: 0.{number} seconds",
        "Chunk ID: {number}{number}a",
        "Process Group PGID: {number}",
        "3 passed in 0.1{number}s",
        "ok  example.org/pkg 0.00{number}s",
        "# duration_ms 12.{number}",
        "-rw-r--r-- 1 root root 4 Nov 22 17:3{number} a.py",
        "2026-11-22T17:30:0{number}.123Z started",
        "session 00000000-0000-0000-0000-00000000000{number} begins",
        "wrote /tmp/tmpabcdefg{number}/x",
    ],
)
def test_measurements_in_tool_results_are_not_compared(line: str) -> None:
    for api in APIS:
        assert printed(api, line.format(number=1)) == printed(api, line.format(number=2))
        assert printed(api, line.format(number=1)) != printed(api, line.format(number=1) + "!")


def test_an_id_that_the_client_makes_up_is_not_compared() -> None:
    def items(number: int, prefix: str = "msg_") -> list[dict[str, Any]]:
        return [{"type": "message", "role": "user", "id": f"{prefix}{uuid.UUID(int=number)}", "content": "x"}]

    assert canonical("responses", "", input=items(1)) == canonical("responses", "", input=items(2))
    assert canonical("responses", "", input=items(1)) != canonical("responses", "", input=items(1, "rs_"))


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
    gateway = make_gateway(provider)
    for request in (asks, tells):
        await ask(gateway, *request)
    tape = await asyncio.to_thread(gateway.recording.as_jsonl, SecretScanner())
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


def put(folder: Path, name: str, task: str, *calls: Recorded) -> Path:
    """A cassette of ``task`` in a folder, which is made."""
    writer = CassetteWriter(task)
    for call in calls:
        writer.record(call)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(writer.as_jsonl())
    return path


def a_call(request: bytes = b"{}", text: str = "fine") -> Recorded:
    digest = hashlib.sha256(request).hexdigest()
    return Recorded(
        request_sha256=digest,
        request=request.decode(),
        status=200,
        content_type="application/json",
        reply=(text,),
        whole=True,
        model_used="m",
        provider="p",
        input_tokens=1,
        cached_tokens=0,
        cache_written_tokens=0,
        output_tokens=1,
    )


def test_tasks_that_ask_the_same_at_once_each_play_their_own(tmp_path: Path) -> None:
    for number in (1, 2):
        put(tmp_path / "cassettes", f"{number}.cassette.jsonl", f"plan.w0{number}", a_call(text=f"of {number}"))
    put(tmp_path / "consultations" / "run.plan", "calls.cassette.jsonl", "plan", a_call(text="of the plan"))
    playback = Playback(tmp_path)
    # Each delivery of a task begins at the beginning, too.
    for _ in range(2):
        for task, text in (("plan.w02", "of 2"), ("plan.w01", "of 1"), ("plan", "of the plan")):
            found = playback.cassette(task).find(b"{}")
            assert found is not None
            assert found.reply == (text,)
    missing = playback.cassette("plan.w03")
    assert missing.find(b"{}") is None
    assert "nothing is recorded of plan.w03" in missing.miss(b"{}").message


def test_a_task_is_called_the_same_in_every_run() -> None:
    assert task_place("run-0123", "run-0123.plan.w01.a2") == "plan.w01.a2"


@pytest.mark.parametrize("what", ["missing", "empty", "damaged", "truncated", "link", "pipe", "large", "twice", "folder"])
def test_a_folder_that_holds_no_cassettes_or_hostile_ones_plays_nothing(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "folder"
    path = put(folder, "a.cassette.jsonl", "plan", a_call())
    match what:
        case "missing":
            folder = tmp_path / "nowhere"
        case "empty":
            path.unlink()
        case "damaged":
            path.write_bytes(path.read_bytes().replace(b"fine", b"evil"))
        case "truncated":
            path.write_bytes(path.read_bytes()[:-5])
        case "link":
            path.rename(tmp_path / "elsewhere")
            path.symlink_to(tmp_path / "elsewhere")
        case "pipe":
            path.unlink()
            os.mkfifo(path)
        case "large":
            os.truncate(path, 100_000_000)
        case "twice":
            put(folder, "b.cassette.jsonl", "plan")
        case "folder":
            path.unlink()
            path.mkdir()
    with pytest.raises(MalformedError) as caught:
        Playback(folder).cassette("plan")
    assert caught.value.reason == "cassette_invalid"


def test_an_oversized_cassette_omits_all_calls_and_notes_it() -> None:
    writer = CassetteWriter("plan", most_bytes=10_000)
    for _ in range(100):
        writer.record(a_call(text="x" * 1000))
    cassette = Cassette.read(writer.as_jsonl())
    assert (cassette.head.left_out, cassette.head.task, cassette.calls) == ("too_large", "plan", ())


async def test_where_the_policy_keeps_no_texts_there_is_none_in_the_cassette(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Say("a word of the model")]
    gateway = make_gateway(provider, texts=False)
    await ask(gateway, *request_of("responses", "a word of ours"))
    tape = gateway.recording.as_jsonl(SecretScanner())
    assert Cassette.read(tape).head.left_out == "texts_not_kept"
    assert b"word" not in tape + gateway.records.as_jsonl()
    assert gateway.records.calls[0].request_sha256


async def test_what_is_played_is_recorded_again_to_the_byte(provider: ScriptedProvider) -> None:
    requests = [request_of("responses", "one", streamed=True), request_of("gemini", "two"), request_of("messages", "no")]
    tape, _ = await recorded(provider, lambda body: Fail(400) if "no" in str(body) else Say("yes"), *requests)
    gateway = player(provider, tape, task="plan.w01")
    for request in requests:
        await ask(gateway, *request)
    assert gateway.recording.as_jsonl() == tape


def test_a_cassette_knows_what_was_not_asked_for() -> None:
    assert Cassette.read(CassetteWriter().as_jsonl()).left == 0
    player = Cassette((a_call(),))
    assert player.left == 1
    assert player.find(b"{}") is not None
    assert player.left == 0
    assert player.find(b"{}") is None
    assert "nothing is recorded" in Cassette().miss(b"{}").message


async def test_a_partial_replay_leaves_the_unused_recorded_call(provider: ScriptedProvider) -> None:
    requests = [request_of("responses", text) for text in ("one", "two")]
    tape, _ = await recorded(provider, [Say("ok")], *requests)
    cassette = Cassette.read(tape)
    await ask(make_gateway(provider, playing=cassette), *requests[1])
    assert cassette.left == 1
