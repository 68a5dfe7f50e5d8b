"""Sign-in at a provider of OpenID Connect: what lets a person in as what, and everything that does not."""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gatewright.app.cli.console import submit_access
from gatewright.app.cli.context import CommandContext
from gatewright.app.console.access_check import SignedIn
from gatewright.app.console.provider.attempts import ATTEMPT_SECONDS, SignInAttempts
from gatewright.app.console.provider.settings import ProviderFile, ProviderSettings, person_of, read_provider, role_of
from gatewright.app.console.serving import ConsoleAddress
from gatewright.app.console.submitting import SubmitAccess
from gatewright.bus.memory.bus import MemoryBus
from gatewright.contracts import RunRequest, codec
from gatewright.contracts.vocabulary import Person
from gatewright.errors import ConfigurationError, DeniedError, LimitError
from tests.client.conftest import ScriptedGatekeeper
from tests.console.conftest import MakeConsole, ServedConsole, free_port
from tests.console.identity_provider import (
    CLIENT,
    SECRET,
    Claims,
    IdentityProvider,
    keep,
    signed,
    signed_by_another,
    signed_with_the_secret,
    unsigned,
)
from tests.console.test_pages import TOKEN, Answer, ask
from tests.console.test_submitting import FIELDS, Publisher
from tests.report.conftest import HOSTILE

ROLES = {"gw-viewers": "viewer", "gw-operators": "operator", "gw-approvers": "approver"}
EVERY = "0.0.0.0"  # noqa: S104 - to be refused


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    made = IdentityProvider()
    made.open()
    yield made
    made.close()


def written(folder: Path, issuer: str, console: str, changes: dict[str, Any] | None = None) -> Path:
    """The operator's file, beside one with the secret."""
    secret = folder / "secret"
    secret.touch(0o600)
    secret.write_text(SECRET + "\n")
    document = {
        "version": "1",
        "issuer": issuer,
        "client_id": CLIENT,
        "client_secret_file": "secret",
        "console": console,
        "role_claim": "groups",
        "roles": ROLES,
    }
    file = folder / "oidc.json"
    file.write_text(json.dumps({**document, **(changes or {})}))
    return file


@pytest.fixture
def signing_in(provider: IdentityProvider, make_console: MakeConsole, tmp_path: Path) -> ServedConsole:
    port = free_port()
    settings = read_provider(written(tmp_path, provider.issuer, f"http://127.0.0.1:{port}", {"session_seconds": 600}))
    return make_console(port=port, provider=settings, decides=True)


def at_provider(address: str) -> str:
    """What a browser does that is sent to the provider: where it is sent then."""
    parts = urllib.parse.urlsplit(address)
    connection = http.client.HTTPConnection(parts.netloc)
    connection.request("GET", f"{parts.path}?{parts.query}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    back = answer.getheader("Location") or ""
    return back.partition("127.0.0.1")[2].partition("/")[2]


def leave(console: ServedConsole) -> tuple[dict[str, str], str]:
    """The cookies of a browser on its way, and the path that the provider sends it back to."""
    left = ask(console, "/sign-in/provider")
    assert left.status == 303, left.text
    cookie = left.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=lax", "Path=/sign-in"} <= set(cookie.split("; "))
    return {"Cookie": cookie.partition(";")[0]}, "/" + at_provider(left.headers["location"])


def sign_in(console: ServedConsole) -> Answer:
    cookies, back = leave(console)
    return ask(console, back, headers=cookies)


def session_of(answer: Answer) -> dict[str, str]:
    """Of both cookies that are set the first."""
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


def told(answer: Answer) -> tuple[int, bool]:
    return answer.status, "gatewright_session" in answer.headers.get("set-cookie", "")


def test_a_person_has_the_claimed_role_until_they_sign_out(signing_in: ServedConsole, provider: IdentityProvider) -> None:
    console = signing_in
    assert (ask(console, "/").status, ask(console, "/events").status) == (303, 401)
    page = ask(console, "/sign-in").text
    assert 'href="/sign-in/provider"' in page
    assert 'name="token"' not in page

    connection = http.client.HTTPConnection("127.0.0.1", console.port)
    cookies, back = leave(console)
    connection.request("GET", back, headers=cookies)
    answer = connection.getresponse()
    text, set_cookies = answer.read().decode(), answer.headers.get_all("set-cookie") or []
    connection.close()
    assert (answer.status, len(provider.redeemed)) == (200, 1)
    (session,) = (each for each in set_cookies if each.startswith("gatewright_session="))
    assert {"HttpOnly", "SameSite=strict", "Max-Age=600", "Path=/"} <= set(session.split("; "))
    assert any(each.startswith("gatewright_sign_in=") and "Max-Age=0" in each for each in set_cookies)
    assert 'content="0;url=/"' in text
    signed_in = {"Cookie": session.partition(";")[0]}
    board = ask(console, "/", headers=signed_in)
    assert (board.status, "Sign out (operator)" in board.text) == (200, True)

    # The way back leads in once.
    assert told(ask(console, back, headers=cookies)) == (403, False)
    assert len(provider.redeemed) == 1

    form = board.headers["set-cookie"].partition(";")[0]
    both = {"Cookie": f"{signed_in['Cookie']}; {form}"}
    assert ask(console, "/sign-out", method="POST", form={"mark": "x" * 43}, headers=both).status == 403
    assert ask(console, "/", headers=signed_in).status == 200
    assert ask(console, "/sign-out", method="POST", form={"mark": form.partition("=")[2]}, headers=both).status == 303
    assert ask(console, "/", headers=signed_in).status == 303


def changed(**claims: Any) -> Callable[[Claims], Claims]:
    return lambda made: {**made, **claims}


def without(name: str) -> Callable[[Claims], Claims]:
    return lambda made: {key: value for key, value in made.items() if key != name}


#: Each a token that an honest provider would not give for this sign-in.
TOKENS: dict[str, Callable[[Claims], Claims]] = {
    "another attempt's nonce": changed(nonce="x" * 43),
    "no nonce": without("nonce"),
    "another issuer": changed(iss="https://attacker.example"),
    "no issuer": without("iss"),
    "another client": changed(aud="another"),
    "another client's by this one": changed(aud="another", azp=CLIENT),
    "another client's as well": changed(aud=[CLIENT, "another"]),
    "of another party": changed(azp="another"),
    "no audience": without("aud"),
    "expired": changed(exp=1_000_000_000),
    "for ever": without("exp"),
    "not yet": changed(nbf=32_503_680_000),
    "no person": without("sub"),
    "another access token": changed(at_hash="x" * 22),
    "times as words": changed(exp="later"),
    "nonce of another kind": changed(nonce=["x"]),
}


def test_a_token_for_another_sign_in_is_refused(signing_in: ServedConsole, provider: IdentityProvider) -> None:
    found = {}
    for name, spoil in TOKENS.items():
        provider.spoil = spoil
        found[name] = told(sign_in(signing_in))
    provider.spoil = keep
    for sign in (unsigned, signed_by_another, signed_with_the_secret):
        provider.sign = sign
        found[sign.__name__] = told(sign_in(signing_in))
    provider.sign = signed
    for name, answer in {
        "none": without("id_token"),
        "no text": changed(id_token=[1]),
        "no token": changed(id_token="a.b"),
    }.items():
        provider.answer = answer
        found[name] = told(sign_in(signing_in))
    assert found == dict.fromkeys(found, (403, False))
    assert len(provider.redeemed) == len(found)
    provider.answer = keep
    assert told(sign_in(signing_in)) == (200, True)


def test_a_foreign_callback_asks_the_provider_nothing(signing_in: ServedConsole, provider: IdentityProvider) -> None:
    console = signing_in
    (mine, back), (other, _) = leave(console), leave(console)
    code = back.partition("?")[2]
    path = "/sign-in/return?"
    wrong = [
        (back, {}),
        (back, other),
        (back, {"Cookie": "gatewright_sign_in="}),
        (back, {"Cookie": mine["Cookie"].replace("=", "=9", 1)}),
        (path + code.replace("state=", "state=x"), mine),
        (path + "code=abc", mine),
        (back + "&state=second", mine),
        (back + "&code=second", mine),
        (path, mine),
        (path + "state=%ff%00&code=x", mine),
    ]
    assert [told(ask(console, each, headers=headers)) for each, headers in wrong] == [(403, False)] * len(wrong)
    assert provider.redeemed == []
    assert told(ask(console, back, headers=mine)) == (200, True)


def test_an_answer_of_another_provider_or_none_is_refused(signing_in: ServedConsole, provider: IdentityProvider) -> None:
    changes: list[Callable[[Claims], Claims]] = [
        changed(iss="https://attacker.example"),
        without("iss"),
        without("code"),
        changed(code="not-a-code"),
        changed(error=HOSTILE, error_description=HOSTILE),
    ]
    for change in changes:
        cookies, back = leave(signing_in)
        query = change(dict(urllib.parse.parse_qsl(back.partition("?")[2])))
        answer = ask(signing_in, "/sign-in/return?" + urllib.parse.urlencode(query), headers=cookies)
        assert told(answer) == (403, False)
        assert "sign_in_refused" in answer.text
        assert HOSTILE not in answer.text
    assert provider.redeemed == []


def test_a_person_without_a_role_is_refused_with_the_reason(signing_in: ServedConsole, provider: IdentityProvider) -> None:
    for groups in ([], ["staff"], "gw-operators ", {"gw-operators": True}, [["gw-operators"]], None):
        provider.person = {"sub": "ben", "groups": groups}
        answer = sign_in(signing_in)
        assert told(answer) == (403, False)
        assert "sign_in_no_role" in answer.text
    provider.person = {"sub": "ben", "groups": "gw-viewers"}
    answer = sign_in(signing_in)
    assert "Sign out (viewer)" in ask(signing_in, "/", headers=session_of(answer)).text


def test_a_foreign_or_unsafe_provider_description_is_refused(signing_in: ServedConsole, provider: IdentityProvider) -> None:
    descriptions = [
        changed(issuer="https://attacker.example"),
        changed(token_endpoint="http://attacker.example/token"),
        changed(jwks_uri="file:///etc/passwd"),
        changed(authorization_endpoint="javascript:alert(1)"),
        without("jwks_uri"),
    ]
    for describe in descriptions:
        provider.describe = describe
        answer = ask(signing_in, "/sign-in/provider")
        assert (answer.status, "sign_in_unavailable" in answer.text) == (503, True)
        assert "set-cookie" not in answer.headers
    provider.describe = keep
    assert told(sign_in(signing_in)) == (200, True)


def test_after_thirty_failures_in_a_minute_the_provider_rests(signing_in: ServedConsole, provider: IdentityProvider) -> None:
    for _ in range(30):
        cookies, back = leave(signing_in)
        assert told(ask(signing_in, back + "&error=access_denied", headers=cookies)) == (403, False)
    answer = sign_in(signing_in)
    assert (answer.status, "service_busy" in answer.text) == (503, True)
    assert provider.redeemed == []


def test_an_attempt_counts_once_and_for_ten_minutes_and_failures_are_limited() -> None:
    now = [1000.5]
    attempts = SignInAttempts(lambda: now[0])
    first, late = attempts.begin(), attempts.begin()
    assert len({first.cookie, first.state, first.nonce, first.verifier, late.state}) == 5
    assert SignInAttempts(lambda: now[0]).begin().state not in (first.state, late.state)
    assert attempts.resume(first.cookie, first.state) == first
    with pytest.raises(DeniedError, match="used already"):
        attempts.resume(first.cookie, first.state)
    now[0] += ATTEMPT_SECONDS
    with pytest.raises(DeniedError, match="too long"):
        attempts.resume(late.cookie, late.state)
    with pytest.raises(DeniedError):  # nor by a time that the browser says
        attempts.resume("9" + late.cookie, late.state)
    for _ in range(30):
        attempts.failed()
    honest = attempts.begin()
    with pytest.raises(LimitError) as refused:
        attempts.resume(honest.cookie, honest.state)
    assert refused.value.reason == "service_busy"
    now[0] += 60.0
    assert attempts.resume(honest.cookie, honest.state) == honest


def test_a_session_ends_when_its_time_is_over() -> None:
    now = [0.0]
    known = SignedIn({}, lambda: now[0], "approver", provider=True)
    assert known.role_of("") is None
    short, long = known.begin("operator", 600, who="a"), known.begin("viewer", 10**9, who="b")
    assert (known.role_of(short), known.role_of(long)) == ("approver", "viewer")
    now[0] = 600.0
    assert (known.role_of(short), known.role_of(long)) == (None, "viewer")
    now[0] = 12 * 3600.0
    assert known.role_of(long) is None


SETTINGS = ProviderSettings(
    ProviderFile("1", "https://id.example", CLIENT, "https://c.example", "groups", dict(ROLES)),  # type: ignore[arg-type]
)
BY_NAME = ProviderSettings(msgspec.structs.replace(SETTINGS.file, person_claim="preferred_username"))


@pytest.mark.parametrize(
    ("settings", "claims", "names"),
    [
        (SETTINGS, {"email": "ana@example.org", "email_verified": True}, ("ana@example.org", "0815@id.example")),
        (SETTINGS, {"email": "ana@example.org"}, None),
        (SETTINGS, {"email": "ana@example.org", "email_verified": "true"}, None),
        (SETTINGS, {"email": "ana@example.org", "email_verified": False}, None),
        (SETTINGS, {"preferred_username": "ana"}, None),
        (BY_NAME, {"preferred_username": "ana", "email": "ben@example.org"}, ("ana", "0815@id.example")),
        (
            BY_NAME,
            {"preferred_username": "ana", "email": "ana@example.org", "email_verified": True},
            ("ana", "ana@example.org", "0815@id.example"),
        ),
        (BY_NAME, {"preferred_username": ["ana"]}, None),
        (BY_NAME, {"preferred_username": " "}, None),
        (BY_NAME, {"preferred_username": "a" * 321}, None),
        (BY_NAME, {"email": "ana@example.org", "email_verified": True}, None),
    ],
)
def test_only_claims_that_a_person_cannot_write_name_them(
    settings: ProviderSettings, claims: dict[str, Any], names: tuple[str, ...] | None
) -> None:
    found = person_of({"sub": "0815", **claims}, settings)
    assert (None if found is None else found.names) == names


@pytest.mark.parametrize("verified", [True, False])
def test_who_signed_in_is_who_orders_the_run(provider: IdentityProvider, tmp_path: Path, verified: bool) -> None:
    provider.person = {
        "sub": "0815", "groups": ["gw-operators"], "name": "Ana\nLytic", "email": "Ana@Example.org", "email_verified": verified,
    }  # fmt: skip
    port = free_port()
    settings = read_provider(written(tmp_path, provider.issuer, f"http://127.0.0.1:{port}"))
    console = ServedConsole(tmp_path, port=port, provider=settings)
    publisher = Publisher(console)
    given = submit_access(CommandContext(tmp_path, tmp_path, None, tmp_path / "key.pem"), None, None)
    assert given is not None
    console.submit = SubmitAccess(publisher.connect, given.explain)
    console.open()
    gatekeeper = ScriptedGatekeeper(MemoryBus(console.system))
    console.do(gatekeeper.serve())
    session = sessions_of(sign_in(console))
    form = ask(console, "/submit", headers={"Cookie": session})
    assert ("orderer_unknown" in form.text, "Ana@Example.org" in form.text) == (not verified, verified)
    mark = form.headers["set-cookie"].partition(";")[0]
    sent = {**FIELDS, "mark": mark.partition("=")[2], "ordered_by": "ben", "requested_by": "ben"}
    answer = ask(console, "/submit", method="POST", form=sent, headers={"Cookie": f"{session}; {mark}"})
    assert answer.status == 303, answer.text
    (message,) = gatekeeper.received
    document = codec.decode(message.data, RunRequest)
    console.close()
    subject = f"0815@{settings.host}"
    if verified:
        assert (document.requested_by, document.ordered_by) == ("Ana@Example.org", ("Ana@Example.org", subject))
        assert document.author == Person(name="AnaLytic", email="Ana@Example.org")
    else:
        assert (document.requested_by, document.ordered_by, document.author) == ("the live page", (), None)


def sessions_of(answer: Answer) -> str:
    return re.search(r"gatewright_session=[^;,]+", answer.headers["set-cookie"])[0]  # type: ignore[index] # it is there


def test_the_highest_role_of_a_claim_counts() -> None:
    file = ProviderFile("1", "https://id.example", CLIENT, "https://c.example", "groups", dict(ROLES))  # type: ignore[arg-type]
    assert role_of({"groups": ["gw-viewers", "gw-approvers", 7]}, file) == "approver"
    assert role_of({"Groups": ["gw-viewers"]}, file) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "2"},
        {"issuer": "http://id.example"},
        {"issuer": "https://id.example/?x"},
        {"issuer": "https://ana:word@id.example"},
        {"console": "http://console.example"},
        {"console": "https://console.example/below"},
        {"roles": {}},
        {"roles": {"gw": "root"}},
        {"scopes": ["profile"]},
        {"client_secret_file": "missing"},
        {"client_secret_file": "open"},
        {"ca_file": "missing"},
        {"session_seconds": 10**9},
        {"unknown": 1},
    ],
)
def test_a_file_that_is_not_safe_to_sign_in_by_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    (tmp_path / "open").touch(0o644)
    with pytest.raises(ConfigurationError):
        read_provider(written(tmp_path, "https://id.example", "https://console.example", changes))


def test_others_reach_the_console_by_a_sign_in_and_tls_alone(tmp_path: Path) -> None:
    def settings(console: str) -> ProviderSettings:
        return read_provider(written(tmp_path, "https://id.example", console))

    named, proxied = ("console.example",), settings("https://console.example")
    ConsoleAddress(EVERY, 8790, {}, named, behind_proxy=True, provider=proxied).check()
    ConsoleAddress(EVERY, 8790, {TOKEN: "viewer"}, named, behind_proxy=True, provider=proxied).check()
    ConsoleAddress(provider=settings("http://127.0.0.1:8790")).check()
    refused = [
        ConsoleAddress(EVERY, 8790, {}, named, provider=proxied),
        ConsoleAddress(EVERY, 8790, {}, named, behind_proxy=True),
        ConsoleAddress(EVERY, 8790, {}, ("another.example",), behind_proxy=True, provider=proxied),
        ConsoleAddress(EVERY, 8790, {}, named, behind_proxy=True, provider=settings("http://127.0.0.1:8790")),
    ]
    for address in refused:
        with pytest.raises(ConfigurationError):
            address.check()
