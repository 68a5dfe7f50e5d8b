"""A forge in memory, behind the port: change requests of one project, and deliveries signed as GitHub signs them."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from gatewright.app.forge.port import ChangeRequest, Check, Comment, Delivery
from gatewright.contracts.forge_policy import ForgeEntry, ForgeKind, JudgeRule, SecretReference
from gatewright.contracts.vocabulary import AcceptanceTest
from gatewright.errors import DeniedError, MalformedError

SECRET = b"a secret of the webhook"
RULE = JudgeRule(
    allowed_paths=("src",),
    allow_tests=("tests",),
    tests=(AcceptanceTest(name="unit", cmd="python -m pytest -q", must_pass=True),),
    policy_pack="medium",
    tests_purpose="characterisation",
    max_seconds=900,
)


def make_entry(repository: str) -> ForgeEntry:
    return ForgeEntry(
        name="shop",
        repository=repository,
        kind="github",
        api="https://api.example.org",
        project="acme/shop",
        token=SecretReference(environment="FORGE_TOKEN"),
        target="main",
        judge=RULE,
    )


def make_request(**changes: object) -> ChangeRequest:
    given: dict[str, object] = {
        "number": 7,
        "head": "1d2e3f405162738495a6b7c8d9e0f1a2b3c4d5e6",
        "head_branch": "topic",
        "head_ref": "refs/pull/7/head",
        "base": "main",
        "author": "ben",
        "fork": False,
        "state": "open",
        "title": "",
        "body": "",
    }
    return ChangeRequest(**{**given, **changes})  # type: ignore[arg-type]


def delivered(
    number: int, delivery_id: str = "delivery-1", secret: bytes = SECRET, **content: object
) -> tuple[dict[str, str], bytes]:
    """Headers and body of a webhook about a change request."""
    body = json.dumps({"number": number, **content}).encode()
    signature = hmac.new(secret, body, hashlib.sha256).hexdigest()
    headers = {"x-github-delivery": delivery_id, "x-github-event": "pull_request", "x-hub-signature-256": f"sha256={signature}"}
    return headers, body


@dataclass
class KnownForge:
    """``requests`` by number; ``writers``: accounts that may write. ``reads`` counts what was read from its API."""

    requests: dict[int, ChangeRequest] = field(default_factory=dict)
    writers: frozenset[str] = frozenset({"ben"})
    comments: list[str] = field(default_factory=list)
    reads: int = 0
    kind: ForgeKind = "github"

    async def request(self, number: int) -> ChangeRequest | None:
        self.reads += 1
        return self.requests.get(number)

    async def open_requests(self) -> AsyncIterator[ChangeRequest]:
        for request in [each for each in self.requests.values() if each.state == "open"]:
            yield request

    async def may_write(self, login: str) -> bool:
        return login in self.writers

    def delivery(self, headers: Mapping[str, str], body: bytes, secret: bytes) -> Delivery:
        signature = f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"
        if not hmac.compare_digest(signature, headers.get("x-hub-signature-256", "")):
            raise DeniedError("the signature is wrong", code="delivery_unsigned")
        try:
            number = json.loads(body)["number"]
        except (ValueError, KeyError):
            raise MalformedError("no delivery", code="delivery_malformed") from None
        return Delivery(headers["x-github-delivery"], headers["x-github-event"], number)

    async def request_from(self, head_branch: str, base: str) -> ChangeRequest | None:
        raise NotImplementedError

    async def open_request(self, head_branch: str, base: str, title: str, body: str) -> ChangeRequest:
        raise NotImplementedError

    async def close_request(self, number: int) -> None:
        raise NotImplementedError

    async def checks(self, commit: str) -> Mapping[str, Check]:
        raise NotImplementedError

    async def set_check(self, name: str, check: Check) -> None:
        raise NotImplementedError

    async def comment(self, number: int, marker: str) -> Comment | None:
        raise NotImplementedError

    async def add_comment(self, number: int, body: str) -> Comment:
        raise NotImplementedError

    async def edit_comment(self, number: int, comment_id: int, body: str) -> None:
        raise NotImplementedError

    async def merge(self, number: int, head: str) -> str:
        raise NotImplementedError

    async def tree_of(self, commit: str) -> str:
        raise NotImplementedError
