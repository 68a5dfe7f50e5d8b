"""When the votes on a change are a consensus. Pure: colours and seats in, the outcome out.

A quorum is enough reviewers, one of them for each seat of the domain and another of quality. It passes with enough greens,
or with one green and enough yellows, each with its mitigations; any red blocks, or, where the change can be sent back,
makes a consensus of no.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.people.identities import same_person
from gatewright.contracts.people.review_votes import ConsensusReceipt, ReviewQuorum, VoteColour

#: Who can fill each seat of the domain.
Seats = tuple[tuple[str, ...], ...]
#: The role reviewer's report, as a voter.
ROLE_VOTER = "role:reviewer"
#: How a model is named as a voter, before its name.
MODEL_VOTER = "model:"


@dataclass(frozen=True, slots=True)
class Ballot:
    """One vote as the rule sees it.

    ``domain``: which seats of the domain it can fill, by number; ``duo``: at which of the two places of the duo it can
    stand; ``late``: after the first time was over.
    """

    voter: str
    colour: VoteColour
    domain: frozenset[int] = frozenset()
    quality: bool = False
    duo: frozenset[int] = frozenset()
    late: bool = False


@dataclass(frozen=True, slots=True)
class QuorumOutcome:
    """``blockers``, in words, are what keeps the review from a yes. ``receipt`` is None while it is open."""

    receipt: ConsensusReceipt | None
    blockers: tuple[str, ...]


def names_person(names: Sequence[str], person: RosterPerson) -> bool:
    """Whether a list of people and ``@groups`` names this person."""
    return any(same_person(person.name, name) for name in names) or any(f"@{group}" in names for group in person.groups)


def seats_of(quorum: ReviewQuorum, lines: Iterable[int]) -> Seats:
    """The seats of the domain of a change that falls under these ``lines`` of the file of owners (0: under none)."""
    if not quorum.by_owner:
        return (quorum.domain,)
    owners = {each.line: each.owners for each in quorum.owners}
    return tuple(dict.fromkeys(owners.get(line) or quorum.domain for line in sorted(lines))) or (quorum.domain,)


def ballot_of(quorum: ReviewQuorum, seats: Seats, person: RosterPerson, colour: VoteColour, *, late: bool) -> Ballot:
    """A person's vote with the seats that the person can fill."""
    domain = frozenset(number for number, names in enumerate(seats) if names_person(names, person))
    duo = frozenset(place for place, name in enumerate(quorum.duo) if names_person((name,), person))
    return Ballot(person.name, colour, domain, names_person(quorum.quality, person), duo=duo, late=late)


def outcome_of(quorum: ReviewQuorum, seats: Seats, ballots: Sequence[Ballot], *, sends_back: bool = False) -> QuorumOutcome:
    """Whether these votes, one of each voter, are a consensus. ``sends_back``: a red one repairs the change.

    1. any red blocks  2. greens, or a green with yellows  3. enough reviewers, with two that fill the seats, or else the duo
    4. where a quorum has a red among its votes, and the change can be sent back, that is the consensus.
    """
    reds = tuple(each.voter for each in ballots if each.colour == "red")
    blockers = [f"{voter} votes red" for voter in reds]  # 1
    greens = tuple(each.voter for each in ballots if each.colour == "green")
    yellows = tuple(each.voter for each in ballots if each.colour == "yellow")
    if not (len(greens) >= quorum.greens or (greens and len(yellows) >= quorum.yellows)):  # 2
        wanted = f"{quorum.greens} green votes, or one with {quorum.yellows} yellow ones, are wanted"
        blockers.append(f"{wanted}: {len(greens)} green, {len(yellows)} yellow")
    missing = _missing(quorum, seats, ballots)  # 3
    duo = _duo(ballots) if missing else ()
    if missing and not duo:
        blockers += missing
    elif reds and sends_back:  # 4
        return QuorumOutcome(ConsensusReceipt(green=greens, yellow=yellows, duo=duo, red=reds), tuple(blockers))
    return QuorumOutcome(None if blockers else ConsensusReceipt(green=greens, yellow=yellows, duo=duo), tuple(blockers))


def _missing(quorum: ReviewQuorum, seats: Seats, ballots: Sequence[Ballot]) -> list[str]:
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
    """Two that voted green after the first time was over, each at one place of the duo."""
    green = [each for each in ballots if each.late and each.colour == "green"]
    pairs = ((one.voter, two.voter) for one in green if 0 in one.duo for two in green if 1 in two.duo)
    return next((pair for pair in pairs if pair[0] != pair[1]), ())
