"""A run that a person approved, as the ledger has it; and what one who has the gatekeeper's key might write in its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from gatewright.contracts import ApproverRoster, codec
from gatewright.contracts.people.approvals import ApprovalRequest, ApprovalRule, RosterKey, RosterPerson, SignedDecision
from gatewright.ledger import events as e
from gatewright.rules.approvals import NAMESPACE, MatchedRule, decision_on, make_request, matched
from gatewright.rules.standing import hold_roster, rests_on_people
from gatewright.ssh_signatures import fingerprint, public_line, sign_ssh
from tests.evidence.recorded_runs import START, RecordedRun

SECRET, STRANGER = (Ed25519PrivateKey.from_private_bytes(seed * 32) for seed in (b"\x01", b"\x02"))
RULE = ApprovalRule(name="landing", reason="landing", risk="high", approvers=("ana",), within_seconds=600, phrase="land it")
ANA = RosterPerson(name="ana", keys=(RosterKey(key=public_line(SECRET)),))
#: Changes an event on its way into the ledger.
Forgery = Callable[[e.Payload], e.Payload | None]


def as_it_is(payload: e.Payload) -> e.Payload:
    return payload


@dataclass
class ApprovedRun(RecordedRun):
    """``forgery`` changes, or leaves out, what is written."""

    forgery: Forgery = as_it_is
    rule: ApprovalRule = RULE

    def step(self, *events: e.Event) -> None:
        written = []
        for event in events:
            payload = event.payload
            if isinstance(payload, e.RunAccepted):
                payload = replace(payload, approval_rules=(self.rule,))
            forged = self.forgery(payload)
            if forged is not None:
                written.append(e.Event(forged, event.level, event.task_id, event.attempt, event.role))
        if written:
            super().step(*written)

    def up_to_the_request(self) -> None:
        """One shard, reviewed and tested, for which Ana is asked."""
        self.accept()
        self.plan(shards=1)
        self.work()
        self.compose()
        self.pass_review()
        self.ask()

    def ask(self) -> None:
        test = f"{self.run_id}.test.a1"
        super().step(self.tests(test), self.gate("tests", task_id=test))
        now = START + timedelta(seconds=len(self.transitions))
        run = self.run
        (rule,) = matched(run, "candidate") or (MatchedRule(self.rule, "no reason"),)
        self.step(
            e.Event(e.ApprovalRequested(request=make_request(run, rule, 1, now))), e.Event(e.StateEntered(state=e.PARKED))
        )

    def answer(self) -> None:
        (asked,) = self.run.approvals.values()
        self.step(e.Event(decided(asked.request)), self.gate("approval"), e.Event(e.StateEntered(state="S4")))

    def finish(self) -> None:
        """What lands when all have answered."""
        landed = e.Landed(mode="branch", commit=self.git.commit, tree=self.git.tree, ref=f"refs/heads/gatewright/{self.run_id}")
        over = e.Event(e.RunFinished(status="SUCCESS", code="ok", message="landed"))
        self.step(
            *self.held_where_it_counts(), self.gate("landing"), e.Event(landed), e.Event(e.StateEntered(state="S6")), over
        )

    def held_where_it_counts(self) -> list[e.Event]:
        """The roster held against what was said, where anything counts that a person said."""
        return [e.Event(self.held())] if rests_on_people(self.run) else []

    def held(self) -> e.RosterHeld:
        """The roster of now held against what was said: it has everybody as the ledger has them."""
        words = [word for asked in self.run.approvals.values() for word in asked.spoken]
        people = {word.approver.name: word.approver for word in words}
        people |= {word.delegate.name: word.delegate for word in words if isinstance(word, e.ApprovalDecided) and word.delegate}
        now = START + timedelta(seconds=len(self.transitions))
        return hold_roster(self.run, ApproverRoster(version="1", people=tuple(people.values())), now).event("9" * 64)


def decided(request: ApprovalRequest, secret: Ed25519PrivateKey = SECRET, **changes: str) -> e.ApprovalDecided:
    """Ana's approval; ``changes`` are fields of the decision that is signed."""
    said = {"verdict": "approve", "person": "ana", "decided_at": request.created_at, "phrase": "land it"}
    data = codec.encode(replace(decision_on(request, **said), **changes))
    signed = SignedDecision(document=data.decode(), signature=sign_ssh(secret, NAMESPACE, data))
    return e.ApprovalDecided(
        request_id=request.request_id,
        verdict="approve",
        signed=signed,
        fingerprint=fingerprint(public_line(SECRET)),
        approver=ANA,
        roster_sha256="9" * 64,
    )


def make_approved(forgery: Forgery = as_it_is, rule: ApprovalRule = RULE, run: ApprovedRun | None = None) -> ApprovedRun:
    """One shard, approved by Ana before it landed; ``run`` is one that nothing has happened to yet."""
    run = run or ApprovedRun(forgery=forgery, rule=rule)
    run.up_to_the_request()
    run.answer()
    run.finish()
    return run
