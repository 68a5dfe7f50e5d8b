"""Quorum: when the votes on a change form a consensus. Pure: colours and seats in, the outcome out.

A quorum is enough reviewers, one of them for each domain seat and another for quality. It passes with enough greens, or with
one green and enough yellows, each with its mitigations. Any red blocks; if the change can be sent back, a quorum with a red is
a consensus to reject.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.people.identities import same_person
from gatewright.contracts.people.review_votes import ConsensusReceipt, ReviewQuorum, VoteColour

#: The people who can fill each domain seat.
Seats = tuple[tuple[str, ...], ...]
#: The reviewer role's report, as a voter.
ROLE_VOTER = "role:reviewer"
#: Prefix of a model's name as a voter.
MODEL_VOTER = "model:"


@dataclass(frozen=True, slots=True)
class Ballot:
    """One vote as the rule sees it.

    ``domain``: indexes of the domain seats that it can fill; ``duo``: which of the two places of the duo it can take; ``late``:
    after the first deadline.
    """

    voter: str
    colour: VoteColour
    domain: frozenset[int] = frozenset()
    quality: bool = False
    duo: frozenset[int] = frozenset()
    late: bool = False


@dataclass(frozen=True, slots=True)
class QuorumOutcome:
    """``blockers`` are the obstacles to approval, as text. ``receipt`` is None while the review is open."""

    receipt: ConsensusReceipt | None
    blockers: tuple[str, ...]


def names_person(names: Sequence[str], person: RosterPerson) -> bool:
    """Return whether a list of people and ``@groups`` includes this person."""
    return any(same_person(person.name, name) for name in names) or any(f"@{group}" in names for group in person.groups)


def seats_of(quorum: ReviewQuorum, lines: Iterable[int]) -> Seats:
    """Return the domain seats of a change under these ``lines`` of the owners file (0: under none)."""
    if not quorum.by_owner:
        return (quorum.domain,)
    owners = {each.line: each.owners for each in quorum.owners}
    return tuple(dict.fromkeys(owners.get(line) or quorum.domain for line in sorted(lines))) or (quorum.domain,)


def ballot_of(quorum: ReviewQuorum, seats: Seats, person: RosterPerson, colour: VoteColour, *, late: bool) -> Ballot:
    """Return a person's vote with the seats that the person can fill."""
    domain = frozenset(number for number, names in enumerate(seats) if names_person(names, person))
    duo = frozenset(place for place, name in enumerate(quorum.duo) if names_person((name,), person))
    return Ballot(person.name, colour, domain, names_person(quorum.quality, person), duo=duo, late=late)


def outcome_of(quorum: ReviewQuorum, seats: Seats, ballots: Sequence[Ballot], *, sends_back: bool = False) -> QuorumOutcome:
    """Return whether these votes, one per voter, form a consensus.

    1. Any red blocks.
    2. Enough greens, or a green with enough yellows.
    3. Enough reviewers with two that fill the seats, or else the duo.
    4. If a quorum includes a red and the change can be sent back, the consensus is to reject.

    Args:
        quorum: the rule's quorum.
        seats: the domain seats.
        ballots: the votes.
        sends_back: whether a red vote sends the change back.
    """
    reds = tuple(each.voter for each in ballots if each.colour == "red")
    blockers = [f"{voter} votes red" for voter in reds]  # 1
    greens = tuple(each.voter for each in ballots if each.colour == "green")
    yellows = tuple(each.voter for each in ballots if each.colour == "yellow")
    if not (len(greens) >= quorum.greens or (greens and len(yellows) >= quorum.yellows)):  # 2
        wanted = f"{quorum.greens} green votes, or one with {quorum.yellows} yellow ones, are wanted"
        blockers.append(f"{wanted}: {len(greens)} green, {len(yellows)} yellow")
    missing = _missing_votes(quorum, seats, ballots)  # 3
    duo = _duo(ballots) if missing else ()
    if missing and not duo:
        blockers += missing
    elif reds and sends_back:  # 4
        return QuorumOutcome(ConsensusReceipt(green=greens, yellow=yellows, duo=duo, red=reds), tuple(blockers))
    return QuorumOutcome(None if blockers else ConsensusReceipt(green=greens, yellow=yellows, duo=duo), tuple(blockers))


def _missing_votes(quorum: ReviewQuorum, seats: Seats, ballots: Sequence[Ballot]) -> list[str]:
    found = []
    if len(ballots) < quorum.reviewers:
        found.append(f"{len(ballots)} of {quorum.reviewers} reviewers have voted")
    quality = {each.voter for each in ballots if each.quality}
    for number, names in enumerate(seats):
        domain = {each.voter for each in ballots if number in each.domain}
        if not domain:
            found.append(f"no vote of the domain: {', '.join(names)}")
        elif domain == quality and len(domain) == 1:
            found.append(f"{min(domain)} cannot fill both seats, of the domain and of quality")
    if not quality:
        found.append(f"no vote of quality: {', '.join(quorum.quality)}")
    return list(dict.fromkeys(found))


def _duo(ballots: Sequence[Ballot]) -> tuple[str, ...]:
    """Return two green votes from after the first deadline, one for each place of the duo."""
    green = [each for each in ballots if each.late and each.colour == "green"]
    pairs = ((one.voter, two.voter) for one in green if 0 in one.duo for two in green if 1 in two.duo)
    return next((pair for pair in pairs if pair[0] != pair[1]), ())
