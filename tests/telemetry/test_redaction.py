"""Attacks on the logs: every usual way a secret gets into a line, and hostile text that is made to cost time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gatewright.contracts.vocabulary import Repository
from gatewright.telemetry.redaction import MAX_DEPTH, MAX_ITEMS, MAX_TEXT, is_secret_key, redact, redact_text

SECRET = "hunter2-correct-horse"
KEY_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
PRIVATE_KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{KEY_BODY}\n{KEY_BODY}\n-----END OPENSSH PRIVATE KEY-----"
# Put together here, so that no scanner takes this file for a leak.
GITHUB = "ghp_" + "a1B2" * 9
GITHUB_FINE = "github_pat_" + "11ABC_" * 8
AWS = "AKIA" + "ABCDEFGH12345678"
JWT = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
NATS_SEED = "SU" + "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" + "ABCDEFGHIJKLMNOPQRSTUVWX"
MODEL_KEY = "sk-" + "proj-" + "Ab3" * 12


@pytest.mark.parametrize(
    ("text", "leak", "rule"),
    [
        (f"cannot fetch https://me:{SECRET}@example.org/a.git", SECRET, "url_credentials"),
        (f"nats://{SECRET}@127.0.0.1:4222", SECRET, "url_credentials"),
        (f"x_https://u:{SECRET}@host and more", SECRET, "url_credentials"),
        (f"https://u:p@{SECRET}@host/", SECRET, "url_credentials"),
        (f"ssh://git:{SECRET}@host/a", SECRET, "url_credentials"),
        (f"ssh://git@evil:{SECRET}@host/a", SECRET, "url_credentials"),
        (f"https://host/a?access_token={SECRET}&x=1", SECRET, "assignment"),
        (f"Authorization: Basic {SECRET}", SECRET, "authorization"),
        (f'{{"authorization": "Bearer {SECRET}"}}', SECRET, "authorization"),
        (f"curl -H 'Authorization: token {SECRET}' https://host", SECRET, "authorization"),
        (f"used bearer {SECRET} for it", SECRET, "bearer"),
        (f"password={SECRET}", SECRET, "assignment"),
        (f"PGPASSWORD={SECRET} psql", SECRET, "assignment"),
        (f"DB_PASS={SECRET}", SECRET, "assignment"),
        (f"AWS_SECRET_ACCESS_KEY = {SECRET}", SECRET, "assignment"),
        (f'"client_secret": "{SECRET} with blanks"', "blanks", "assignment"),
        (f'{{\\"password\\": \\"{SECRET}\\"}}', SECRET, "assignment"),
        (f"{{'api_key': '{SECRET}'}}", SECRET, "assignment"),
        (f"//registry.example/:_authToken={SECRET}", SECRET, "assignment"),
        (f"login --password {SECRET} --user me", SECRET, "option"),
        (f"tool --api-key={SECRET}", SECRET, "assignment"),
        (f"remote said {GITHUB}.", GITHUB, "github_token"),
        (f"prefix{GITHUB_FINE}", GITHUB_FINE, "github_token"),
        (f"key {AWS}", AWS, "aws_key"),
        (f"got {JWT}", "dozjgNryP4J3", "jwt"),
        (f"seed {NATS_SEED}", NATS_SEED, "nats_seed"),
        (f"key {MODEL_KEY}", MODEL_KEY, "model_key"),
        (f"file:\n{PRIVATE_KEY}\nend", KEY_BODY, "private_key"),
        (PRIVATE_KEY.replace("\n", "\\n"), KEY_BODY, "private_key"),
        (f"-----BEGIN PRIVATE KEY-----\n{KEY_BODY}", KEY_BODY, "private_key"),
        (f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n{KEY_BODY}", KEY_BODY, "private_key"),
    ],
)
def test_secret_in_text_is_replaced_by_the_name_of_its_rule(text: str, leak: str, rule: str) -> None:
    redacted = redact_text(text)
    assert leak not in redacted
    assert f"[redacted:{rule}]" in redacted


@pytest.mark.parametrize(
    "text",
    [
        "ssh://git@github.com/org/project.git",
        "git+ssh://git@github.com/org/project.git",
        "artifact:sha256:" + "0" * 64,
        "nats://127.0.0.1:4222",
        "committed 1234567890123456789012345678901234567890 by me@example.org",
        "the tokenizer found 12 words; 3 tests passed",
        "path src/token_bucket.py line 12",
    ],
)
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert redact_text(text) == text


def test_host_and_path_stay_readable_when_the_credential_goes() -> None:
    assert redact_text("https://a:b@host:8080/p") == "https://[redacted:url_credentials]@host:8080/p"


@pytest.mark.parametrize(
    "key",
    [
        "token", "access_token", "accessToken", "X-Api-Key", "apikey", "API_KEY", "client_secret", "clientsecret",
        "Authorization", "authorization_header", "password", "db.password", "passwd", "private_key", "privateKey",
        "AWS_SECRET_ACCESS_KEY", "nkey", "seed", "jwt", "session_id", "Set-Cookie", "github_token", "tokens", "auth",
    ],
)  # fmt: skip
def test_value_under_a_secret_key_goes_whole(key: str) -> None:
    assert redact({key: SECRET}) == {key: "[redacted:key]"}
    assert redact({key: ["a", {"b": SECRET}]}) == {key: "[redacted:key]"}


@pytest.mark.parametrize("key", ["author", "run_id", "task_id", "monkey", "path", "keys", "tokenizer", "authority", "passed"])
def test_key_that_only_looks_alike_keeps_its_value(key: str) -> None:
    assert not is_secret_key(key)


def test_number_under_a_secret_key_is_a_budget_not_a_secret() -> None:
    assert redact({"tokens": 1200, "password": None, "token": ""}) == {"tokens": 1200, "password": None, "token": ""}


def test_secret_is_found_however_deep_it_lies() -> None:
    nested = {"a": [{"b": ({"password": SECRET}, f"https://u:{SECRET}@h/")}]}
    assert SECRET not in str(redact(nested))


def test_secret_in_a_key_is_redacted_too() -> None:
    assert GITHUB not in str(redact({GITHUB: 1}))


def test_secret_in_bytes_paths_and_exceptions_is_redacted() -> None:
    values = [f"token={SECRET}".encode(), Path(f"/x/password={SECRET}"), ValueError(f"secret: {SECRET}")]
    assert SECRET not in str(redact(values))


def test_document_and_dataclass_are_redacted_field_by_field() -> None:
    @dataclass
    class Login:
        user: str
        password: str

    redacted = redact([Repository(url=f"https://u:{SECRET}@host/r.git"), Login("me", SECRET)])
    assert SECRET not in str(redacted)
    assert redacted[1] == {"user": "me", "password": "[redacted:key]"}


def test_object_of_unknown_type_shows_its_type_only() -> None:
    class Chatty:
        def __repr__(self) -> str:
            return SECRET

    assert SECRET not in str(redact({"value": Chatty()}))


def test_structure_that_contains_itself_ends() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = [loop]
    assert "[nested too deep]" in str(redact(loop))
    assert str(redact(loop)).count("again") <= MAX_DEPTH


def test_wide_structure_and_long_text_are_cut() -> None:
    assert len(redact(list(range(MAX_ITEMS * 10)))) == MAX_ITEMS + 1
    assert len(redact({str(number): number for number in range(MAX_ITEMS * 10)})) == MAX_ITEMS + 1
    assert len(redact_text("x" * MAX_TEXT * 3)) < MAX_TEXT + 10


def test_secret_that_the_cut_would_halve_does_not_leak_its_beginning() -> None:
    assert "ghp_" not in redact_text("x" * (MAX_TEXT - 9) + " " + GITHUB)


def test_values_that_json_cannot_express_are_replaced() -> None:
    assert redact_text("a\ud800b") == "a\\ud800b"
    assert redact(2**80) == "[large integer]"


@pytest.mark.parametrize(
    "unit",
    [
        "a.", "a:", "://", "ssh://", "://a", "eyJ", "eyJ-", "eyJaaaaaaaaaaaaaa.", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN A A A A ", 'password="', "password='", 'password=\\"', "--token ", "token", "token ", "token_", "token-=",
        "bearer ", "Authorization:", "S", "SU", "AKIA", "gh", "ghp_", "sk-", "sk-a-", "xoxb-", "[redacted:", '\\"', "@", "A",
        "glab-",
    ],
)  # fmt: skip
def test_text_made_to_cost_time_costs_little(unit: str) -> None:
    text = unit * (2_000_000 // len(unit))
    begun = time.process_time()
    redact_text(text)
    assert time.process_time() - begun < 0.5


@pytest.mark.parametrize(
    "text",
    [
        *("PWD=/work/gatewright-x8Kd2fQ7/ws", "OLDPWD=/home/me", "pwd: /srv/app", "pwd=~/src", "prompt_tokens: 1200"),
        *("completion_tokens=87, total_tokens=1,287", '"max_tokens": 4096', "tokens_used: 12", "edit /etc/passwd: allowed"),
        *(
            "read /run/secrets/token: denied by policy",
            "token_type: bearer",
            "password_changed: true",
            "secret_found: src/a.py",
        ),
        *("api_key: null", "credentials: none", "PASSWORD_FILE=/run/secrets/db", "tokenizer: cl100k_base", "token_limit: many"),
    ],
)
def test_what_states_a_fact_about_a_secret_is_kept(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pwd=/x8Kd2fQ7aZ/q9", "x8Kd2fQ7aZ"),
        ("Server=h;PWD=hunter2;", "hunter2"),
        ("write /app/password: x8Kd2fQ7aZ", "x8Kd2fQ7aZ"),
        ("/login/token=hunter2", "hunter2"),
        ("PASSWORD_FILE=x8Kd2fQ7aZp1", "x8Kd2fQ7aZp1"),
        ("token: 123456", "123456"),
        ("tokens: abc123", "abc123"),
        ("passwd: hunter2", "hunter2"),
    ],
)
def test_a_secret_that_is_written_like_a_fact_goes(text: str, value: str) -> None:
    assert value not in redact_text(text)


def test_facts_under_secret_keys_are_kept() -> None:
    facts = {"PWD": "/work/x8Kd2fQ7/ws", "prompt_tokens": "1200", "token_type": "bearer", "token": "none"}
    assert redact(facts) == facts
    assert redact({"PWD": "hunter2", "token": "123456"}) == {"PWD": "[redacted:key]", "token": "[redacted:key]"}
