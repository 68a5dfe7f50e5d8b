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

#: The base of a review whose target branch no longer exists.
BRANCH_GONE = "gone"


def _pending(run: Run, request_id: str) -> AskedApproval:
    """Return the open request for this answer. Raises MalformedError (``bad_event``) when there is none."""
    known = run.approvals.get(request_id)
    if known is None or known.status != "pending":
        raise MalformedError(f"{request_id[:80]!r} waits for no answer", code="bad_event")
    return known


def _with_approval(run: Run, asked: AskedApproval, roster_held_at: str) -> Run:
    approvals = {**run.approvals, asked.request.request_id: asked}
    return replace(run, approvals=approvals, roster_held_at=roster_held_at)


class ApprovalRequested(RunEvent, frozen=True):
    """A person is asked. The run is parked until there is an answer."""

    event_type: ClassVar[str] = "approval_requested"
    request: ApprovalRequest

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Add the request. Raises MalformedError for a duplicate."""
        del record
        request = self.request
        if request.request_id in run.approvals:
            raise MalformedError(f"{request.request_id} was asked before", code="bad_event")
        before = withdraw_earlier_delivery(run.approvals, request.question) if request.question is not None else run.approvals
        return replace(run, approvals={**before, request.request_id: AskedApproval(request)})

    def of_task(self) -> str | None:
        return self.request.question.task_id if self.request.question is not None else None

    def severity(self, run: Run) -> Level:
        # A rule with automatic approval waits for no person; requests beside the run have no such rule.
        request = self.request
        rule = next((each for each in run.accepted.approval_rules if each.name == request.rule), None)
        alone = rule is not None and rule.autopilot and request.stage != "beside" and request.question is None
        return "INFO" if alone else "WARN"


class ApprovalDecided(RunEvent, frozen=True):
    """A person has answered: ``approver``, as in the roster with that digest, with the key of that ``fingerprint``.

    ``consensus`` comes with the vote that completes one: an approval, or a rejection if it is red. ``delegate``: the person it
    is delegated to.
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
        """Apply the answer. Comments do not change the status of a request."""
        return _with_approval(run, apply_decision(_pending(run, self.request_id), self, record.ts), "")

    def severity(self, run: Run) -> Level:
        """Return the level. Raises MalformedError for a vote that cannot be decoded."""
        del run
        if self.verdict != "vote":
            return "WARN" if self.verdict == "reject" else "INFO"
        vote = codec.decode(self.signed.document.encode(), ApprovalDecision).vote
        return "WARN" if vote is not None and vote.colour == "red" else "INFO"


class ApprovalByRule(RunEvent, frozen=True):
    """No person was asked: the rule lets the gatekeeper approve low risk."""

    event_type: ClassVar[str] = "approval_by_rule"
    request_id: str
    rule: str

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        asked = replace(_pending(run, self.request_id), status="autopilot", person=self.rule, at=record.ts)
        return _with_approval(run, asked, run.roster_held_at)


class ApprovalByGrant(RunEvent, frozen=True):
    """A person had approved this in advance: ``approver``, as in the roster with that digest, by that key.

    ``signed`` is the grant; ``use`` is the number of runs it has approved, this one included.
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
    """No answer arrived in time."""

    event_type: ClassVar[str] = "approval_expired"
    request_id: str

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        asked = replace(_pending(run, self.request_id), status="expired", at=record.ts)
        return _with_approval(run, asked, run.roster_held_at)

    def severity(self, run: Run) -> Level:
        asked = run.approvals.get(self.request_id)
        return "INFO" if asked is not None and asked.request.stage == "beside" else "WARN"


class LapsedWord(Document, frozen=True):
    """A decision of a person that has lapsed, by the key of that ``fingerprint``; ``code`` and ``words`` are the reason."""

    request_id: str
    person: str
    fingerprint: str
    code: str
    words: str


class RosterHeld(RunEvent, frozen=True):
    """The decisions so far were compared with a roster ``at`` a time, for a further decision or the landing.

    ``people`` are its entries of the signers. ``lapsed`` are no longer valid; ``reopened``: requests that lost their approval.
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


class TargetMoved(RunEvent, frozen=True):
    """The target branch or change request moved from ``expected`` to ``found`` under a review. Votes on ``requests`` are void.

    ``files`` and ``commits`` are the first that it got; ``more`` is the number of further files.
    """

    event_type: ClassVar[str] = "target_moved"
    level: ClassVar[Level] = "WARN"
    ref: str
    expected: str
    found: str
    files: tuple[str, ...] = ()
    more: int = 0
    commits: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Void the requests. Raises MalformedError for one that is not open."""
        approvals = dict(run.approvals)
        for name in self.requests:
            asked = approvals.get(name)
            if asked is None or asked.status not in {"pending", "approved"}:
                raise MalformedError(f"{name[:80]!r} is no open review", code="bad_event")
            approvals[name] = replace(asked, status="lapsed", at=record.ts, words=self.words, consensus=None)
        return replace(run, approvals=approvals, moved_refs={**run.moved_refs, self.ref: self.found or BRANCH_GONE})

    @property
    def words(self) -> str:
        """What changed, as text."""
        names = ", ".join(self.files) + (f" and {self.more} more" if self.more else "")
        commits = ", ".join(commit[:12] for commit in self.commits)
        moved = f"{self.ref} moved from {self.expected[:12]} to {self.found[:12] or 'nothing'}"
        return f"{moved} (commits: {commits or 'unknown'}; files: {names or 'unknown'})"[:1000]


class SummonsAsked(RunEvent, frozen=True):
    """A role is asked a question beside the run."""

    event_type: ClassVar[str] = "summons_asked"
    task: SummonsTask

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Add the question. Raises MalformedError for a task id that was dispatched before."""
        task = self.task
        if task.task_id in run.summonses or task.task_id in run.tasks:
            raise MalformedError(f"{task.task_id[:80]!r} was given out before", code="bad_event")
        asked = AskedSummons(task, run.pools.get(task.item.role, DEFAULT_POOL), record.ts)
        return replace(run, summonses={**run.summonses, task.task_id: asked})

    def of_task(self) -> str | None:
        return self.task.task_id


class SummonsAnswered(RunEvent, frozen=True):
    """The outcome of a question. It does not change the run's state."""

    event_type: ClassVar[str] = "summons_answered"
    answer: SummonsAnswer

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Record the answer. Raises MalformedError when no question waits for it."""
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
