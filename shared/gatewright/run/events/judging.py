"""Events of judging: gate verdicts, reports of the reviewer and the test runner, the choice, the landing."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.reports import GateReport, ReviewReport, TestReport
from gatewright.contracts.routing import ReviewRouting
from gatewright.contracts.vocabulary import Document, LandingMode
from gatewright.run.events.base import RunEvent, why_no_answer
from gatewright.run.state import FoundReason, Run
from gatewright.run.states import Level

#: Prefix of rules by which a gate records a reason for approval.
ASKS = "asks."
#: Gates whose refusal may lead to a fix round or a request to a person.
_REFUSING = frozenset({"diff", "reviewer", "tests"})


class GateJudged(RunEvent, frozen=True):
    """A gate's verdict; failing ones have level ERROR and end or redirect the run."""

    event_type: ClassVar[str] = "gate_judged"
    report: GateReport

    def may_follow(self, run: Run) -> str:
        attempt = self.report.attempt
        return "" if attempt == run.attempt else f"the verdict is on attempt {attempt}, and attempt {run.attempt} was under way"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        report = self.report
        if report.gate in _REFUSING and report.verdict == "FAIL":
            return replace(run, refusal=report)
        if self.passed("queue"):
            return replace(run, admitted=True)
        return replace(run, tests_passed=True) if self.passed("tests") else run

    def passed(self, gate: str) -> bool:
        """Return whether this is a passing verdict of ``gate``."""
        return self.report.gate == gate and self.report.verdict == "PASS"

    def reasons_to_ask(self, run: Run) -> tuple[FoundReason, ...]:
        """Return the reasons for approval in the verdict."""
        return tuple(
            FoundReason(rule.rule.removeprefix(ASKS), rule.detail, run.attempt, self.of_candidate(run))
            for rule in self.report.rules
            if rule.rule.startswith(ASKS)
        )

    def of_candidate(self, run: Run) -> int:
        return run.candidate_of_task(self.report.task_id)

    def disqualifies(self) -> str:
        return self.report.code if self.report.verdict != "PASS" else ""

    def of_task(self) -> str | None:
        return self.report.task_id

    def severity(self, run: Run) -> Level:
        del run
        return "INFO" if self.report.verdict == "PASS" else "ERROR"


class ReviewReceived(RunEvent, frozen=True):
    event_type: ClassVar[str] = "review_received"
    role_label: ClassVar[str | None] = "reviewer"
    report: ReviewReport

    def may_follow(self, run: Run) -> str:
        return why_no_answer(run, "reviewer", self.report.task_id)

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(
            run.with_settled("reviewer", "SUCCESS" if self.report.verdict == "PASS" else "FAILED"), review=self.report
        )

    def of_candidate(self, run: Run) -> int:
        return run.candidate_of_task(self.report.task_id)

    def of_task(self) -> str | None:
        return self.report.task_id


class TestsReceived(RunEvent, frozen=True):
    event_type: ClassVar[str] = "tests_received"
    role_label: ClassVar[str | None] = "testrunner"
    report: TestReport

    def may_follow(self, run: Run) -> str:
        return why_no_answer(run, "testrunner", self.report.task_id)

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(
            run.with_settled("testrunner", "SUCCESS" if self.report.status == "PASS" else "FAILED"), tests=self.report
        )

    def of_candidate(self, run: Run) -> int:
        return run.candidate_of_task(self.report.task_id)

    def of_task(self) -> str | None:
        return self.report.task_id


class ReviewRouted(RunEvent, frozen=True):
    """The candidate has passed the gates before the landing: its risk, and its reviewers."""

    event_type: ClassVar[str] = "review_routed"
    routing: ReviewRouting

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, routing=self.routing)


class Standing(Document, frozen=True):
    """Result of one of several candidates. ``outcome`` is ``passed``, or the code that eliminated it.

    ``findings`` are the review's, ``changed_lines`` those of the canonical diff, cost and tokens those of its makers.
    ``cost_usd`` is None when a maker used a model without a known price.
    """

    candidate: int
    outcome: str
    findings: int
    changed_lines: int
    cost_usd: float | None
    tokens: int


class CandidateChosen(RunEvent, frozen=True):
    """The chosen one of several candidates. ``standings`` are all of them, best first: the basis of the choice."""

    event_type: ClassVar[str] = "candidate_chosen"
    candidate: int
    standings: tuple[Standing, ...]

    def may_follow(self, run: Run) -> str:
        states = [run.candidates[number] for number in run.in_the_running()]
        ready = run.state == "S4" and not run.chosen and bool(states) and all(state.tests_passed for state in states)
        return "" if ready else "it is not the time to choose"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        """Keep the results of the other candidates beside the chosen one."""
        del record
        return replace(run.seen_from(self.candidate), tasks=run.tasks)


class Landed(RunEvent, frozen=True):
    """The candidate is on ``ref`` (empty where nothing was to land); ``tree`` was compared with the tested one.

    ``found``: the commit was already there, landed by this run at a time whose ledger was lost; it names an event of that time.
    ``receipt``: URI of the proof of a landing of mode ``queue``. There, ``commit`` is the run's own commit in the pushed
    chain, ``tree`` the tree of that commit, and ``previous`` the branch before the push.
    """

    event_type: ClassVar[str] = "landed"
    role_label: ClassVar[str | None] = None
    mode: LandingMode
    commit: str
    tree: str
    ref: str
    previous: str | None = None
    found: bool = False
    receipt: str = ""

    def may_follow(self, run: Run) -> str:
        state = "QUEUED" if self.mode == "queue" else "S4"
        ready = run.kind.lands and run.state == state and run.tests_passed and run.landed is None
        return "" if ready else "it landed before its tests had passed"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, landed=self)
