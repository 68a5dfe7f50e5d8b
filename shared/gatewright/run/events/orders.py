"""Events that order work: contract, plan, locks, tasks, fix rounds, transfers to model providers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.reports import Plan
from gatewright.contracts.task_contract import TaskContract
from gatewright.contracts.transfers import TransferManifest
from gatewright.contracts.vocabulary import Budget
from gatewright.run.candidates import orders_of
from gatewright.run.events.base import RunEvent, is_turn_of, why_no_answer
from gatewright.run.state import CandidateState, Run, RunTask, TaskRole
from gatewright.run.states import Level
from gatewright.run.votes import withdraw_for_next_round, withdraw_of_tasks


def _with_orders(run: Run, orders: Sequence[TaskContract]) -> Run:
    """Return the run with the pending tasks of a round; its candidates among them start again."""
    fresh = {order.candidate: CandidateState() for order in orders if order.candidate is not None}
    run = replace(run, candidates={**run.candidates, **fresh})
    return run.with_tasks(*(RunTask(order.task_id, "worker", "", "PENDING", run.attempt, order) for order in orders))


def _may_lock(run: Run) -> bool:
    """Check that locks may be taken: before work is dispatched, or again after a release while people decided."""
    ready = (run.state == "S1" and run.plan is not None) or (run.state == "S4" and run.tests_passed) or run.state == "S5"
    return ready and run.locks is None and run.kind.lands


class ContractCompiled(RunEvent, frozen=True):
    """The pm has written the contract; ``pools`` are those for it, replacing those for the request."""

    event_type: ClassVar[str] = "contract_compiled"
    role_label: ClassVar[str | None] = "pm"
    contract: TaskContract
    pools: dict[str, str] = msgspec.field(default_factory=dict)

    def may_follow(self, run: Run) -> str:
        return why_no_answer(run, "pm", None)

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run.with_settled("pm", "SUCCESS"), contract=self.contract, pools=self.pools)


class PlanAccepted(RunEvent, frozen=True):
    event_type: ClassVar[str] = "plan_accepted"
    role_label: ClassVar[str | None] = "techlead"
    plan: Plan

    def may_follow(self, run: Run) -> str:
        return why_no_answer(run, "techlead", self.plan.task_id)

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        run = replace(run.with_settled("techlead", "SUCCESS"), plan=self.plan)
        if not run.kind.works:
            return run
        return _with_orders(run, [order for shard in self.plan.contracts for order in orders_of(shard)])

    def of_task(self) -> str | None:
        return self.plan.task_id


class TaskDispatched(RunEvent, frozen=True):
    """A task is dispatched to a role. ``contract`` is omitted when the plan or the run's request already has the document.

    ``budget`` is the task's budget instead of the document's; None: the document's.
    """

    event_type: ClassVar[str] = "task_dispatched"
    task_id: str
    role: TaskRole
    pool: str
    contract: TaskContract | None = None
    budget: Budget | None = None

    def may_follow(self, run: Run) -> str:
        task = run.tasks.get(self.task_id)
        if not is_turn_of(run, self.role):
            return f"the {self.role} is not asked in state {run.state}"
        if self.role == "testrunner" and (words := self._other_environment(run)):
            return words
        if self.role == "worker" and run.kind.plans:
            fits = task is not None and task.status == "PENDING"
            return "" if fits else "no plan has this task, or it was given out before"
        return "" if task is None and run.running(self.role) is None else f"the {self.role} was asked twice"

    def _other_environment(self, run: Run) -> str:
        """Compare what commands are shown with the contract's environment, or with the pulled one."""
        if run.awaits_environment:
            return "the packages of the candidate were not pulled"
        if self.contract is None or run.contract is None:
            return ""
        shown = (self.contract.environment, self.contract.baseline_environment)
        ordered = run.contract.environment
        wanted = (ordered, None) if run.pulled is None else (run.pulled.shown, ordered)
        return "" if shown == wanted else "the tests have another environment than the contract's or the pulled one"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        known = run.tasks.get(self.task_id)
        if known is None:
            return run.with_tasks(RunTask(self.task_id, self.role, self.pool, "RUNNING", run.attempt, self.contract))
        contract = known.contract
        if contract is not None and self.budget is not None:
            contract = replace(contract, budget=self.budget)
        return run.with_tasks(replace(known, status="RUNNING", pool=self.pool, contract=contract))

    def of_candidate(self, run: Run) -> int:
        return (self.contract.candidate or 0) if self.contract is not None else run.candidate_of_task(self.task_id)

    def of_task(self) -> str | None:
        return self.task_id


class FixOrdered(RunEvent, frozen=True):
    """A fix round: new contracts whose parents are the failed ones, with the evidence attached."""

    event_type: ClassVar[str] = "fix_ordered"
    role_label: ClassVar[str | None] = None
    level: ClassVar[Level] = "WARN"
    attempt: int
    reason: str
    contracts: tuple[TaskContract, ...]

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        # A test runner may still work on the change that the reviewer refused: its answer will be of another attempt.
        abandoned = (replace(task, status="FAILED") for task in run.tasks.values() if task.status == "RUNNING")
        run = replace(
            run.with_tasks(*abandoned),
            attempt=self.attempt,
            candidate=None,
            pulled=None,
            review=None,
            tests=None,
            tests_passed=False,
            routing=None,
            refusal=None,
            approvals=withdraw_of_tasks(withdraw_for_next_round(run.approvals), run.tasks.keys()),
            fix_ordered_at=record.ts,
        )
        return _with_orders(run, self.contracts)


class LocksWaiting(RunEvent, frozen=True):
    event_type: ClassVar[str] = "locks_waiting"
    role_label: ClassVar[str | None] = None
    level: ClassVar[Level] = "WARN"
    holders: tuple[str, ...]

    def may_follow(self, run: Run) -> str:
        return "" if _may_lock(run) else "it is not the time to wait for locks"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, waiting_for_locks=True)


class LocksTaken(RunEvent, frozen=True):
    """The run holds its paths; ``token`` increases with every grant on the repository (fencing).

    ``repository_url`` is the key of the lock table: ``RunAccepted.repository_key``.
    """

    event_type: ClassVar[str] = "locks_taken"
    role_label: ClassVar[str | None] = None
    repository_url: str
    paths: tuple[str, ...]
    token: int

    def may_follow(self, run: Run) -> str:
        if not _may_lock(run):
            return "it is not the time to take locks"
        ordered = run.accepted.repository_key
        known = self.repository_url in {ordered, run.accepted.repository_url}
        return "" if known else f"the locks are those of {self.repository_url}, and the run is in {ordered}"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, locks=self, waiting_for_locks=False)


class LocksReleased(RunEvent, frozen=True):
    """The run releases its paths while it waits for a person; it takes them again before it continues."""

    event_type: ClassVar[str] = "locks_released"

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, locks=None)


class TransferPlanned(RunEvent, frozen=True):
    """What a role of the run may send to model providers, after all required approvals."""

    event_type: ClassVar[str] = "transfer_planned"
    manifest: TransferManifest

    def apply(self, run: Run, record: OrchestratorEvent) -> Run:
        del record
        return replace(run, transfers=(*run.transfers, self.manifest))
