"""What a page, a browser or a provider of identities sends in an odd shape is refused by name; nobody is let in by it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from joserfc import jwt

from gatewright.app.cli.people.agent_server import read_order, signing_summary
from gatewright.app.console.passkeys import MadePasskey, PasskeyAnswer, PasskeyOrder, _decode_base64url
from gatewright.app.console.provider.attempts import SignInAttempts
from gatewright.app.console.provider.exchange import ProviderExchange
from gatewright.app.console.provider.settings import ProviderFile, ProviderSettings, person_of, role_of
from gatewright.app.console.submitting import request_of
from gatewright.errors import DeniedError, GatewrightError, LimitError, MalformedError, UnavailableError
from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.resources import schema_directory
from gatewright.rules.approvals import NAMESPACE
from gatewright.ssh_signatures.passkeys import PasskeyAssertion, armoured_assertion, passkey_line
from tests.console.identity_provider import CLIENT, SECRET, Claims, IdentityProvider
from tests.odd_values import NO_DOCUMENTS, Message, few_or_all, odd_bytes, variants

NOW = datetime(2026, 5, 4, 12, tzinfo=UTC)
#: More than the product's readers expect of JSON: a token is read by another library.
ODD_CLAIMS: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    1.5,
    1e300,
    1 << 70,
    "",
    "x",
    "\x00",
    "a\nb",
    [],
    ["x"],
    {},
    {"x": 1},
    [[]],
)


def example(name: str, file: str) -> Message:
    found: Message = json.loads((schema_directory() / "examples" / name / "valid" / file).read_bytes())
    return found


def order_of(request: object) -> Message:
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return {"request": text, "verdict": "approve", "comment": "yes", "phrase": "", "delegate_to": None}


@few_or_all
def test_an_odd_order_signs_nothing_or_what_it_shows(values: tuple[object, ...]) -> None:
    request = example("approval_request.v1", "minimal.json")
    orders = [*odd_bytes(order_of(request), values)]
    orders += [
        json.dumps(order_of(odd)).encode() for odd in variants(request, (*values, "2026-05-04", "9999-12-31T23:59:59+00:00"))
    ]
    for data in orders:
        try:
            ordered = read_order(data, "ana", NOW)
        except (MalformedError, DeniedError):
            continue
        assert signing_summary(ordered, "key")


FORM: dict[str, str] = {
    "request": "x",
    "repository": "/srv/x",
    "paths": "src",
    "tests": "pytest",
    "maker": "patch",
    "patch": "diff --git a/a b/a\n",
    "target_ref": "refs/heads/main",
    "environment": "/env",
    "priority": "low",
}


def test_a_form_with_odd_texts_is_a_request_or_refused() -> None:
    for name in FORM:
        for odd in ("", "\x00", "a" * 70_000, "\r\n", "\u202e", "[]"):
            try:
                request_of({**FORM, name: odd})
            except MalformedError as error:
                assert error.message  # noqa: PT017 - both ends are right


SENT: Mapping[type, Message] = {
    MadePasskey: {"public_key": "AA"},
    PasskeyOrder: {"request_id": "r", "sha256": "0", "verdict": "approve", "person": "ana", "delegate_to": None},
    PasskeyAnswer: {"document": "{}", "key": "x", "client_data": "AA", "authenticator_data": "AA", "signature": "AA"},
}


@few_or_all
@pytest.mark.parametrize("kind", SENT, ids=[kind.__name__ for kind in SENT])
def test_what_a_browser_sends_of_a_passkey_is_refused_or_read(kind: type, values: tuple[object, ...]) -> None:
    read = 0
    for data in odd_bytes(SENT[kind], values):
        try:
            sent: Any = read_json(data, kind)
        except UnreadableDocumentError:
            continue
        read += 1
        try:
            if isinstance(sent, MadePasskey):
                passkey_line(_decode_base64url(sent.public_key), "console.example")
            elif isinstance(sent, PasskeyAnswer):
                parts = [_decode_base64url(each) for each in (sent.client_data, sent.authenticator_data, sent.signature)]
                armoured_assertion(sent.key, NAMESPACE, PasskeyAssertion(*parts))
        except (MalformedError, DeniedError):
            continue
    assert read > 0


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    made.open()
    yield made
    made.close()


def exchange_with(provider: IdentityProvider) -> ProviderExchange:
    file = ProviderFile("1", provider.issuer, CLIENT, "http://127.0.0.1:1", "groups", {"gw-operators": "operator"})
    return ProviderExchange(ProviderSettings(file, SECRET), clock=lambda: 0.0, now=lambda: datetime.now(UTC).timestamp())


def come_back(provider: IdentityProvider) -> Mapping[str, Any] | GatewrightError:
    """What a whole way to the provider and back gives a person."""
    exchange = exchange_with(provider)
    attempt = SignInAttempts(lambda: 0.0).begin()
    try:
        code = code_of(provider, exchange.address(attempt))
        return exchange.claims(attempt, code, provider.issuer)
    except (DeniedError, UnavailableError) as error:
        return error


def code_of(provider: IdentityProvider, address: str) -> str:
    from urllib.parse import parse_qsl, urlsplit

    back = provider.authorize(dict(parse_qsl(urlsplit(address).query)))
    return dict(parse_qsl(urlsplit(back).query))["code"]


def changed(document: Claims, name: str, odd: object) -> Claims:
    return {**document, name: odd}


NAMES = {
    "describe": ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri", "token_endpoint_auth_methods_supported"),
    "answer": ("access_token", "token_type", "expires_in", "id_token", "expires_at", "scope", "error"),
    "spoil": ("iss", "aud", "iat", "exp", "nonce", "sub", "groups", "azp", "at_hash", "amr", "nbf", "auth_time", "email"),
}


@pytest.mark.parametrize("part", NAMES)
def test_an_odd_provider_value_signs_no_person_in(provider: IdentityProvider, part: str) -> None:
    assert not isinstance(come_back(provider), GatewrightError)
    defects = []
    for name in NAMES[part]:
        for odd in ODD_CLAIMS:
            setattr(provider, part, lambda document, name=name, odd=odd: changed(document, name, odd))
            try:
                claims = come_back(provider)
                if isinstance(claims, Mapping):
                    role_of(claims, exchange_with(provider).settings.file)
                    person_of(claims, exchange_with(provider).settings)
            except Exception as error:  # noqa: BLE001 - each kind is a defect, and all are listed
                defects.append((name, odd, repr(error)[:200]))
    assert defects == []


@pytest.mark.parametrize("part", ["/keys", "/token", "/.well-known/openid-configuration"])
def test_malformed_provider_documents_sign_no_person_in(provider: IdentityProvider, part: str) -> None:
    documents = (
        *NO_DOCUMENTS,
        b"[]",
        b"5",
        b'{"keys": 5}',
        b'{"keys": [5]}',
        b'{"keys": [{"kty": 5}]}',
        b'{"keys": [{"kty": "RSA", "n": 5}]}',
    )
    for body in documents:
        provider.bodies[part] = body
        assert isinstance(come_back(provider), GatewrightError), body[:100]


@pytest.mark.parametrize("part", ["/keys", "/token", "/.well-known/openid-configuration"])
def test_an_answer_in_many_chunks_is_read_to_its_end(provider: IdentityProvider, part: str) -> None:
    provider.chunked = part
    assert not isinstance(come_back(provider), GatewrightError)


@pytest.mark.parametrize("part", ["/keys", "/token", "/.well-known/openid-configuration"])
def test_a_compression_bomb_is_not_unpacked(provider: IdentityProvider, part: str) -> None:
    provider.bodies[part] = gzip.compress(b'{"keys": [' + b" " * 50_000_000 + b"]}")
    provider.heads[part] = (200, {"Content-Encoding": "gzip"})
    refused = come_back(provider)
    assert isinstance(refused, UnavailableError)
    assert "compressed" in refused.message


@pytest.mark.parametrize("part", ["/keys", "/token", "/.well-known/openid-configuration"])
def test_an_answer_without_an_end_is_given_up(provider: IdentityProvider, part: str) -> None:
    provider.bodies[part] = b'{"keys": [' + b" " * 5_000_000 + b"]}"
    refused = come_back(provider)
    assert isinstance(refused, UnavailableError)
    assert "more than 1048576 bytes" in refused.message


@pytest.mark.parametrize("status", [302, 307])
@pytest.mark.parametrize("part", ["/keys", "/token", "/.well-known/openid-configuration"])
def test_no_redirect_of_a_provider_is_followed(provider: IdentityProvider, part: str, status: int) -> None:
    provider.heads[part] = (status, {"Location": f"{provider.issuer}/elsewhere"})
    provider.bodies[part] = b"{}"
    refused = come_back(provider)
    assert isinstance(refused, GatewrightError)
    assert not any(path.endswith("/elsewhere") for path in provider.asked)


def test_no_proxy_of_the_environment_sees_a_sign_in(provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert not isinstance(come_back(provider), GatewrightError)


def test_odd_token_headers_sign_no_person_in(provider: IdentityProvider) -> None:
    for name in ("alg", "kid", "typ", "crit", "jwk", "b64", "x5c"):
        for odd in ODD_CLAIMS:

            def sign(provider: IdentityProvider, claims: Claims, name: str = name, odd: object = odd) -> str:
                whole = jwt.encode({"alg": "RS256", "kid": "one"}, claims, provider.key)
                import base64

                header = base64.urlsafe_b64encode(json.dumps({"alg": "RS256", "kid": "one", name: odd}).encode()).rstrip(b"=")
                return f"{header.decode()}.{whole.partition('.')[2]}"

            provider.sign = sign
            assert isinstance(come_back(provider), GatewrightError)


@pytest.mark.parametrize("cookie", ["", ".", "x", "1e999.x", "nan.x", "\ud800", "9" * 5_000 + ".x", "a" * 70_000])
def test_a_cookie_of_any_shape_begins_nothing(cookie: str) -> None:
    attempts = SignInAttempts(lambda: 0.0)
    for state in ("", "\ud800", cookie):
        with pytest.raises((DeniedError, LimitError)):
            attempts.resume(cookie, state)
