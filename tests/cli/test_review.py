"""Votes on the command line: what is a vote, and how a review is shown."""

from __future__ import annotations

import pytest

from gatewright.app.cli.commands.voting.reviewing import _lines
from gatewright.app.cli.people.voting import vote_of
from gatewright.contracts import ApprovalList, codec
from gatewright.contracts.people.review_votes import Mitigation
from gatewright.errors import MalformedError
from gatewright.resources import schema_directory

ANCHORS = ["patch:src/a.py:3", "tests:1"]


def test_the_words_of_a_command_become_a_vote() -> None:
    said = vote_of("yellow", ["src"], "two tests are flaky", ANCHORS, ["stabilise them | ben | 2026-06-01"])
    assert said.mitigations == (Mitigation(action="stabilise them", owner="ben", due="2026-06-01"),)
    assert said.evidence == tuple(ANCHORS)


@pytest.mark.parametrize(
    ("colour", "evidence", "promised"),
    [("blue", ANCHORS, []), ("green", ["the code"], []), ("green", [], []), ("yellow", ANCHORS, ["later"])],
)
def test_what_is_no_vote_is_refused_before_it_is_signed(colour: str, evidence: list[str], promised: list[str]) -> None:
    with pytest.raises(MalformedError) as refusal:
        vote_of(colour, ["src"], "words", evidence, promised)
    assert refusal.value.reason == "bad_vote"


def test_a_review_is_shown_with_its_votes_what_is_wanting_and_who_stood_in() -> None:
    example = schema_directory() / "examples" / "approval_list.v1" / "valid" / "review.json"
    text = "\n".join(_lines(codec.decode(example.read_bytes(), ApprovalList).approvals[0]))
    for words in (
        "CONSENSUS",
        "green   role:reviewer",
        "yellow  ben",
        "bound it (ben, 2026-06-01)",
        "wanting",
        "the duo ana and ben",
    ):
        assert words in text
