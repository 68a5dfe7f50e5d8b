"""A transition under construction. Each event is applied as soon as it is added, so later decisions see its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from msgspec.structs import replace

from gatewright.budgets import Excess
from gatewright.bus.topology import DEFAULT_POOL
from gatewright.contracts import GateReport, SummonsTask, TaskContract, TaskResult, Transition, UsageReport
from gatewright.contracts.people.revision_orders import FoundFault
from gatewright.contracts.records import Cause, CommandRef, OrchestratorEvent
from gatewright.contracts.vocabulary import Budget, Usage
from gatewright.errors import GatewrightError
from gatewright.ledger.chain import link
from gatewright.models.transfers import NOT_APPROVED
from gatewright.order_artifacts.hidden_acceptance import shown_to_makers
from gatewright.rules import endings
from gatewright.rules import task_contracts as orders
from gatewright.rules.endings import Ending
from gatewright.rules.rounds import escalates, most_attempts
from gatewright.rules.shards import attempt_id
from gatewright.rules.transfers import oversent
from gatewright.run import events as e
from gatewright.run import spending, states
from gatewright.run.evolve import evolve, objection
from gatewright.run.state import GENESIS, Run, RunTask, TaskRole
from gatewright.services.gatekeeper.decider.gate_checks import DiffVerdict
from gatewright.services.gatekeeper.decider.inputs import Input, Submitted, kind


class IllegalEventError(GatewrightError):
    """The decider tried to append an event that its own rules forbid."""


#: Maximum number of recorded interrupted deliveries per task; above what a queue redelivers.
_MOST_INTERRUPTED = 64


class Draft:
    """Events and commands of one transition, and the run as it is after them."""

    def __init__(self, run: Run, item: Input, now: datetime) -> None:
        self.run = run
        self._cause = Cause(kind=kind(item), message_id=item.message_id)
        self._number = run.transitions + 1
        self._now = now
        self._records: list[OrchestratorEvent] = []
        self._commands: list[CommandRef] = []

    @classmethod
    def begin(cls, item: Submitted, accepted: e.RunAccepted, now: datetime) -> Draft:
        """Return the draft of a run's first transition."""
        first = link([e.LabelledEvent(accepted)], run_id=item.run_id, trace_id=item.trace_id, seq=0, head=GENESIS, now=now)
        draft = cls(evolve(None, first[0]), item, now)
        draft._records.extend(first)
        return draft

    def add(self, event: e.RunEvent, *, task_id: str | None = None) -> None:
        """Append an event and the labels that follow from it.

        Args:
            event: the event.
            task_id: the task of an ignored answer.

        Raises:
            IllegalEventError: the event is illegal in this state. This is a defect of the decider; nothing is recorded.
        """
        run = self.run
        if why := objection(run, event):
            raise IllegalEventError(f"{run.run_id} may not go on with {event.event_type}: {why}")
        (record,) = link(
            [e.with_labels(event, run, task_id)],
            run_id=run.run_id,
            trace_id=run.trace_id,
            seq=run.seq,
            head=run.head,
            now=self._now,
        )
        self._records.append(record)
        self.run = evolve(run, record)

    def judged(self, report: GateReport) -> bool:
        """Record a gate's verdict. Return whether it passed."""
        self.add(e.GateJudged(report=report))
        return report.verdict == "PASS"

    def end(self, status: states.Ending, code: str, message: str) -> None:
        """Enter FAILED or ABORTED, with the reason."""
        self.add(e.StateEntered(state=status))
        self.finish(status, code, message)

    def fail(self, why: Ending) -> None:
        """Enter FAILED, with the reason."""
        self.end("FAILED", why.code, why.message)

    def refuse(self, report: GateReport) -> None:
        """End the run with the reason code of a failed gate."""
        self.fail(endings.refused_ending(report))

    def finish(self, status: states.Status, code: str, message: str) -> None:
        self.add(e.RunFinished(status=status, code=code, message=message))

    def dispatch(self, task_id: str, role: TaskRole, contract: TaskContract | None, budget: Budget | None = None) -> None:
        """Dispatch a task to a role: add the event now; the message follows once the ledger holds the transition."""
        pool = self.run.pools.get(role, DEFAULT_POOL)
        self.add(e.TaskDispatched(task_id=task_id, role=role, pool=pool, contract=contract, budget=budget))
        self._commands.append(CommandRef(role=role, pool=pool, task_id=task_id))

    def summon(self, task: SummonsTask) -> None:
        """Send a question to a role: add the event now; the message follows once the ledger holds the transition."""
        role = task.item.role
        self.add(e.SummonsAsked(task=task))
        self._commands.append(CommandRef(role=role, pool=self.run.summonses[task.task_id].pool, task_id=task.task_id))

    def dispatch_judge(self, role: TaskRole, order: Callable[[Run, TaskContract, str], TaskContract]) -> None:
        """Dispatch a review or test task for the candidate. With several candidates, dispatch one task for each."""
        numbers = self.run.in_the_running() or (0,)
        for number, left in zip(numbers, spending.shares(self.run, self._now, len(numbers)), strict=True):
            run = self.run.seen_from(number)
            if run.ended:
                return
            if run.contract is None or run.candidate is None:
                self.end("FAILED", "gate_not_evaluated", "there is no candidate to judge")
                return
            contract = order(run, run.contract, run.candidate.patch)
            self.dispatch(contract.task_id, role, contract if left is None else replace(contract, budget=left))

    def dispatch_search(self) -> None:
        """Dispatch the question of a search to a worker."""
        contract = self.run.contract
        if contract is None:
            self.end("FAILED", "gate_not_evaluated", "there is no question to search for")
            return
        order = orders.searching(contract, self.run.run_id)
        (left,) = spending.shares(self.run, self._now, 1)
        self.dispatch(order.task_id, "worker", order if left is None else replace(order, budget=left))

    def dispatch_ready_workers(self) -> None:
        """Dispatch the pending tasks of the first unfinished batch."""
        run = self.run
        if run.plan is None:
            return
        if run.candidates:
            self._dispatch_workers([task.task_id for task in run.workers() if task.status == "PENDING"])
            return
        for batch in run.plan.batches:
            tasks = [run.tasks[attempt_id(task_id, run.attempt)] for task_id in batch]
            if any(task.status != "SUCCESS" for task in tasks):
                self._dispatch_workers([task.task_id for task in tasks if task.status == "PENDING"])
                return

    def _dispatch_workers(self, task_ids: list[str]) -> None:
        if not task_ids:
            return
        gone = spending.used_up(self.run, self._now, self.run.attempt)
        if gone is not None:
            self.exceeded(gone)
            return
        for task_id, share in zip(task_ids, spending.shares(self.run, self._now, len(task_ids)), strict=True):
            self.dispatch(task_id, "worker", None, share)

    def finished(self, result: TaskResult, verdict: DiffVerdict | None) -> None:
        """Record a worker's result.

        Args:
            result: the worker's answer.
            verdict: the diff gate's verdict on the worker's patch, where there is one.
        """
        accepted = result.status == "SUCCESS" and verdict is not None and verdict.passed
        tree = verdict.tree if verdict is not None and accepted else ""
        self.add(e.TaskFinished(result=result, accepted=accepted, tree=tree))

    def used(self, task: RunTask, usage: Usage) -> None:
        """Record the usage of a task when it exceeds the usage recorded so far."""
        known = task.usage.get(usage.delivery)
        if spending.most(known, usage) != known:
            self.add(e.UsageReported(task_id=task.task_id, usage=usage))

    def interrupted(self, task: RunTask, report: UsageReport) -> None:
        """Record once that a delivery ended without an answer, with its usage and its saved state."""
        account, delivery = report.interrupted, report.usage.delivery
        if account is None or delivery in task.interrupted or len(task.interrupted) >= _MOST_INTERRUPTED:
            self.used(task, report.usage)
            return
        usage = spending.most(task.usage.get(delivery), report.usage)
        self.add(e.TaskInterrupted(task_id=task.task_id, why=account.why, usage=usage, artifacts=account.artifacts))

    def excess(self) -> Excess | None:
        """Return the exceeded budget, or None."""
        return spending.excess(self.run, self._now)

    def over_budget(self) -> bool:
        """End the run if a budget is exceeded. Return whether it was."""
        gone = self.excess()
        if gone is not None:
            self.exceeded(gone)
        return gone is not None

    def over_leave(self) -> bool:
        """End the run if a task sent more to a model provider than was approved. Return whether it did."""
        words = oversent(self.run)
        if words:
            self.end("FAILED", NOT_APPROVED, words)
        return bool(words)

    def exceeded(self, gone: Excess, task: RunTask | None = None) -> None:
        """End the run because of an exceeded budget.

        Args:
            gone: the exceeded budget.
            task: the task, when its share of the budget is exceeded.
        """
        used = e.BudgetExceeded(
            budget=gone.budget,
            limit=gone.limit,
            used=gone.used,
            totals=spending.totals(self.run, self._now),
            task_id=task.task_id if task else None,
            waiting=endings.waiting_for(self.run, gone.budget),
            at_least=spending.lower_bounds(self.run),
        )
        self.add(used)
        self.fail(endings.budget_exceeded(used))

    def may_fix(self) -> bool:
        """Return whether the contract allows another attempt and the executor can make one."""
        contract = self.run.contract
        if contract is None:
            return False
        return self.run.attempt < most_attempts(contract)

    def escalates(self, report: GateReport) -> bool:
        """Return whether this refusal reaches the limit of equal refusals, after which a person takes over."""
        contract = self.run.contract
        return contract is not None and escalates(contract, self.run.attempt, report.code)

    def escalate(self, report: GateReport) -> None:
        """End the run for a person to continue: another round would fail in the same way."""
        self.fail(endings.escalated_ending(report, self.run.attempt))

    def fix(self, reason: str, failed: Iterable[tuple[RunTask, FoundFault]]) -> None:
        """Enter S5 and, after the back-off, S2 with new contracts; or end the run when the budget allows no further round.

        Args:
            reason: reason code of the failure.
            failed: the worker tasks to repeat, each with the fault that explains why.
        """
        run, attempt = self.run, self.run.attempt + 1
        if run.contract is None:
            self.end("FAILED", reason, "there is no contract to fix anything by")
            return
        gone = spending.used_up(run, self._now, attempt)
        if gone is not None:
            self.exceeded(gone)
            return
        budget = run.contract.budget
        contracts = tuple(
            orders.fixing(replace(task.contract, budget=budget), attempt, shown_to_makers(evidence, run.contract), task.result)
            for task, evidence in failed
            if task.contract is not None
        )
        self.add(e.StateEntered(state="S5"))
        self.add(e.FixOrdered(attempt=attempt, reason=reason, contracts=contracts))
        if run.contract.timeout_retry.retry_backoff_sec <= 0 and self.run.locks is not None:
            self.try_again()

    def try_again(self) -> None:
        """Move from S5 to S2: start the next round."""
        self.add(e.StateEntered(state="S2"))
        self.dispatch_ready_workers()

    def back_off_is_over(self) -> bool:
        """Return whether the run is between two rounds, holds its path locks, and its back-off has elapsed."""
        run = self.run
        if run.state != "S5" or run.contract is None or run.locks is None:
            return False
        since = datetime.fromisoformat(run.fix_ordered_at)
        return (self._now - since).total_seconds() >= run.contract.timeout_retry.retry_backoff_sec

    @property
    def now(self) -> datetime:
        """Time of the drafted events."""
        return self._now

    def transition(self) -> Transition | None:
        """Return the drafted transition, or None when the draft is empty."""
        if not self._records:
            return None
        return Transition(
            run_id=self.run.run_id,
            number=self._number,
            cause=self._cause,
            events=tuple(self._records),
            commands=tuple(self._commands),
        )
