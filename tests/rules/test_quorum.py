"""The rule of consensus, row by row: who must have voted, what passes, what blocks, and who stands in for an absent owner."""

from __future__ import annotations

import pytest

from gatewright.contracts.people.approvals import RosterKey, RosterPerson
from gatewright.contracts.people.review_votes import ReviewQuorum, VoteColour
from gatewright.git.patches.lines import shown_lines
from gatewright.rules.quorum import Ballot, ballot_of, outcome_of

QUORUM = ReviewQuorum(domain=("owner",), quality=("@qa",), duo=("@architect", "@qa"))
SHORT: dict[str, VoteColour] = {"g": "green", "y": "yellow", "r": "red"}


def ballots(words: str) -> list[Ballot]:
    """``owner:g qa:y else:r``: who voted how; ``!`` after the first time was over. Names stand for groups, too."""
    found = []
    for number, word in enumerate(words.split()):
        group, _, colour = word.partition(":")
        name = group if group == "owner" else f"{group}{number}"
        key = RosterKey(key="ssh-ed25519 " + "A" * 40)
        person = RosterPerson(name=name, keys=(key,), groups=(group,))
        found.append(ballot_of(QUORUM, person, SHORT[colour[0]], late=colour.endswith("!")))
    return found


@pytest.mark.parametrize(
    ("votes", "passes"),
    [
        ("owner:g qa:g dev:g", True),
        ("owner:g qa:g dev:y", True),
        ("owner:g qa:y dev:y", True),
        ("owner:y qa:g dev:y", True),
        ("owner:y qa:y dev:y", False),
        ("owner:g qa:g dev:r", False),
        ("owner:g qa:g dev:g dev:r", False),
        ("owner:g qa:g", False),
        ("owner:g dev:g dev:g", False),
        ("qa:g dev:g dev:g", False),
        ("owner:g qa:g dev:g dev:y dev:y", True),
        ("", False),
    ],
)
def test_each_row_of_the_rule(votes: str, passes: bool) -> None:
    found = outcome_of(QUORUM, ballots(votes))
    assert (found.receipt is not None) == passes
    assert bool(found.blockers) != passes


@pytest.mark.parametrize(
    ("votes", "duo"),
    [
        ("architect:g! qa:g!", True),
        ("architect:g qa:g!", False),
        ("architect:g! qa:y! dev:g!", False),
        ("architect:g! dev:g!", False),
        ("architect:g! qa:g! dev:r", False),
    ],
)
def test_architect_and_quality_stand_in_for_an_absent_owner_once_the_first_time_is_over(votes: str, duo: bool) -> None:
    found = outcome_of(QUORUM, ballots(votes))
    assert (found.receipt is not None and len(found.receipt.duo) == 2) == duo


@pytest.mark.parametrize(
    ("votes", "red"),
    [
        ("owner:r qa:g dev:g", ("owner0",)),
        ("owner:r qa:r dev:g", ("owner0", "qa1")),
        ("owner:g qa:g dev:g dev:r", ("dev3",)),
        ("owner:r qa:y dev:y", ("owner0",)),
        ("architect:g! qa:g! dev:r!", ("dev2",)),
        ("owner:r qa:g", None),
        ("owner:r dev:r dev:r", None),
        ("qa:r dev:r dev:r", None),
        ("owner:g qa:g dev:g", ()),
        ("owner:y qa:y dev:y", None),
    ],
)
def test_a_quorum_with_a_red_sends_the_change_back(votes: str, red: tuple[str, ...] | None) -> None:
    """``None``: the review stays open; empty: it passes."""
    cast = ballots(votes)
    found = outcome_of(QUORUM, cast, sends_back=True)
    names = None if red is None else tuple("owner" if name == "owner0" else name for name in red)
    assert (found.receipt.red if found.receipt is not None else None) == names
    assert outcome_of(QUORUM, cast).receipt == (found.receipt if names == () else None)


def test_no_duo_is_recorded_where_the_owner_voted() -> None:
    found = outcome_of(QUORUM, ballots("owner:g architect:g! qa:g!"))
    assert found.receipt is not None
    assert found.receipt.duo == ()


def test_one_person_does_not_fill_both_seats() -> None:
    both = [Ballot("ana", "green", domain=True, quality=True), Ballot("b", "green"), Ballot("c", "green")]
    assert outcome_of(QUORUM, both).blockers == ("ana cannot fill both seats, of the domain and of quality",)


def test_a_red_vote_is_named() -> None:
    assert "dev2 votes red" in outcome_of(QUORUM, ballots("owner:g qa:g dev:r")).blockers


def test_the_lines_that_a_patch_shows_are_those_of_its_hunks() -> None:
    head = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -2,3 +2,3 @@ def f():\n one\n-two\n+zwei\n three\n"
    gone = b"diff --git a/b b/b\ndeleted file mode 100644\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n--- a/c\n"
    assert shown_lines(head + gone) == {"a.py": frozenset({2, 3, 4, -3}), "b": frozenset({-1})}
    assert shown_lines(b"@@ -x +y @@\n+no\n--- a/q\n+++ b/q\n@@ broken") == {}
