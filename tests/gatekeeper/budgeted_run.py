"""A simulated run with a budget: workers that use something up, a clock that a test moves, and roles that never answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from gatewright.contracts import RunRequest, TaskContract, TaskResult, UsageReport
from gatewright.contracts.vocabulary import Agent, Budget, TimeoutRetry, Usage
from gatewright.run import events as e
from gatewright.run.evolve import fold
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.decide import decide
from gatewright.services.gatekeeper.decider.inputs import DeadlineReached, Input, RoleReplied, UsageReceived
from tests.gatekeeper.simulated_run import NOW, RUN_ID, SimulatedRun


def make_usage(*, tokens: int = 0, cost_usd: float = 0.0, iterations: int = 0, delivery: str = "1.1") -> Usage:
    return Usage(tokens=tokens, cost_usd=cost_usd, iterations=iterations, delivery=delivery)


@dataclass
class BudgetedRun(SimulatedRun):
    """``used`` is what the result of a task says, by task id; ``failures`` what it says went wrong."""

    budget: Budget | None = None
    back_off: float = 0.0
    used: dict[str, Usage] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def request(self) -> RunRequest:
        return replace(super().request(), budget=self.budget, timeout_retry=self._retry())

    def contract(self) -> TaskContract:
        return replace(super().contract(), budget=self.budget, timeout_retry=self._retry())

    def _retry(self) -> TimeoutRetry:
        return TimeoutRetry(timeout_sec=60, max_retries=self.script.retries, retry_backoff_sec=self.back_off)

    def _worked(self, task_id: str, attempt: int, producer: Agent) -> TaskResult:
        result = replace(super()._worked(task_id, attempt, producer), usage=self.used.get(task_id))
        failure = self.failures.get(task_id)
        return replace(result, status="FAILED", failure=failure) if failure else result

    def deliver_until(self, state: str, *, attempt: int = 1) -> None:
        """Deliver answers until the run has come so far."""
        while not (self.state == state and self.opened.attempt == attempt):
            self.deliver(self.under_way.pop(0))

    def deliver_all(self) -> None:
        while self.under_way:
            self.deliver(self.under_way.pop(0))

    def at(self, moment: datetime, item: Input | None = None) -> bool:
        """An input (by default: time passes) at a moment; whether it counted."""
        transition = decide(self.run, item or DeadlineReached("time"), [], moment)
        if transition is not None:
            self.transitions.append(transition)
            self.run = fold([transition], self.run)
            self.under_way.extend(self._work(self.opened, command) for command in transition.commands)
        return transition is not None

    def tell(self, task: str, usage: Usage, moment: datetime = NOW) -> bool:
        """A report of usage from a worker at work on ``task`` (``w01``)."""
        report = UsageReport(run_id=RUN_ID, task_id=f"{RUN_ID}.plan.{task}", usage=usage)
        return self.at(moment, UsageReceived("worker", report, "usage"))

    def given(self, task: str) -> Budget | None:
        """What a worker was handed."""
        contract = self.opened.tasks[f"{RUN_ID}.plan.{task}"].contract
        assert contract is not None
        return contract.budget

    @property
    def opened(self) -> Run:
        assert self.run is not None
        return self.run

    @property
    def state(self) -> str:
        return self.run.state if self.run is not None else ""

    @property
    def last_moment(self) -> datetime:
        return NOW + timedelta(seconds=len(self.transitions))

    def exceeded(self) -> e.BudgetExceeded:
        """The one event that tells why the run ended."""
        told = [e.event_of(record) for transition in self.transitions for record in transition.events]
        (event,) = [payload for payload in told if isinstance(payload, e.BudgetExceeded)]
        assert self.opened.failure is not None
        assert (self.opened.status, self.opened.failure.code) == ("FAILED", "budget_exceeded")
        return event


def workers_at_work(world: BudgetedRun) -> list[str]:
    return [item.document.task_id or "" for item in world.under_way if isinstance(item, RoleReplied) and item.role == "worker"]
