"""A transition being written: every event added is applied at once, so that later decisions see what earlier ones did."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from gatewright.contracts import GateReport, ReviewReport, TaskContract, TestReport, Transition
from gatewright.contracts.records import Cause, CommandRef, OrchestratorEvent
from gatewright.ledger import events as e
from gatewright.ledger.chain import GENESIS, link
from gatewright.ledger.evolve import evolve
from gatewright.ledger.run import Run, Task, TaskRole
from services.gatekeeper.decider import orders
from services.gatekeeper.decider.inputs import Input, Submitted, kind

POOL = "default"


class Draft:
    """The events and commands of one transition, and the run as it is after them."""

    def __init__(self, run: Run, item: Input, now: datetime) -> None:
        self.run = run
        self._cause = Cause(kind=kind(item), message_id=item.message_id)
        self._number = run.transitions + 1
        self._now = now
        self._records: list[OrchestratorEvent] = []
        self._commands: list[CommandRef] = []

    @classmethod
    def begin(cls, item: Submitted, accepted: e.RunAccepted, now: datetime) -> Draft:
        """The draft of a run's first transition."""
        first = link([e.Event(accepted)], run_id=item.run_id, trace_id=item.trace_id, seq=0, head=GENESIS, now=now)
        draft = cls(evolve(None, first[0]), item, now)
        draft._records.extend(first)
        return draft

    def add(self, payload: e.Payload, *, level: e.Level = "INFO", task_id: str | None = None, role: str | None = None) -> None:
        """One more event."""
        event = e.Event(payload, level, task_id, self.run.attempt, role)
        run = self.run
        (record,) = link([event], run_id=run.run_id, trace_id=run.trace_id, seq=run.seq, head=run.head, now=self._now)
        self._records.append(record)
        self.run = evolve(run, record)

    def judged(self, report: GateReport) -> bool:
        """Record a gate's verdict; whether it passed."""
        passed = report.verdict == "PASS"
        self.add(e.GateJudged(report=report), level="INFO" if passed else "ERROR", task_id=report.task_id, role="gatekeeper")
        return passed

    def end(self, status: e.Ending, code: str, message: str) -> None:
        """Enter FAILED or ABORTED, with the reason."""
        self.add(e.StateEntered(state=status), level="ERROR" if status == "FAILED" else "WARN")
        self.finish(status, code, message)

    def refuse(self, report: GateReport) -> None:
        """End the run for the reason that a gate gave."""
        self.end("FAILED", report.code, f"{report.gate} gate: {report.summary}")

    def finish(self, status: e.Status, code: str, message: str) -> None:
        self.add(e.RunFinished(status=status, code=code, message=message), level="INFO" if status == "SUCCESS" else "ERROR")

    def dispatch(self, task_id: str, role: TaskRole, contract: TaskContract | None) -> None:
        """Give a task to a role: the event now, the message once the transition is in the ledger."""
        self.add(e.TaskDispatched(task_id=task_id, role=role, pool=POOL, contract=contract), role="gatekeeper", task_id=task_id)
        self._commands.append(CommandRef(role=role, pool=POOL, task_id=task_id))

    def dispatch_judge(self, role: TaskRole, order: Callable[[Run, TaskContract, str], TaskContract]) -> None:
        """Give the candidate to the reviewer or the test runner."""
        run = self.run
        if run.contract is None or run.candidate is None:
            self.end("FAILED", "gate_not_evaluated", "there is no candidate to judge")
            return
        contract = order(run, run.contract, run.candidate.patch)
        self.dispatch(contract.task_id, role, contract)

    def dispatch_ready_workers(self) -> None:
        """Give out the pending tasks of the first batch that is not done yet."""
        run = self.run
        if run.plan is None:
            return
        for batch in run.plan.batches:
            tasks = [run.tasks[orders.attempt_id(task_id, run.attempt)] for task_id in batch]
            if any(task.status != "SUCCESS" for task in tasks):
                for task in tasks:
                    if task.status == "PENDING":
                        self.dispatch(task.task_id, "worker", None)
                return

    def may_fix(self) -> bool:
        """Whether the contract allows, and the executor has an answer for, one more attempt."""
        contract = self.run.contract
        if contract is None:
            return False
        allowed = min(contract.timeout_retry.max_retries + 1, orders.answers(contract))
        return self.run.attempt < allowed

    def fix(self, report: GateReport, evidence: ReviewReport | TestReport) -> None:
        """Turn to S5 and straight back to S2 with new contracts."""
        attempt = self.run.attempt + 1
        failed: tuple[Task, ...] = self.run.workers()
        contracts = tuple(orders.fixing(task.contract, attempt, evidence) for task in failed if task.contract is not None)
        self.add(e.StateEntered(state="S5"), level="WARN")
        self.add(e.FixOrdered(attempt=attempt, reason=report.code, contracts=contracts), level="WARN")
        self.add(e.StateEntered(state="S2"))
        self.dispatch_ready_workers()

    def transition(self) -> Transition | None:
        """What has been drafted; None when nothing was."""
        if not self._records:
            return None
        return Transition(
            run_id=self.run.run_id,
            number=self._number,
            cause=self._cause,
            events=tuple(self._records),
            commands=tuple(self._commands),
        )
