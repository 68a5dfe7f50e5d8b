"""A simulated run in which several make the change, each of them by its own script."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from gatewright.contracts import Error, Plan, ReviewReport, RunRequest, TaskContract, TaskResult, TestReport
from gatewright.contracts.records import CommandRef
from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import Agent, Budget, Executor, TimeoutRetry, Usage
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from tests.factories import make_contract, make_request
from tests.gatekeeper.simulated_run import RUN_ID, SimulatedRun

Said = TaskContract | Plan | TaskResult | ReviewReport | TestReport | Error


@dataclass(frozen=True)
class Maker:
    """What becomes of one candidate. ``*_fails_until``: the number of attempts that fail before one passes."""

    name: str
    broken: str = ""
    refused: bool = False
    empty: bool = False
    review_fails_until: int = 0
    tests_fail_until: int = 0
    reviewer_gone: bool = False
    findings: int = 0
    lines: int = 10
    cost_usd: float = 0.0
    tokens: int = 0
    unpriced: bool = False


GOOD = Maker("good")
MAKERS = (
    GOOD,
    Maker("small", lines=1),
    Maker("broken", broken="executor_failed: exit 2"),
    Maker("crashed", broken="error"),
    Maker("refused", refused=True),
    Maker("empty", empty=True),
    Maker("unreviewed", reviewer_gone=True),
    Maker("criticised", review_fails_until=9),
    Maker("failing", tests_fail_until=9),
    Maker("cured", tests_fail_until=1),
)


@dataclass
class CandidateRun(SimulatedRun):
    """The ledger of one run with a candidate for each of ``makers``."""

    makers: tuple[Maker, ...] = (GOOD, GOOD)
    budget: Budget | None = None
    asked: list[q.GateCheck] = field(default_factory=list)

    def request(self) -> RunRequest:
        return make_request(**self._order())

    def contract(self) -> TaskContract:
        return make_contract(RUN_ID, **self._order())

    def deliver_all(self) -> None:
        while self.under_way:
            self.deliver(self.under_way.pop(0))

    def maker(self, task_id: str | None) -> Maker:
        assert self.run is not None
        return self.makers[self.run.tasks[task_id or ""].candidate - 1]

    def _order(self) -> dict[str, object]:
        agents = (f"agent-{number}" for number in range(1, len(self.makers) + 1))
        return {
            "executor": None,
            "candidates": tuple(Executor(kind="agent", agent=agent) for agent in agents),
            "timeout_retry": TimeoutRetry(timeout_sec=60, max_retries=self.script.retries, retry_backoff_sec=0),
            "budget": self.budget,
        }

    def _answer(self, question: q.GateCheck) -> q.Verdict:
        self.asked.append(question)
        match question:
            case q.DiffCheck(task=task):
                code = "path_out_of_scope" if self.maker(task.task_id).refused else "ok"
                return q.DiffVerdict(self._report("diff", code=code, task_id=task.task_id), str(task.candidate) * 40)
            case q.IntegratedCheck(run=run):
                (worker,) = run.workers()
                maker, digit = self.maker(worker.task_id), str(worker.candidate)
                report = self._report("integrated", code="empty_diff" if maker.empty else "ok", task_id=worker.task_id)
                patch, names = f"artifact:sha256:{digit * 64}", f"artifact:sha256:{digit * 63}0"
                return q.CandidateVerdict(report, digit * 40, patch, names, 1, maker.lines)
            case q.ReviewCheck(report=review):
                code = "ok" if review.verdict == "PASS" else "review_failed"
                return q.Verdict(self._report("reviewer", code=code, task_id=review.task_id))
            case q.TestsCheck(report=tests):
                code = "ok" if tests.status == "PASS" else "tests_failed"
                return q.Verdict(self._report("tests", code=code, task_id=tests.task_id))
            case q.LandingCheck(run=run):
                assert run.candidate is not None
                report = self._report("landing")
                return q.LandingVerdict(report, "7" * 40, run.candidate.tree, f"refs/heads/gatewright/{RUN_ID}", None)
            case _:
                return super()._answer(question)

    def _work(self, run: Run, command: CommandRef) -> RoleReplied:
        task = run.tasks[command.task_id]
        said: Said = super()._said(run, command, task.attempt)
        maker = self.makers[task.candidate - 1] if task.candidate else GOOD
        match said:
            case TaskResult() if maker.broken == "error":
                said = _error(command, "WORKER")
            case TaskResult():
                usage = Usage(tokens=maker.tokens, cost_usd=maker.cost_usd, iterations=1, unpriced=maker.unpriced, delivery="1")
                broken = {"status": "FAILED", "failure": maker.broken} if maker.broken else {}
                said = replace(said, usage=usage, producer=Agent(role="WORKER", agent_id=f"worker-{task.candidate}"), **broken)
            case ReviewReport() if maker.reviewer_gone:
                said = _error(command, "REVIEWER")
            case ReviewReport():
                findings = tuple(Finding(code="remark", message="look", blocking=False) for _ in range(maker.findings))
                verdict = "FAIL" if task.attempt <= maker.review_fails_until else "PASS"
                said = replace(said, verdict=verdict, findings=findings, tree=str(task.candidate) * 40)
            case TestReport():
                status = "FAIL" if task.attempt <= maker.tests_fail_until else "PASS"
                said = replace(said, status=status, tree=str(task.candidate) * 40)
            case _:
                pass
        return RoleReplied(command.role, said, f"answer:{command.task_id}")


def _error(command: CommandRef, role: str) -> Error:
    return Error(
        code="attempts_exhausted", message="it was given up", run_id=RUN_ID, task_id=command.task_id, role=command.role
    )
