"""The rule of consensus, row by row: who must have voted, what passes, what blocks, and who stands in for an absent owner."""

from __future__ import annotations

import pytest

from gatewright.contracts.people.approvals import RosterKey, RosterPerson
from gatewright.contracts.people.review_votes import OwnedPaths, ReviewQuorum, VoteColour
from gatewright.git.patches.lines import shown_lines
from gatewright.rules.quorum import Ballot, Seats, ballot_of, outcome_of, seats_of

QUORUM = ReviewQuorum(domain=("owner",), quality=("@qa",), duo=("@architect", "@qa"))
SEATS = (QUORUM.domain,)
SHORT: dict[str, VoteColour] = {"g": "green", "y": "yellow", "r": "red"}


def ballots(words: str, quorum: ReviewQuorum = QUORUM, seats: Seats = SEATS) -> list[Ballot]:
    """``owner:g qa:y else:r``: who voted how; ``!`` after the first time was over. Names stand for groups, too."""
    found = []
    for number, word in enumerate(words.split()):
        group, _, colour = word.partition(":")
        name = group if group == "owner" else f"{group}{number}"
        key = RosterKey(key="ssh-ed25519 " + "A" * 40)
        person = RosterPerson(name=name, keys=(key,), groups=(group,))
        found.append(ballot_of(quorum, seats, person, SHORT[colour[0]], late=colour.endswith("!")))
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
    found = outcome_of(QUORUM, SEATS, ballots(votes))
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
def test_architect_and_quality_replace_an_absent_owner_after_the_deadline(votes: str, duo: bool) -> None:
    found = outcome_of(QUORUM, SEATS, ballots(votes))
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
    found = outcome_of(QUORUM, SEATS, cast, sends_back=True)
    names = None if red is None else tuple("owner" if name == "owner0" else name for name in red)
    assert (found.receipt.red if found.receipt is not None else None) == names
    assert outcome_of(QUORUM, SEATS, cast).receipt == (found.receipt if names == () else None)


def test_no_duo_is_recorded_where_the_owner_voted() -> None:
    found = outcome_of(QUORUM, SEATS, ballots("owner:g architect:g! qa:g!"))
    assert found.receipt is not None
    assert found.receipt.duo == ()


def test_one_person_does_not_fill_both_seats() -> None:
    both = [Ballot("ana", "green", domain=frozenset({0}), quality=True), Ballot("b", "green"), Ballot("c", "green")]
    assert outcome_of(QUORUM, SEATS, both).blockers == ("ana cannot fill both seats, of the domain and of quality",)


def test_a_red_vote_is_named() -> None:
    assert "dev2 votes red" in outcome_of(QUORUM, SEATS, ballots("owner:g qa:g dev:r")).blockers


def test_the_lines_that_a_patch_shows_are_those_of_its_hunks() -> None:
    head = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -2,3 +2,3 @@ def f():\n one\n-two\n+zwei\n three\n"
    gone = b"diff --git a/b b/b\ndeleted file mode 100644\n--- a/b\n+++ /dev/null\n@@ -1 +0,0 @@\n--- a/c\n"
    assert shown_lines(head + gone) == {"a.py": frozenset({2, 3, 4, -3}), "b": frozenset({-1})}
    assert shown_lines(b"@@ -x +y @@\n+no\n--- a/q\n+++ b/q\n@@ broken") == {}


BY_OWNER = ReviewQuorum(
    domain=("@core",),
    quality=("@qa",),
    by_owner=True,
    owners=(
        OwnedPaths(line=2, pattern="/src/pay/", owners=("@payments",)),
        OwnedPaths(line=3, pattern="/src/web/", owners=("@web", "owner")),
        OwnedPaths(line=4, pattern="*.generated"),
        OwnedPaths(line=5, pattern="/docs/", owners=("@payments",)),
    ),
)


@pytest.mark.parametrize(
    ("lines", "seats"),
    [
        ((), (("@core",),)),
        ((0,), (("@core",),)),
        ((2,), (("@payments",),)),
        ((2, 5), (("@payments",),)),
        ((0, 2, 3), (("@core",), ("@payments",), ("@web", "owner"))),
        ((4, 99), (("@core",),)),
    ],
)
def test_each_part_that_is_changed_has_a_seat_for_its_owners(
    lines: tuple[int, ...], seats: tuple[tuple[str, ...], ...]
) -> None:
    assert seats_of(BY_OWNER, lines) == seats
    assert seats_of(QUORUM, lines) == (QUORUM.domain,), "a rule that does not go by owner"


@pytest.mark.parametrize(
    ("votes", "blockers"),
    [
        ("payments:g web:g qa:g", ()),
        ("payments:g dev:g qa:g", ("no vote of the domain: @web, owner",)),
        ("web:g dev:g qa:g", ("no vote of the domain: @payments",)),
        ("core:g dev:g qa:g", ("no vote of the domain: @payments", "no vote of the domain: @web, owner")),
    ],
)
def test_a_change_of_two_parts_wants_a_vote_of_each(votes: str, blockers: tuple[str, ...]) -> None:
    seats = seats_of(BY_OWNER, (2, 3))
    found = outcome_of(BY_OWNER, seats, ballots(votes, BY_OWNER, seats))
    assert found.blockers == blockers
    assert (found.receipt is None) == bool(blockers)


def test_who_owns_both_parts_fills_both_seats_and_not_that_of_quality() -> None:
    seats = (("ana",), ("ana", "ben"))
    ana = Ballot("ana", "green", frozenset({0, 1}), quality=True)
    others = [Ballot("cem", "green"), Ballot("dea", "green")]
    assert outcome_of(BY_OWNER, seats, [ana, *others]).blockers == ("ana cannot fill both seats, of the domain and of quality",)
    assert outcome_of(BY_OWNER, seats, [ana, Ballot("cem", "green", quality=True), others[1]]).blockers == ()
