"""Votes on the command line: what is a vote, and how a review is shown."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from gatewright.app.cli.people import deciding
from gatewright.app.cli.people.deciding import _review_lines, status, vote_of
from gatewright.contracts import ApprovalList, codec
from gatewright.contracts.people.approvals import ApprovalStanding
from gatewright.contracts.people.review_votes import Mitigation, ReviewStanding
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


def test_a_review_is_shown_with_votes_missing_votes_and_substitutes() -> None:
    example = schema_directory() / "examples" / "approval_list.v1" / "valid" / "review.json"
    text = "\n".join(_review_lines(codec.decode(example.read_bytes(), ApprovalList).approvals[0]))
    for words in (
        "CONSENSUS",
        "green   role:reviewer",
        "yellow  ben",
        "bound it (ben, 2026-06-01)",
        "wanting",
        "the duo ana and ben",
    ):
        assert words in text


class DraftInbox:
    """Where no votes are asked for yet."""

    async def draft(self, run_id: str) -> ReviewStanding | None:
        return ReviewStanding(phase="DRAFT", votes=(), blockers=(f"{run_id} stands in S2",))

    async def review(self, name: str) -> ApprovalStanding:
        raise MalformedError(f"{name} has no review", code="approval_unknown")


def test_the_status_of_a_review_that_is_to_come_is_a_draft(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextlib.asynccontextmanager
    async def opened(_: object) -> AsyncIterator[DraftInbox]:
        yield DraftInbox()

    monkeypatch.setattr(deciding, "open_inbox", opened)
    status("run-1")
    assert capsys.readouterr().out.splitlines() == ["run-1: DRAFT", "wanting run-1 stands in S2"]
    status("run-1", json_output=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["run_id"], told["request_id"], told["review"]["phase"]) == ("run-1", None, "DRAFT")
    with pytest.raises(MalformedError, match="has no review"):
        asyncio.run(deciding.review_of("run-1.ask.1"))
