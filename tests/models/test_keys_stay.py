"""The provider's key is seen by the provider alone: whatever it, or one who poses as it, sends back."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from gatewright.errors import ConfigurationError
from gatewright.models.gateway.upstream import KeyScrubber
from gatewright.models.policy import ModelsPolicy, load_models
from gatewright.policy_files import EnvironmentKey, FileKey, KeyringKey, KeyringName
from gatewright.secrets import SecretScanner
from tests.models.calls import QUICK, Got, ask, make_gateway, request_of
from tests.models.provider import KEY, ScriptedProvider
from tests.models.turns import Fail, Raw, Say, Turn

ENCODED = base64.b64encode(f"Bearer {KEY}".encode()).decode()
EVENT = b'data: {"type": "response.output_text.delta", "delta": "%s"}\n\n'
SSE = {"Content-Type": "text/event-stream"}
IN_A_HEADER = {"X-Echo": KEY, "X-Request-Id": KEY, "Set-Cookie": f"key={KEY}", "WWW-Authenticate": KEY}


def said(text: str) -> bytes:
    return json.dumps({"output": [{"type": "message", "content": [{"type": "output_text", "text": text}]}]}).encode()


@pytest.mark.parametrize(
    "turn",
    [
        Raw((said(f"your key is {KEY}"),), headers=IN_A_HEADER),
        Raw((said(f"{ENCODED} {KEY.encode().hex()} {quote(KEY, safe='')}"),)),
        Raw((EVENT % KEY.encode(),), headers=SSE | IN_A_HEADER),
        Raw(tuple(bytes([byte]) for byte in EVENT % KEY.encode()), headers=SSE),
        Raw(
            (EVENT % KEY[:20].encode()[:0] + b"data: " + KEY[:25].encode(), KEY[25:].encode() + b"\n\n"),
            headers=SSE,
            delay=0.05,
        ),
        Raw((b"data: " + KEY.encode(),), headers=SSE, close=True),
        Fail(400, json.dumps({"error": {"message": f"bad request with Authorization: Bearer {KEY}"}}).encode(), IN_A_HEADER),
        Fail(400, f"<html>{KEY}</html>".encode(), {"Content-Type": "text/html"} | IN_A_HEADER),
        Fail(401, json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()),
        Fail(403, KEY.encode()),
        Fail(429, KEY.encode(), IN_A_HEADER),
        Fail(500, KEY.encode()),
        Fail(302, KEY.encode(), {"Location": f"https://elsewhere.example/{KEY}"}),
        Raw((f"HTTP is no JSON {KEY}".encode(),)),
    ],
    ids=[
        "plain",
        "forms",
        "streamed",
        "bytewise",
        "two-pieces",
        "cut",
        "error",
        "page",
        "401",
        "403",
        "429",
        "500",
        "redirect",
        "malformed",
    ],
)
async def test_a_key_that_the_provider_echoes_reaches_neither_client_nor_record(provider: ScriptedProvider, turn: Turn) -> None:
    provider.scripts["say"] = [turn]
    gateway = make_gateway(provider)
    path, body = request_of("responses", streamed=isinstance(turn, Raw) and dict(turn.headers).get("Content-Type") is not None)
    got = await ask(gateway, path, body)
    assert KEY in str(provider.requests[0].headers)
    kept = gateway.records.as_jsonl() + gateway.recording.as_jsonl(SecretScanner()) + gateway.recording.as_jsonl()
    for form in (KEY, ENCODED, KEY.encode().hex(), KEY[:30]):
        assert form not in seen_by(got)
        assert form.encode() not in kept


def seen_by(client: Got) -> str:
    return f"{client.text}{client.headers}"


async def test_a_redirect_is_not_followed(provider: ScriptedProvider) -> None:
    with ScriptedProvider({"say": [Say("the thief")]}) as thief:
        provider.scripts["say"] = [Fail(307, b"", {"Location": thief.base_url("say", "responses") + "/responses"})]
        gateway = make_gateway(provider)
        got = await ask(gateway, *request_of("responses"))
        assert got.status == 502
        assert thief.requests == []
    assert "Location" not in got.headers


async def test_a_refused_key_is_not_tried_again_and_not_elsewhere(provider: ScriptedProvider) -> None:
    provider.scripts["say"] = [Fail(401)]
    gateway = make_gateway(provider)
    got = await ask(gateway, *request_of("responses"))
    assert got.status == 401
    assert json.loads(got.text)["error"]["code"] == "model_key_refused"
    assert len(provider.requests) == 1


async def test_a_missing_key_is_reported_and_nothing_is_sent(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCRIPTED_KEY")
    got = await ask(make_gateway(provider), *request_of("messages"))
    assert got.status == 401
    assert "model_key_missing" in got.text
    assert "SCRIPTED_KEY" in got.text
    assert provider.requests == []


@pytest.mark.parametrize("cut", range(1, len(KEY)))
def test_a_key_is_found_wherever_a_stream_is_cut(cut: int) -> None:
    scrubber = KeyScrubber([KEY])
    text = f"before {KEY} after {KEY[:10]}".encode()
    first = text.index(KEY.encode()) + cut
    out = scrubber.feed(text[:first]) + scrubber.feed(text[first:]) + scrubber.finish()
    assert out == f"before [redacted:provider_key] after {KEY[:10]}".encode()


def test_what_is_no_key_is_passed_on_at_once() -> None:
    scrubber = KeyScrubber([KEY])
    assert scrubber.feed(b"data: hello\n\n") == b"data: hello\n\n"


def test_a_key_comes_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    monkeypatch.setenv("A_KEY", f" {KEY} ")
    assert FileKey(file=tmp_path / "key").read() == KEY
    assert EnvironmentKey(environment="A_KEY").read() == KEY


def test_an_engines_key_file_is_found_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text(f"{KEY}\n")
    monkeypatch.delenv("A_KEY", raising=False)
    monkeypatch.setenv("A_KEY_FILE", str(tmp_path / "secret"))
    assert EnvironmentKey(environment="A_KEY").read() == KEY
    for file in ("/dev/null", str(tmp_path / "none"), "secret"):
        monkeypatch.setenv("A_KEY_FILE", file)
        with pytest.raises(ConfigurationError) as caught:
            EnvironmentKey(environment="A_KEY").read()
        assert caught.value.reason == "model_key_missing"


@pytest.mark.parametrize("value", ["", " ", "two words", "a\nb", "k\u00e9y", "x" * 20_000])
def test_what_cannot_be_a_key_is_refused_without_being_quoted(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", value)
    with pytest.raises(ConfigurationError) as caught:
        EnvironmentKey(environment="A_KEY").read()
    assert caught.value.reason == "model_key_missing"
    assert not value.strip() or value not in caught.value.message


def test_a_missing_keyring_is_reported() -> None:
    with pytest.raises(ConfigurationError, match="keyring"):
        KeyringKey(keyring=KeyringName(service="openai", user="me")).read()


@pytest.mark.parametrize(
    "change",
    [
        {"base_url": "http://models.example/v1"},
        {"base_url": "https://user:word@models.example"},
        {"base_url": "https://models.example/?key=1"},
        {"base_url": "file:///etc/passwd"},
        {"headers": {"Authorization": "Bearer x"}},
        {"headers": {"X-Api-Key": "x"}},
        {"headers": {"X-A\r\nB": "x"}},
        {"headers": {"X-A": "x\r\nB: c"}},
        {"key": "sk-in-the-open"},
        {"key": {"value": "sk-in-the-open"}},
        {"key": {"file": "relative/key"}},
    ],
    ids=str,
)
def test_a_policy_that_would_show_a_key_is_refused(provider: ScriptedProvider, change: dict[str, Any]) -> None:
    policy = provider.policy("say")
    policy["providers"][0] |= change
    with pytest.raises(ValueError, match="providers"):
        ModelsPolicy.model_validate(policy)


async def test_a_proxy_of_the_environment_is_not_used(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    provider.scripts["say"] = [Say("direct")]
    got = await ask(make_gateway(provider, limits=replace(QUICK, attempts=1)), *request_of("responses"))
    assert got.status == 200


def test_a_key_in_the_policy_by_mistake_is_not_quoted(provider: ScriptedProvider, tmp_path: Path) -> None:
    policy = provider.policy("say")
    policy["providers"][0]["key"] = KEY
    (tmp_path / "models.json").write_text(json.dumps(policy))
    with pytest.raises(ConfigurationError) as caught:
        load_models(tmp_path)
    assert KEY not in caught.value.message
