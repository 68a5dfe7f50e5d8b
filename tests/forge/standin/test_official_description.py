"""The stand-in notices what differs from GitHub's official description, on either side."""

from __future__ import annotations

import pytest

from tests.forge.standin.app import Call, Reply
from tests.forge.standin.openapi import faults_of_call, faults_of_reply, official_example

_PULLS = "GET /repos/{owner}/{repo}/pulls"
_STATUSES = "POST /repos/{owner}/{repo}/statuses/{sha}"


def call(route: str, query: dict[str, str], body: object = None) -> Call:
    method, path = route.split(" ", 1)
    return Call(method, path, route, {"owner": "acme", "repo": "shop", "sha": "a" * 40}, query, body)


@pytest.mark.parametrize(
    ("described", "fault"),
    [
        (call(_PULLS, {"limit": "30"}), "unknown parameter limit"),
        (call(_PULLS, {"state": "opened"}), "state"),
        (call(_PULLS, {"per_page": "many"}), "per_page"),
        (call(_STATUSES, {}, {"state": "failed"}), "body.state"),
        (call(_STATUSES, {}, {"state": "success", "name": "gatewright"}), "unknown field name"),
        (call(_STATUSES, {}, {"context": "gatewright"}), "'state' is a required property"),
        (call("GET /rate_limit", {}), "not described"),
    ],
)
def test_a_call_that_is_not_described_is_noticed(described: Call, fault: str) -> None:
    assert any(fault in found for found in faults_of_call(described))


def test_an_answer_that_is_not_described_is_noticed() -> None:
    status = official_example("status")
    sent = call(_STATUSES, {}, {"state": "success"})
    assert faults_of_reply(sent, Reply(201, status)) == []
    assert faults_of_reply(sent, Reply(201, {"id": 1})) != []
    assert faults_of_reply(sent, Reply(201, status | {"id": "1"})) != []
    assert faults_of_reply(sent, Reply(200, status)) != []
    assert faults_of_reply(sent, Reply(404, {"message": 1})) != []
