"""Events about people and questions beside the run: requests, decisions, the roster, summonses."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from gatewright.bus.topology import DEFAULT_POOL
from gatewright.contracts import ApprovalDecision, codec
from gatewright.contracts.people.approvals import ApprovalRequest, DecisionVerdict, RosterPerson, SignedDecision
from gatewright.contracts.people.review_votes import ConsensusReceipt
from gatewright.contracts.people.summons import SummonsAnswer, SummonsTask
from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.vocabulary import Document
from gatewright.errors import MalformedError
from gatewright.run.events.base import RunEvent
from gatewright.run.state import AskedApproval, AskedSummons, Run
from gatewright.run.states import Level
from gatewright.run.votes import apply_decision, apply_roster, withdraw_earlier_delivery


def _pending(run: Run, request_id: str) -> AskedApproval:
    """The request that waits for this answer. Raises MalformedError (``bad_event``) where none does."""
    known = run.approvals.get(request_id)
    if known is None or known.status != "pending":
        raise MalformedError(f"{request_id[:80]!r} waits for no answer", code="bad_event")
    return known


def _with_approval(run: Run, asked: AskedApproval, roster_held_at: str) -> Run:
    approvals = {**run.approvals, asked.request.request_id: asked}
    return replace(run, approvals=approvals, roster_held_at=roster_held_at)


class ApprovalRequested(RunEvent, frozen=True):
    """A person is asked. Until there is an answer the run is parked."""

    event_type: ClassVar[str] = "approval_requested"
    request: ApprovalRequest

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Raises MalformedError for a request that was made before."""
        del record
        request = self.request
        if request.request_id in run.approvals:
            raise MalformedError(f"{request.request_id} was asked before", code="bad_event")
        before = withdraw_earlier_delivery(run.approvals, request.question) if request.question is not None else run.approvals
        return replace(run, approvals={**before, request.request_id: AskedApproval(request)})

    def of_task(self) -> str | None:
        return self.request.question.task_id if self.request.question is not None else None

    def severity(self, run: Run) -> Level:
        # A rule that approves by itself waits for no person; what is asked beside the run has no such rule.
        request = self.request
        rule = next((each for each in run.accepted.approval_rules if each.name == request.rule), None)
        alone = rule is not None and rule.autopilot and request.stage != "beside" and request.question is None
        return "INFO" if alone else "WARN"


class ApprovalDecided(RunEvent, frozen=True):
    """A person has answered: ``approver``, as the roster of that digest had them, with the key of that ``fingerprint``.

    ``consensus`` comes with the vote that makes one: a yes, or a no where it is red. ``delegate``: whom it is handed to.
    """

    event_type: ClassVar[str] = "approval_decided"
    request_id: str
    verdict: DecisionVerdict
    signed: SignedDecision
    fingerprint: str
    approver: RosterPerson
    roster_sha256: str
    consensus: ConsensusReceipt | None = None
    delegate: RosterPerson | None = None

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Comments change nothing about a request."""
        return _with_approval(run, apply_decision(_pending(run, self.request_id), self, record.ts), "")

    def severity(self, run: Run) -> Level:
        """Raises MalformedError for a vote that cannot be decoded."""
        del run
        if self.verdict != "vote":
            return "WARN" if self.verdict == "reject" else "INFO"
        vote = codec.decode(self.signed.document.encode(), ApprovalDecision).vote
        return "WARN" if vote is not None and vote.colour == "red" else "INFO"


class ApprovalByRule(RunEvent, frozen=True):
    """No person was asked: the rule lets the gatekeeper approve what is of low risk."""

    event_type: ClassVar[str] = "approval_by_rule"
    request_id: str
    rule: str

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        asked = replace(_pending(run, self.request_id), status="autopilot", person=self.rule, at=record.ts)
        return _with_approval(run, asked, run.roster_held_at)


class ApprovalByGrant(RunEvent, frozen=True):
    """A person had approved this in advance: ``approver``, as the roster of that digest has them now, by that key.

    ``signed`` is the grant; ``use`` is how many runs it has let pass with this one.
    """

    event_type: ClassVar[str] = "approval_by_grant"
    request_id: str
    grant_id: str
    signed: SignedDecision
    fingerprint: str
    approver: RosterPerson
    roster_sha256: str
    use: int

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        person = self.approver.name
        asked = replace(_pending(run, self.request_id), status="granted", person=person, at=record.ts, spoken=(self,))
        return _with_approval(run, asked, "")


class ApprovalExpired(RunEvent, frozen=True):
    """No answer came in time."""

    event_type: ClassVar[str] = "approval_expired"
    request_id: str

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        asked = replace(_pending(run, self.request_id), status="expired", at=record.ts)
        return _with_approval(run, asked, run.roster_held_at)

    def severity(self, run: Run) -> Level:
        asked = run.approvals.get(self.request_id)
        return "INFO" if asked is not None and asked.request.stage == "beside" else "WARN"


class LapsedWord(Document, frozen=True):
    """What a person had said of a request, by the key of that ``fingerprint``; ``code``, ``words``: why it counts no more."""

    request_id: str
    person: str
    fingerprint: str
    code: str
    words: str


class RosterHeld(RunEvent, frozen=True):
    """What people have said so far was held against a roster as it was ``at`` a moment, for a further decision or the landing.

    ``people`` are its entries of those who said it. ``lapsed`` counts no more; ``reopened``: requests whose yes is gone.
    """

    event_type: ClassVar[str] = "roster_held"
    at: str
    roster_sha256: str
    people: tuple[RosterPerson, ...]
    lapsed: tuple[LapsedWord, ...] = ()
    reopened: tuple[str, ...] = ()

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        return replace(run, approvals=apply_roster(run.approvals, self), roster_held_at=record.ts)

    def severity(self, run: Run) -> Level:
        del run
        return "WARN" if self.lapsed or self.reopened else "INFO"


class SummonsAsked(RunEvent, frozen=True):
    """A role is asked a question beside the run."""

    event_type: ClassVar[str] = "summons_asked"
    task: SummonsTask

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Raises MalformedError for a task id that was given out before."""
        task = self.task
        if task.task_id in run.summonses or task.task_id in run.tasks:
            raise MalformedError(f"{task.task_id[:80]!r} was given out before", code="bad_event")
        asked = AskedSummons(task, run.pools.get(task.item.role, DEFAULT_POOL), record.ts)
        return replace(run, summonses={**run.summonses, task.task_id: asked})

    def of_task(self) -> str | None:
        return self.task.task_id


class SummonsAnswered(RunEvent, frozen=True):
    """What became of it. It moves nothing."""

    event_type: ClassVar[str] = "summons_answered"
    answer: SummonsAnswer

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Raises MalformedError for an answer that no question waits for."""
        del record
        known = run.summonses.get(self.answer.task_id)
        if known is None or known.answer is not None:
            raise MalformedError(f"{self.answer.task_id[:80]!r} waits for no answer", code="bad_event")
        return replace(run, summonses={**run.summonses, known.task.task_id: replace(known, answer=self.answer)})

    def of_task(self) -> str | None:
        return self.answer.task_id

    def severity(self, run: Run) -> Level:
        del run
        return "INFO" if self.answer.status == "ANSWERED" else "WARN"

    def speaker(self, run: Run, task_id: str | None) -> str | None:
        del run, task_id
        return self.answer.role
