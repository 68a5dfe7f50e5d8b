"""The order that judges a change request: it follows the policy, and nothing but one fenced part follows the request's text."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from gatewright.app.forge.inward import MOST_TEXT, SkipReason, order_of, request_key, skip_reason
from gatewright.app.forge.port import ChangeRequest
from gatewright.contracts import RunRequest, codec
from gatewright.contracts.vocabulary import Budget, Person, Repository, Scope, SourceBranch
from gatewright.git.request_head import HeadChange
from tests.forge.inward.hostile_texts import TEXTS
from tests.forge.inward.known_forge import RULE, make_entry, make_request

ENTRY = make_entry("https://git.example.org/acme/shop.git")
BASE = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"
CHANGE = HeadChange(make_request().head, BASE, 2, (("Ben", "ben@example.org"),), b"a patch")
FIRST = "Judge change request 7 of acme/shop\n\n<<<DATA "


def order(request: ChangeRequest) -> RunRequest:
    return order_of(ENTRY, RULE, request, CHANGE)


def test_the_order_follows_the_policy() -> None:
    made = order(make_request(title="Change it", body="Please."))
    assert made.repository == Repository(url=ENTRY.repository, target_ref="refs/heads/main", landing="none")
    assert made.baseline_ref == "refs/heads/main"
    assert made.allowed_paths == ("src", "tests")
    assert made.scope == Scope(allow_protected_paths=("tests",))
    assert made.acceptance_tests == RULE.tests
    assert (made.policy_pack, made.tests) == ("medium", "characterisation")
    assert made.budget == Budget(wall_sec=900)
    assert made.source_branch == SourceBranch(
        name="refs/pull/7/head",
        head=CHANGE.head,
        base=BASE,
        commits=2,
        authors=("Ben <ben@example.org>",),
        ref="refs/pull/7/head",
    )
    assert (made.author, made.ordered_by) == (Person(name="Ben", email="ben@example.org"), ("ben",))
    assert made.request.startswith(FIRST)
    assert "Change it\n\nPlease." in made.request
    assert codec.decode(codec.encode(made), RunRequest) == made


def test_commits_of_several_people_have_no_single_author() -> None:
    change = dataclasses.replace(CHANGE, authors=(("Ben", "ben@example.org"), ("Ana", "ana@example.org")))
    made = order_of(ENTRY, RULE, make_request(author=""), change)
    assert (made.author, made.ordered_by) == (None, ())
    assert made.source_branch is not None
    assert made.source_branch.authors == ("Ben <ben@example.org>", "Ana <ana@example.org>")


def test_there_are_at_least_sixty_hostile_texts() -> None:
    assert len(set(TEXTS)) >= 60


@pytest.mark.every_case
@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_no_text_of_a_request_changes_more_than_the_fenced_part(number: int) -> None:
    text = TEXTS[number]
    empty = order(make_request())
    for request in (make_request(title=text), make_request(body=text), make_request(title=text, body=text)):
        made = order(request)
        assert codec.encode(replace(made, request=empty.request)) == codec.encode(empty)
        assert codec.decode(codec.encode(made), RunRequest) == made
        title, fenced = made.request.split("\n\n", 1)
        assert title == "Judge change request 7 of acme/shop"
        opening, *content, ending = fenced.partition("\n[left out: ")[0].split("\n")
        mark = opening.removeprefix("<<<DATA ").partition(" ")[0]
        assert ending == f"<<<END DATA {mark}>>>"
        assert not [line for line in content if mark in line]
        assert all(line.isprintable() for line in fenced.replace("\t", " ").split("\n"))
        assert len(made.request) < 10 * MOST_TEXT


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("changes", "rule", "writer", "expected"),
    [
        ({}, {}, True, None),
        ({}, {}, False, SkipReason.AUTHOR),
        ({"state": "closed"}, {}, True, SkipReason.CLOSED),
        ({"state": "merged"}, {}, True, SkipReason.CLOSED),
        ({"base": "release"}, {}, True, SkipReason.OTHER_TARGET),
        ({"base": "refs/heads/main"}, {}, True, SkipReason.OTHER_TARGET),
        ({"head": BASE}, {}, True, SkipReason.HAS_RUN),
        ({"fork": True}, {}, True, SkipReason.FORK),
        ({"fork": True}, {"forks": "writers"}, False, SkipReason.FORK),
        ({"fork": True}, {"forks": "writers"}, True, None),
        ({"fork": True}, {"forks": "writers", "authors": ("ben",)}, False, SkipReason.FORK),
        ({}, {"authors": ("Ben", "ana")}, False, None),
        ({"author": "mallory"}, {"authors": ("ben",)}, True, SkipReason.AUTHOR),
        ({"author": "ben "}, {"authors": ("ben",)}, True, SkipReason.AUTHOR),
        ({"author": "\u212aen"}, {"authors": ("ken",)}, True, SkipReason.AUTHOR),
        ({"author": ""}, {"authors": ("ben",)}, True, SkipReason.AUTHOR),
    ],
)
def test_the_policy_decides_which_requests_are_judged(
    changes: dict[str, Any], rule: dict[str, Any], writer: bool, expected: SkipReason | None
) -> None:
    assert skip_reason(ENTRY, replace(RULE, **rule), make_request(**changes), {BASE}, writer=writer) == expected


def test_each_head_of_each_request_has_a_key_of_its_own() -> None:
    other = replace(ENTRY, project="acme/tool")
    keys = {request_key(entry, number, head) for entry in (ENTRY, other) for number in (7, 71) for head in (BASE, CHANGE.head)}
    assert len(keys) == 8
    assert request_key(ENTRY, 7, BASE) == request_key(make_entry(ENTRY.repository), 7, BASE)
    assert len({request_key(ENTRY, 7, BASE, broken) for broken in range(4)}) == 4
