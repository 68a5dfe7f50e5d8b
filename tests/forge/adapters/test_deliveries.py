"""Webhooks: only those with a good signature are read, and all that GitHub documents can be."""

from __future__ import annotations

import hmac
import json
import lzma
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gatewright.app.forge.gitea import GiteaForge
from gatewright.app.forge.github import GitHubForge
from gatewright.app.forge.gitlab import GitLabForge
from gatewright.app.forge.http import ForgeHttp, HttpLimits
from gatewright.app.forge.port import Delivery
from gatewright.app.forge.rest import RestForge
from gatewright.contracts.forge_policy import ForgeKind
from gatewright.errors import DeniedError, MalformedError
from tests.forge.adapters.worlds import KINDS
from tests.forge.standin.server import SECRET, request_event, signed

PROJECT = "acme/shop"
EXAMPLES = Path(__file__).with_name("webhooks.json.xz")
_CLASSES: dict[ForgeKind, type[RestForge]] = {"github": GitHubForge, "gitlab": GitLabForge, "gitea": GiteaForge}


@cache
def forge_of(kind: ForgeKind, project: str = PROJECT) -> RestForge:
    """Return an adapter that never calls."""
    return _CLASSES[kind](unused_http(), project)


@cache
def unused_http() -> ForgeHttp:
    return ForgeHttp(httpx2.AsyncClient(base_url="http://127.0.0.1:9"), "per_page", HttpLimits(), lambda: 0.0)


def test_every_official_example_is_read() -> None:
    rows = json.loads(lzma.decompress(EXAMPLES.read_bytes()))
    about_requests = 0
    for row in rows:
        payload = row["payload"]
        project = payload.get("repository", {}).get("full_name", PROJECT)
        headers, body = signed("github", payload, name=row["event"])
        issue = payload.get("issue", {})
        number = payload.get("pull_request", issue if "pull_request" in issue else {}).get("number")
        delivery = forge_of("github", project).delivery(headers, body, SECRET)
        assert delivery == Delivery("delivery-1", row["event"], number)
        about_requests += number is not None
    assert (len(rows), about_requests) == (329, 45)


@pytest.mark.parametrize("kind", KINDS)
def test_a_webhook_about_a_request_names_it(kind: ForgeKind) -> None:
    headers, body = signed(kind, request_event(kind, PROJECT, 7), "once")
    delivery = forge_of(kind).delivery(headers, body, SECRET)
    assert (delivery.delivery_id, delivery.number) == ("once", 7)


@pytest.mark.parametrize("kind", KINDS)
def test_a_comment_on_a_request_names_it(kind: ForgeKind) -> None:
    event: dict[str, Any] = {"issue": {"number": 7, "pull_request": {"url": "x"}}, "repository": {"full_name": "Acme/Shop"}}
    if kind == "gitlab":
        event = {"object_kind": "note", "project": {"path_with_namespace": "Acme/Shop"}, "merge_request": {"iid": 7}}
    assert forge_of(kind).delivery(*signed(kind, event), SECRET).number == 7


@pytest.mark.parametrize("kind", KINDS)
def test_a_comment_on_an_issue_names_no_request(kind: ForgeKind) -> None:
    event: dict[str, Any] = {"issue": {"number": 7}, "repository": {"full_name": PROJECT}}
    if kind == "gitlab":
        attributes = {"iid": 7}
        event = {"object_kind": "issue", "project": {"path_with_namespace": PROJECT}, "object_attributes": attributes}
    assert forge_of(kind).delivery(*signed(kind, event), SECRET).number is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_webhook_of_another_project_names_no_request(kind: ForgeKind) -> None:
    headers, body = signed(kind, request_event(kind, "acme/other", 7))
    assert forge_of(kind).delivery(headers, body, SECRET).number is None


@pytest.mark.parametrize("kind", KINDS)
def test_of_200_changed_deliveries_none_is_accepted(kind: ForgeKind) -> None:
    changed = list(changed_deliveries(kind, 200))
    assert len(changed) == 200
    for headers, body in changed:
        refused(kind, headers, body, SECRET, "delivery_unsigned")


def changed_deliveries(kind: ForgeKind, count: int) -> Iterator[tuple[dict[str, str], bytes]]:
    """Yield deliveries with one change of what is signed: the body, or a header of the signature.

    GitLab signs nothing: its header has the secret itself, so only that is changed.
    """
    chance = random.Random(f"deliveries of {kind}")  # noqa: S311 - the same at each run
    good_headers, good_body = signed(kind, request_event(kind, PROJECT, 7))
    signatures = [name for name in good_headers if "signature" in name or "token" in name]
    while count:
        headers, body = dict(good_headers), good_body
        if kind != "gitlab" and chance.random() < 0.5:
            body = changed_bytes(chance, body)
        else:
            name = chance.choice(signatures)
            text = changed_bytes(chance, headers[name].encode()).decode("latin-1")
            headers[name] = chance.choice([text, headers[name] + " ", headers[name].swapcase(), "", "sha256=", f"sha1={text}"])
        if (headers, body) != (good_headers, good_body):
            count -= 1
            yield headers, body


def changed_bytes(chance: random.Random, data: bytes) -> bytes:
    at = chance.randrange(len(data))
    match chance.randrange(4):
        case 0:
            return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
        case 1:
            return data[:at] + data[at + 1 :]
        case 2:
            return data[:at] + bytes([chance.randrange(256)]) + data[at:]
    return data[:at]


@pytest.mark.parametrize("kind", KINDS)
def test_a_delivery_signed_with_another_secret_is_refused(kind: ForgeKind) -> None:
    headers, body = signed(kind, request_event(kind, PROJECT, 7), secret=b"another-secret")
    refused(kind, headers, body, SECRET, "delivery_unsigned")


@pytest.mark.parametrize("kind", KINDS)
def test_a_delivery_without_a_signature_is_refused(kind: ForgeKind) -> None:
    headers, body = signed(kind, request_event(kind, PROJECT, 7))
    bare = {name: value for name, value in headers.items() if "signature" not in name and "token" not in name}
    refused(kind, bare, body, SECRET, "delivery_unsigned")


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_secret_accepts_nothing(kind: ForgeKind) -> None:
    headers, body = signed(kind, request_event(kind, PROJECT, 7), secret=b"")
    refused(kind, headers, body, b"", "delivery_unsigned")


@pytest.mark.parametrize("kind", ["github", "gitea"])
def test_a_signature_by_sha1_is_refused(kind: ForgeKind) -> None:
    headers, body = signed(kind, request_event(kind, PROJECT, 7))
    bare = {name: value for name, value in headers.items() if "signature" not in name}
    digits = hmac.digest(SECRET, body, "sha1").hex()
    refused(kind, bare | {"x-hub-signature": f"sha1={digits}"}, body, SECRET, "delivery_unsigned")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [b"payload=%7B%7D", b"[]", b"", b"\xff", b'{"repository": 1, "project": 1}', b"[" * 100_000])
def test_a_signed_body_that_cannot_be_read_is_malformed(body: bytes, kind: ForgeKind) -> None:
    refused(kind, signed_headers(kind, body), body, SECRET, "delivery_malformed")


@pytest.mark.parametrize("kind", KINDS)
def test_a_body_of_more_than_a_mebibyte_is_not_read(kind: ForgeKind) -> None:
    body = b'{"a": "' + b"x" * (1 << 20) + b'"}'
    refused(kind, signed_headers(kind, body), body, SECRET, "delivery_malformed")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", ["", "a\nb", "\u00e9", "x" * 201])
@pytest.mark.parametrize("part", ["delivery", "event"])
def test_an_odd_delivery_id_or_event_is_malformed(part: str, value: str, kind: ForgeKind) -> None:
    headers, body = signed(kind, request_event(kind, PROJECT, 7))
    forge = forge_of(kind)
    name = (forge.delivery_headers if part == "delivery" else forge.event_headers)[0]
    refused(kind, headers | {name: value}, body, SECRET, "delivery_malformed")


def test_a_repeated_gitlab_delivery_keeps_its_id() -> None:
    headers, body = signed("gitlab", request_event("gitlab", PROJECT, 7), "stays")
    older = {name: value for name, value in headers.items() if name != "idempotency-key"}
    assert forge_of("gitlab").delivery(headers, body, SECRET).delivery_id == "stays"
    assert forge_of("gitlab").delivery(older, body, SECRET).delivery_id == headers["x-gitlab-event-uuid"]


@pytest.mark.parametrize("name", ["x-gitea", "x-forgejo"])
def test_gitea_and_forgejo_may_sign_with_a_header_of_their_own_alone(name: str) -> None:
    headers, body = signed("gitea", request_event("gitea", PROJECT, 7))
    digits = headers["x-gitea-signature"]
    own = {f"{name}-signature": digits, f"{name}-event": "pull_request", f"{name}-delivery": "once"}
    assert forge_of("gitea").delivery(own, body, SECRET) == Delivery("once", "pull_request", 7)


def signed_headers(kind: ForgeKind, body: bytes) -> dict[str, str]:
    """Return the headers of any body, signed."""
    headers, _ = signed(kind, {})
    digits = hmac.digest(SECRET, body, "sha256").hex()
    changed = {name: f"sha256={digits}" if "hub" in name else digits for name in headers if "signature" in name}
    return headers | changed


def refused(kind: ForgeKind, headers: dict[str, str], body: bytes, secret: bytes, reason: str) -> None:
    with pytest.raises((DeniedError, MalformedError)) as caught:
        forge_of(kind).delivery(headers, body, secret)
    assert caught.value.reason == reason
    assert SECRET.decode() not in str(caught.value)
