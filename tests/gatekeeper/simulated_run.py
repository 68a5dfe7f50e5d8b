"""A run without bus, git or sandbox: scripted roles and gates around the real decider.

The decider and ``evolve`` are the real ones; only what they ask and what they order is answered by a script, so that a test can
deliver the answers in any order, twice, or late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from gatewright.contracts import (
    ApprovalDecision,
    ApprovalRequest,
    GateReport,
    Plan,
    ReviewReport,
    RunRequest,
    TaskContract,
    TaskResult,
    TestReport,
    Transition,
    codec,
)
from gatewright.contracts.people.approvals import ApprovalRule, RosterKey, RosterPerson, SignedDecision
from gatewright.contracts.records import CommandRef
from gatewright.contracts.reports import (
    GateName,
    GateOutcome,
    GateOutcomes,
    GitOutcome,
    NextSteps,
    ScopeCheck,
)
from gatewright.contracts.task_contract import TaskType
from gatewright.contracts.vocabulary import Agent, Artifact, Executor, Judging, TimeoutRetry
from gatewright.rules.approvals import JudgedDecision, decision_on
from gatewright.run.events import ApprovalRequested, StateEntered, event_of
from gatewright.run.evolve import fold
from gatewright.run.kinds import KINDS
from gatewright.run.state import Run, run_id_of
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.decider.decide import decide
from gatewright.services.gatekeeper.decider.inputs import (
    Continue,
    DecisionsReceived,
    Input,
    RoleReplied,
    SealReported,
    Submitted,
)
from gatewright.tasks.earlier_round import AGENT_SESSION
from tests.factories import BASELINE, BASELINE_TREE, make_contract, make_request

KEY = "the simulated run"
RUN_ID = run_id_of(KEY)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
PATCH = "artifact:sha256:" + "8" * 64
OUTCOME = GateOutcome(passed=True, violations=())


@dataclass(frozen=True)
class Script:
    """What the roles will say. ``*_fails_until`` is the number of attempts that fail before one passes."""

    shards: int = 1
    serial: bool = False
    retries: int = 0
    from_contract: bool = False
    review_fails_until: int = 0
    tests_fail_until: int = 0
    refused_shard: int = 0
    broken_shard: int = 0
    landing_refused: bool = False
    lock_refusals: int = 0
    judging: Judging = "in_turn"
    #: The executor is an agent, which is asked anew for each attempt.
    asked: bool = False
    task_type: TaskType = "IMPLEMENT"
    #: The policy asks a person about the result, who answers this.
    person: Literal["", "approve", "reject"] = ""


ASKING = ApprovalRule(
    name="people", reason="risk_tier", risk="medium", approvers=("ana",), within_seconds=86_400, yourself=True
)
ANA = RosterPerson(name="ana", keys=(RosterKey(key="ssh-ed25519 " + "A" * 40),))


@dataclass
class SimulatedRun:
    """The ledger of one run, and the answers that are under way."""

    script: Script
    transitions: list[Transition] = field(default_factory=list)
    under_way: list[Input] = field(default_factory=list)
    delivered: list[Input] = field(default_factory=list)
    lock_refusals: int = 0
    run: Run | None = None
    states: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        document = self.contract() if self.script.from_contract else self.request()
        self.lock_refusals = self.script.lock_refusals
        self.under_way.append(Submitted(RUN_ID, "a" * 32, document, "0" * 64, "submit", key=KEY))

    def request(self) -> RunRequest:
        return make_request(
            task_type=self.script.task_type,
            executor=self._executor(),
            timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=self.script.retries, retry_backoff_sec=0),
        )

    def contract(self) -> TaskContract:
        return make_contract(
            RUN_ID,
            task_type=self.script.task_type,
            executor=self._executor(),
            timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=self.script.retries, retry_backoff_sec=0),
        )

    def _executor(self) -> Executor | None:
        if not KINDS[self.script.task_type].works:
            return None
        if self.script.asked:
            return Executor(kind="agent")
        return Executor(kind="command", commands=("python codemod.py",) * (self.script.retries + 1))

    def deliver(self, item: Input, *, crash_after_append: bool = False) -> None:
        """Let an input count, and take the gatekeeper's own steps unless it crashes after the first append."""
        self.delivered.append(item)
        changed = self._step(item)
        while not (crash_after_append and changed):
            run = self.run
            step = q.next_step(run) if run is not None else None
            if step is None:
                return
            if step == "seal":
                self._step(SealReported("f" * 64, "key", "somewhere", "seal"))
                return
            self._step(Continue(step))
            if self.run is not None and q.next_step(self.run) == step:
                return

    def _step(self, item: Input) -> bool:
        run = self.run
        verdicts = [self._answer(question) for question in q.required_checks(run, item)]
        transition = decide(run, item, verdicts, NOW + timedelta(seconds=len(self.transitions)))
        if transition is None:
            return False
        self.transitions.append(transition)
        after = self.run = fold([transition], run)
        assert after is not None
        self.states.extend(["S0"] if run is None else [])
        for record in transition.events:
            payload = event_of(record)
            if isinstance(payload, StateEntered):
                self.states.append(payload.state)
            elif isinstance(payload, ApprovalRequested) and self.script.person:
                self.under_way.append(self._decided(payload.request))
        self.under_way.extend(self._work(after, command) for command in transition.commands)
        return True

    def _report(self, gate: GateName, run_id: str = RUN_ID, *, code: str = "ok", task_id: str | None = None) -> GateReport:
        return GateReport(
            run_id=run_id,
            gate=gate,
            verdict="PASS" if code == "ok" else "FAIL",
            code=code,
            attempt=self.run.attempt if self.run is not None else 1,
            summary=code,
            violations=(),
            evidence=(),
            evaluated_at="2026-01-02T00:00:00.000Z",
            task_id=task_id,
        )

    def _answer(self, question: q.GateCheck) -> q.Verdict:
        match question:
            case q.IntakeCheck(document=document):
                return q.IntakeVerdict(
                    self._report("policy"),
                    document,
                    BASELINE,
                    BASELINE_TREE,
                    "0" * 64,
                    {},
                    judging=self.script.judging,
                    approval_rules=(ASKING,) if self.script.person else (),
                )
            case q.DecisionCheck(run=run, decisions=decisions) if self.script.person:
                return self._judged(run, decisions[0])
            case q.LocksCheck():
                if self.lock_refusals:
                    self.lock_refusals -= 1
                    return q.LocksVerdict(self._report("locks", code="locks_held"), ("src",), 0, ("run-other0000",))
                return q.LocksVerdict(self._report("locks"), ("src",), 7, ())
            case q.DiffCheck(task=task, run=run):
                refused = task.task_id.rsplit(".", maxsplit=1)[-1] == f"w{self.script.refused_shard:02}"
                code = "path_out_of_scope" if refused else "ok"
                return q.DiffVerdict(self._report(run.kind.work_gate, code=code, task_id=task.task_id), "3" * 40)
            case q.IntegratedCheck():
                return q.CandidateVerdict(
                    self._report("integrated"), "4" * 40, "artifact:sha256:" + "5" * 64, "artifact:sha256:" + "6" * 64, 1
                )
            case q.ReviewCheck(report=review):
                code = "ok" if review.verdict == "PASS" else "review_failed"
                return q.Verdict(self._report("reviewer", code=code, task_id=review.task_id))
            case q.TestsCheck(report=tests):
                code = "ok" if tests.status == "PASS" else "tests_failed"
                return q.Verdict(self._report("tests", code=code, task_id=tests.task_id))
            case q.LandingCheck():
                code = "landing_conflict" if self.script.landing_refused else "ok"
                return q.LandingVerdict(self._report("landing", code=code), "7" * 40, "4" * 40, "refs/heads/x", None)
            case q.ContractCheck() | q.PlanCheck():
                return q.Verdict(self._report("plan" if isinstance(question, q.PlanCheck) else "policy"))
            case q.DecisionCheck() | q.GrantsCheck() | q.QueueCheck() | q.WithdrawalCheck() | q.PullCheck():
                raise AssertionError("no run of this script asks a person or uses a merge queue")

    def _decided(self, request: ApprovalRequest) -> DecisionsReceived:
        """What the person will answer to a request."""
        decision = decision_on(request, verdict=self.script.person, person="ana", decided_at=request.created_at)
        signed = SignedDecision(document=codec.encode(decision).decode(), signature="a signature")
        return DecisionsReceived((signed,), f"decide:{request.request_id}")

    def _judged(self, run: Run, signed: SignedDecision) -> q.Verdict:
        """The gate's verdict on an answer; one that comes again has no effect."""
        decision = codec.decode(signed.document.encode(), ApprovalDecision)
        asked = run.approvals[decision.request_id]
        if asked.status != "pending":
            return q.Verdict(self._report("approval"))
        report = self._report("approval", code="ok" if decision.verdict == "approve" else "approval_rejected")
        return q.DecisionVerdict(report, (JudgedDecision(decision, signed, asked.request, ANA, "SHA256:x"),), "0" * 64)

    def _work(self, run: Run, command: CommandRef) -> RoleReplied:
        """What the role will answer to a task."""
        task = run.tasks[command.task_id]
        return RoleReplied(command.role, self._said(run, command, task.attempt), f"answer:{command.task_id}")

    def _said(
        self, run: Run, command: CommandRef, attempt: int
    ) -> TaskContract | Plan | TaskResult | ReviewReport | TestReport:
        producer = Agent(role="WORKER", agent_id="worker-1")
        match command.role:
            case "pm":
                return self.contract()
            case "techlead":
                return self._plan(run)
            case "worker":
                return self._worked(command.task_id, attempt, producer)
            case "reviewer":
                return ReviewReport(
                    run_id=RUN_ID,
                    reviewer=Agent(role="REVIEWER", agent_id="reviewer-1"),
                    reviewed_at="2026-01-02T00:00:00.000Z",
                    verdict="FAIL" if attempt <= self.script.review_fails_until else "PASS",
                    summary="",
                    scope_check=ScopeCheck(passed=True, violations=()),
                    evidence=(),
                    task_id=command.task_id,
                    tree="4" * 40,
                )
            case "testrunner":
                return TestReport(
                    run_id=RUN_ID,
                    task_id=command.task_id,
                    runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
                    started_at="2026-01-02T00:00:00.000Z",
                    finished_at="2026-01-02T00:00:00.000Z",
                    status="FAIL" if attempt <= self.script.tests_fail_until else "PASS",
                    commands=(),
                    artifacts=(),
                    tree="4" * 40,
                )

    def _plan(self, run: Run) -> Plan:
        assert run.contract is not None
        shards = tuple(
            replace(run.contract, task_id=f"{RUN_ID}.plan.w{number:02}", allowed_paths=(f"src/p{number}",))
            for number in range(1, self.script.shards + 1)
        )
        ids = tuple(shard.task_id for shard in shards)
        return Plan(
            run_id=RUN_ID,
            task_id=f"{RUN_ID}.plan",
            producer=Agent(role="TECH_LEAD", agent_id="techlead-1"),
            created_at="2026-01-02T00:00:00.000Z",
            contracts=shards,
            batches=tuple((task_id,) for task_id in ids) if self.script.serial else (ids,),
        )

    def _worked(self, task_id: str, attempt: int, producer: Agent) -> TaskResult:
        broken = task_id.rsplit(".", maxsplit=1)[-1] == f"w{self.script.broken_shard:02}"
        asked = self.script.asked
        return TaskResult(
            run_id=RUN_ID,
            task_id=task_id,
            producer=producer,
            status="FAILED" if broken else "SUCCESS",
            started_at="2026-01-02T00:00:00.000Z",
            finished_at="2026-01-02T00:00:00.000Z",
            summary="",
            artifacts=(Artifact(name=AGENT_SESSION, uri=PATCH, sha256="8" * 64),) if asked else (),
            git=GitOutcome(baseline_ref=BASELINE, head_ref="3" * 40, changed_files=(), patch=PATCH if asked else ""),
            gates=GateOutcomes(diff_gate=OUTCOME, policy_gate=OUTCOME, review_gate=OUTCOME, tests_gate=OUTCOME),
            next_steps=NextSteps(suggested_action="", notes=""),
            attempt=attempt,
            failure="executor_failed: exit 2" if broken else None,
        )
