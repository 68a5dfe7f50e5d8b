"""Validity of signed decisions under the roster at the time when they take effect. Pure.

The gatekeeper checks this for each further decision and at the landing, and records the result; ``verify`` checks it again. An
approval, a vote, a delegation or a grant is valid while its key is on the roster and valid, for the same person, who is still
permitted to give it. Invalid ones are requested again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import msgspec

from gatewright.clock import timestamp
from gatewright.contracts import ApproverRoster
from gatewright.contracts.people.approvals import RosterPerson
from gatewright.contracts.people.identities import person_key, same_person
from gatewright.errors import DeniedError, GatewrightError
from gatewright.rules.approvals import NAMESPACE, check_not_own, check_right, is_about
from gatewright.rules.grants import in_force, judge_grant
from gatewright.rules.people.signers import signer_on
from gatewright.rules.reviewing import REVIEW, latest_votes, outcome
from gatewright.run.events import ApprovalByGrant, ApprovalDecided, LapsedWord, RosterHeld
from gatewright.run.state import AskedApproval, Run
from gatewright.run.votes import apply_roster
from gatewright.ssh_signatures import fingerprint

#: Reason code of a landing that waits because an approval has lapsed.
APPROVAL_LAPSED: Final = "approval_lapsed"
GRANT_OVER: Final = "grant_over"
Word = ApprovalDecided | ApprovalByGrant
#: Stages whose approvals a landing needs; a granted further round is never withdrawn.
_STAGES = frozenset({"contract", "candidate", "environment"})
_COUNTING = frozenset({"pending", "approved", "granted"})
_GIVEN = frozenset({"approved", "granted"})
_NAMES = {"approve": "yes to", "vote": "vote on", "delegate": "delegation of"}
_NO_CONSENSUS = "the votes that count are no consensus any more"


@dataclass(frozen=True, slots=True)
class HeldRoster:
    """Result of a roster comparison. ``people``: the roster's entries of the signers and delegates.

    ``lapsed``: decisions that are no longer valid. ``reopened``: requests that lost their approval. ``at``: the time of the
    comparison.
    """

    at: str
    people: tuple[RosterPerson, ...]
    lapsed: tuple[LapsedWord, ...]
    reopened: tuple[str, ...]

    def event(self, roster_sha256: str) -> RosterHeld:
        """Return the ledger event of this result."""
        return RosterHeld(
            at=self.at, roster_sha256=roster_sha256, people=self.people, lapsed=self.lapsed, reopened=self.reopened
        )

    @property
    def words(self) -> str:
        """Why requests are made again, as text."""
        return "; ".join(each.words for each in self.lapsed) or _NO_CONSENSUS


def rests_on_people(run: Run) -> bool:
    """Return whether the current contract or candidate has valid decisions of people."""
    return any(True for _ in _counting_words(run))


def revoked_words(grant_id: str) -> str:
    """Return the text about a revoked grant."""
    return f"{grant_id} was revoked"


def used_grants(run: Run) -> frozenset[str]:
    """Return the grants that answered requests of the run."""
    return frozenset(word.grant_id for _, word in _counting_words(run) if isinstance(word, ApprovalByGrant))


def hold_roster(run: Run, roster: ApproverRoster, now: datetime, revoked: Collection[str] = ()) -> HeldRoster:
    """Compare the decisions so far with ``roster`` at ``now``.

    1. The signature is by a valid key of the roster, of the same person.
    2. The person is still permitted to decide.
    3. A delegate is still permitted.
    4. A grant is in its period and not revoked.
    5. The remaining votes still form a consensus.

    Args:
        run: the run.
        roster: the current roster.
        now: the current time.
        revoked: revoked grants.
    """
    at = timestamp(now)
    moment = datetime.fromisoformat(at)
    lapsed: list[LapsedWord] = []
    people: dict[str, RosterPerson] = {}
    for asked, word in _counting_words(run):
        people |= {person.name: person for person in _entries(roster, word)}
        try:
            _check_standing(run, asked, word, roster, moment, revoked)  # 1, 2, 3, 4
        except GatewrightError as error:
            lapsed += _lapsed_words(run, asked, word, error)
    found = HeldRoster(at, tuple(people[name] for name in sorted(people)), tuple(lapsed), ())
    left = with_roster(run, found)
    gone = {each.request_id for each in lapsed}
    reopened = [name for name, asked in left.approvals.items() if _is_reopened(left, asked, name in gone)]  # 5
    return replace(found, reopened=tuple(reopened))


def with_roster(run: Run, found: HeldRoster) -> Run:
    """Return the run after this result is recorded."""
    return msgspec.structs.replace(run, approvals=apply_roster(run.approvals, found.event("")))


def _is_reopened(left: Run, asked: AskedApproval, has_lapsed: bool) -> bool:
    if asked.status not in _GIVEN or not _counts(left, asked):
        return False
    if asked.request.reason != REVIEW:
        return has_lapsed
    found = outcome(left, asked.request)
    return found is None or found.receipt is None or bool(found.receipt.red)


def _counts(run: Run, asked: AskedApproval) -> bool:
    contract = run.contract
    return contract is not None and asked.request.stage in _STAGES and is_about(asked.request, run, contract)


def _counting_words(run: Run) -> Iterator[tuple[AskedApproval, Word]]:
    """Yield the decisions on valid requests, oldest first: of each person's votes the last one."""
    for asked in run.approvals.values():
        if not _counts(run, asked) or asked.status not in _COUNTING | {"expired"}:
            continue
        for word in asked.spoken:
            if isinstance(word, ApprovalDecided) and word.verdict == "vote":
                if _is_last_vote(run, word):
                    yield asked, word
            elif asked.status in _COUNTING:
                yield asked, word


def _is_last_vote(run: Run, word: ApprovalDecided) -> bool:
    """Return whether a vote is its person's last, in its request or in the one that replaced it."""
    person = person_key(word.approver.name)
    reviews = (each for each in run.approvals.values() if each.status in _COUNTING and each.request.reason == REVIEW)
    latest = (latest_votes(run, each.request).get(person) for each in reviews)
    return any(found is not None and found[0].signed == word.signed for found in latest)


def _entries(roster: ApproverRoster, word: Word) -> Iterator[RosterPerson]:
    """Yield the entries for judging a decision: by name, by key, and the delegate's."""
    delegate = word.delegate if isinstance(word, ApprovalDecided) else None
    names = [each.name for each in (word.approver, delegate) if each is not None]
    for person in roster.people:
        has_key = any(fingerprint(key.key) == word.fingerprint for key in person.keys)
        if has_key or any(same_person(person.name, name) for name in names):
            yield person


def _check_standing(
    run: Run, asked: AskedApproval, word: Word, roster: ApproverRoster, now: datetime, revoked: Collection[str]
) -> None:
    request = asked.request
    if isinstance(word, ApprovalByGrant):
        judged = judge_grant(word.signed, roster, now)
        if word.grant_id in revoked:
            raise DeniedError(revoked_words(word.grant_id), code=GRANT_OVER)
        if not in_force(judged, now):
            raise DeniedError(f"{word.grant_id} is over since {judged.grant.not_after}", code=GRANT_OVER)
        person = judged.person
    else:
        person, _ = signer_on(roster, word.signed.signature, word.signed.document.encode(), NAMESPACE, now)
    if not same_person(person.name, word.approver.name):
        raise DeniedError(f"the key is that of {person.name} now", code="approver_differs")
    check_right(run, request, person, "approver_not_allowed")
    if isinstance(word, ApprovalByGrant) or word.verdict in {"approve", "vote"}:
        check_not_own(run, request, person)
    elif word.delegate is not None:
        to = next((each for each in roster.people if same_person(each.name, word.delegate.name)), None)
        if to is None:
            raise DeniedError(f"{word.delegate.name} is not on the roster of approvers", code="delegate_unknown")
        check_right(run, request, to, "delegate_not_allowed")


def _lapsed_words(run: Run, asked: AskedApproval, word: Word, error: GatewrightError) -> Iterator[LapsedWord]:
    """Yield the lapsed decision; for a vote also its person's earlier ones, which must not become valid again."""
    what = _NAMES[word.verdict] if isinstance(word, ApprovalDecided) else "grant for"
    words = f"{word.approver.name}'s {what} {asked.request.rule} counts no more: {error.message}"[:1000]
    for other in run.approvals.values():
        voted = any(same_person(cast.person.name, word.approver.name) for cast in other.votes)
        if other is asked or (voted and _counts(run, other) and asked.request.reason == REVIEW):
            yield LapsedWord(
                request_id=other.request.request_id,
                person=word.approver.name,
                fingerprint=word.fingerprint,
                code=error.reason,
                words=words,
            )
