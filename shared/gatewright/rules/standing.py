"""Whether what people have signed still counts: by the roster that is in force when it takes effect. Pure.

The gatekeeper asks this when a further decision comes and when the change lands, and records the answer; ``verify`` asks again.
A yes, a vote, a delegation or a grant counts while its key is on the roster and in force, under the same person, who may still
give it. What counts no more is asked anew.
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

#: The reason code of a landing that waits, because what a person has said counts no more.
APPROVAL_LAPSED: Final = "approval_lapsed"
GRANT_OVER: Final = "grant_over"
Word = ApprovalDecided | ApprovalByGrant
#: At which stages the landing rests on what people have said; a further round, once given, is not taken back.
_STAGES = frozenset({"contract", "candidate"})
_COUNTING = frozenset({"pending", "approved", "granted"})
_GIVEN = frozenset({"approved", "granted"})
_NAMES = {"approve": "yes to", "vote": "vote on", "delegate": "delegation of"}
_NO_CONSENSUS = "the votes that count are no consensus any more"


@dataclass(frozen=True, slots=True)
class HeldRoster:
    """What became of people's words. ``people``: the entries that the roster has of who said them, and of delegates.

    ``lapsed``: words that count no more. ``reopened``: requests whose yes is gone with them. ``at`` is the moment of all that.
    """

    at: str
    people: tuple[RosterPerson, ...]
    lapsed: tuple[LapsedWord, ...]
    reopened: tuple[str, ...]

    def event(self, roster_sha256: str) -> RosterHeld:
        """What the ledger takes down of it."""
        return RosterHeld(
            at=self.at, roster_sha256=roster_sha256, people=self.people, lapsed=self.lapsed, reopened=self.reopened
        )

    @property
    def words(self) -> str:
        """Why requests are asked anew."""
        return "; ".join(each.words for each in self.lapsed) or _NO_CONSENSUS


def rests_on_people(run: Run) -> bool:
    """Whether anything that people have said counts for what the run has now."""
    return any(True for _ in _counting_words(run))


def revoked_words(grant_id: str) -> str:
    """How a grant is spoken of that was revoked."""
    return f"{grant_id} was revoked"


def used_grants(run: Run) -> frozenset[str]:
    """The grants that have answered what the run asked."""
    return frozenset(word.grant_id for _, word in _counting_words(run) if isinstance(word, ApprovalByGrant))


def hold_roster(run: Run, roster: ApproverRoster, now: datetime, revoked: Collection[str] = ()) -> HeldRoster:
    """Hold what people have said so far against ``roster``, as it is at ``now``. ``revoked``: grants that were revoked.

    1. the signature is by a key of the roster, in force, of the same person  2. who may still say it  3. a delegate is still
    one  4. a grant is in its time and not revoked  5. the votes that are left are still a consensus.
    """
    at = timestamp(now)
    moment = datetime.fromisoformat(at)
    lapsed: list[LapsedWord] = []
    people: dict[str, RosterPerson] = {}
    for asked, word in _counting_words(run):
        people |= {person.name: person for person in _entries(roster, word)}
        try:
            _check(run, asked, word, roster, moment, revoked)  # 1, 2, 3, 4
        except GatewrightError as error:
            lapsed += _lapsed_words(run, asked, word, error)
    found = HeldRoster(at, tuple(people[name] for name in sorted(people)), tuple(lapsed), ())
    left = with_roster(run, found)
    gone = {each.request_id for each in lapsed}
    reopened = [name for name, asked in left.approvals.items() if _is_reopened(left, asked, name in gone)]  # 5
    return replace(found, reopened=tuple(reopened))


def with_roster(run: Run, found: HeldRoster) -> Run:
    """The run as it is once this is recorded."""
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
    """What was said of the requests that count, the oldest first: of each person's votes the last one."""
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
    """Whether it is the vote of its person that counts, in its request or in the one that was asked in the place of that."""
    person = person_key(word.approver.name)
    reviews = (each for each in run.approvals.values() if each.status in _COUNTING and each.request.reason == REVIEW)
    latest = (latest_votes(run, each.request).get(person) for each in reviews)
    return any(found is not None and found[0].signed == word.signed for found in latest)


def _entries(roster: ApproverRoster, word: Word) -> Iterator[RosterPerson]:
    """The entries by which a word is judged: by name, by key, and the delegate's."""
    delegate = word.delegate if isinstance(word, ApprovalDecided) else None
    names = [each.name for each in (word.approver, delegate) if each is not None]
    for person in roster.people:
        has_key = any(fingerprint(key.key) == word.fingerprint for key in person.keys)
        if has_key or any(same_person(person.name, name) for name in names):
            yield person


def _check(run: Run, asked: AskedApproval, word: Word, roster: ApproverRoster, now: datetime, revoked: Collection[str]) -> None:
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
    """Of a vote also the earlier ones of its person, in whose place it stood: none of them counts again."""
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
