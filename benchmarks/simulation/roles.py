"""The answers of roles and gates in a simulation: everything passes. The documents are real ones, as small as may be."""

from __future__ import annotations

from msgspec.structs import replace

from gatewright.contracts import GateReport, Plan, ReviewReport, TaskContract, TaskResult, TestReport
from gatewright.contracts.reports import (
    GateName,
    GateOutcome,
    GateOutcomes,
    GitOutcome,
    NextSteps,
    ScopeCheck,
)
from gatewright.contracts.vocabulary import Agent
from gatewright.evidence.writer import Sealed
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.decider.inputs import RoleDocument
from gatewright.services.gatekeeper.policies.dispatch import NO_SHARES, QUARTER_HOURS

TREE, COMMIT, PATCH = "4" * 40, "7" * 40, "artifact:sha256:" + "8" * 64
_AT = "2026-01-01T00:00:00.000Z"
_PASSED = GateOutcome(passed=True, violations=())


def answer_of(role: str, contract: TaskContract, run_id: str, task_id: str, shards: int) -> RoleDocument:
    """The answer of a role to a task of a run."""
    agent = Agent(role="WORKER", agent_id="simulated")
    match role:
        case "techlead":
            orders = tuple(
                replace(contract, task_id=f"{task_id}.w{number:02}", allowed_paths=(f"src/p{number}",))
                for number in range(1, shards + 1)
            )
            batch = tuple(order.task_id for order in orders)
            lead = Agent(role="TECH_LEAD", agent_id="simulated")
            return Plan(run_id=run_id, task_id=task_id, producer=lead, created_at=_AT, contracts=orders, batches=(batch,))
        case "reviewer":
            return ReviewReport(
                run_id=run_id,
                reviewer=Agent(role="REVIEWER", agent_id="simulated"),
                reviewed_at=_AT,
                verdict="PASS",
                summary="",
                scope_check=ScopeCheck(passed=True, violations=()),
                evidence=(),
                task_id=task_id,
                tree=TREE,
            )
        case "testrunner":
            runner = Agent(role="TEST_RUNNER", agent_id="simulated")
            return TestReport(
                run_id=run_id,
                task_id=task_id,
                runner=runner,
                started_at=_AT,
                finished_at=_AT,
                status="PASS",
                commands=(),
                artifacts=(),
                tree=TREE,
            )
        case _:
            return TaskResult(
                run_id=run_id,
                task_id=task_id,
                producer=agent,
                status="SUCCESS",
                started_at=_AT,
                finished_at=_AT,
                summary="",
                artifacts=(),
                git=GitOutcome(baseline_ref=contract.rollback.baseline_ref, head_ref=TREE, changed_files=(), patch=PATCH),
                gates=GateOutcomes(diff_gate=_PASSED, policy_gate=_PASSED, review_gate=_PASSED, tests_gate=_PASSED),
                next_steps=NextSteps(suggested_action="", notes=""),
            )


class _Locks:
    """Every run has paths of its own."""

    async def release(self, _repository: str, _run_id: str) -> tuple[str, ...]:
        return ()


class _Secrets:
    scanner = clean = None


class _Policies:
    shares, beats = NO_SHARES, QUARTER_HOURS


class PassingGates:
    """In the place of the gate engine."""

    locks, secrets, artifacts, policies = _Locks(), _Secrets(), None, _Policies()
    memories = queue = None

    async def answer(self, question: q.GateCheck) -> q.Verdict:
        match question:
            case q.IntakeCheck(document=document, run_id=run_id):
                return q.IntakeVerdict(_report("policy", run_id), document, COMMIT, TREE, "0" * 64, {})
            case q.LocksCheck(run=run):
                return q.LocksVerdict(_report("locks", run.run_id), ("src",), 1, ())
            case q.DiffCheck(run=run, task=task):
                return q.DiffVerdict(_report("diff", run.run_id, task.task_id), TREE)
            case q.IntegratedCheck(run=run):
                return q.CandidateVerdict(_report("integrated", run.run_id), TREE, PATCH, PATCH, 1)
            case q.LandingCheck(run=run):
                return q.LandingVerdict(
                    _report("landing", run.run_id), COMMIT, TREE, f"refs/heads/gatewright/{run.run_id}", None
                )
            case q.ReviewCheck(run=run):
                return q.Verdict(_report("reviewer", run.run_id))
            case q.TestsCheck(run=run):
                return q.Verdict(_report("tests", run.run_id))
            case q.PlanCheck(run=run):
                return q.Verdict(_report("plan", run.run_id))
            case q.ContractCheck(run=run):
                return q.Verdict(_report("policy", run.run_id))
            case q.DecisionCheck() | q.GrantsCheck() | q.QueueCheck() | q.WithdrawalCheck() | q.PullCheck():
                raise AssertionError("no run of the simulation asks a person or uses a merge queue")


def _report(gate: GateName, run_id: str, task_id: str | None = None) -> GateReport:
    return GateReport(
        run_id=run_id,
        gate=gate,
        verdict="PASS",
        code="ok",
        summary="ok",
        violations=(),
        evidence=(),
        evaluated_at=_AT,
        task_id=task_id,
    )


class NoSigner:
    """In the place of the signing key: nothing is written, and nothing signed."""

    def current(self, _finished_at: str) -> NoSigner:
        return self


class NoBundles:
    """In the place of the writer of bundles: the digest of one is that of its run's last event."""

    outside = False

    def copies(self) -> frozenset[str]:
        return frozenset()

    async def append(self, *_: object) -> None:
        """No file is written."""

    async def check(self) -> None:
        """It asks no store."""

    async def seal(self, run: Run, *_: object) -> Sealed:
        return Sealed(run.head, "simulated", run.run_id)

    async def settled(self, *_: object) -> None:
        """No file was written."""

    async def withdraw(self, run_id: str, _manifest_sha256: str) -> None:
        raise AssertionError(f"two bundles of {run_id}")
