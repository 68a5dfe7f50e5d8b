"""Decisions were compared with the roster whenever a decision or a landing relied on them; one roster has one content."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.people.approvals import RosterPerson
from gatewright.evidence import layout
from gatewright.evidence.verification.consistency.replayed_run import Contradiction, Moment, ReplayedRun
from gatewright.rules.standing import rests_on_people
from gatewright.run import events as e

APPROVAL = "approval_contradicts"


def check_rosters(replayed: ReplayedRun) -> Iterator[Contradiction]:
    """Check rosters.

    1. A decision beside earlier ones follows exactly one comparison with the roster.
    2. The decision names the roster of that comparison.
    3. One roster has one entry per person.
    """
    entries: dict[tuple[str, str], RosterPerson] = {}
    for number, moment in enumerate(replayed.moments):
        before = replayed.moments[number - 1] if number else None
        for words in _check_roster(moment, before):  # 1, 2
            yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, words)
        for sha256, person in _entries(moment.payload):  # 3
            if entries.setdefault((sha256, person.name), person) != person:
                words = f"the roster {sha256[:16]} has two entries of {person.name}"
                yield moment.contradiction(APPROVAL, layout.EVENTS, layout.EVENTS, words)


def _check_roster(moment: Moment, before: Moment | None) -> Iterator[str]:
    event, run = moment.payload, moment.before
    held = before.payload if before is not None else None
    if isinstance(event, e.RosterHeld) and isinstance(held, e.RosterHeld):
        yield "people's words were held against the roster twice, and nothing came of the first time"
    if not isinstance(event, e.ApprovalDecided):
        return
    if isinstance(held, e.RosterHeld):
        if held.roster_sha256 != event.roster_sha256:
            yield f"the decision names the roster {event.roster_sha256[:16]}, and words were held against another"
        return
    batched = before is not None and isinstance(held, e.ApprovalDecided) and before.record.ts == moment.record.ts
    if run.parked and rests_on_people(run) and not batched:
        yield "a person decided without a comparison of earlier decisions with the roster of that time"


def _entries(payload: e.RunEvent) -> Iterator[tuple[str, RosterPerson]]:
    match payload:
        case e.ApprovalDecided(roster_sha256=sha256, approver=approver, delegate=delegate):
            yield sha256, approver
            if delegate is not None:
                yield sha256, delegate
        case e.ApprovalByGrant(roster_sha256=sha256, approver=approver):
            yield sha256, approver
        case e.RosterHeld(roster_sha256=sha256, people=people):
            yield from ((sha256, person) for person in people)
        case _:
            pass
