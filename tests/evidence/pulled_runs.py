"""A run whose changed packages people approved and the puller made, as the ledger has it; and forgeries of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from gatewright.contracts import RunRequest, TaskContract
from gatewright.contracts.environment_order import OrderedEnvironment
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.vocabulary import Environment
from gatewright.rules import task_contracts
from gatewright.rules.approvals import make_request, matching_rules
from gatewright.run import events as e
from gatewright.run import states
from gatewright.worker_role import resolve_role
from tests.evidence.approved_runs import ApprovedRun, Forgery, as_it_is, decided
from tests.evidence.recorded_runs import START

NETWORK = ApprovalRule(name="packages", reason="network", risk="high", approvers=("ana",), within_seconds=600, phrase="land it")
ORDER = e.ChangedOrder(sha256="d" * 64, files=("requirements.txt",))
BEFORE, PULLED = "/srv/environments/before", "/srv/environments/pulled"


@dataclass
class PulledRun(ApprovedRun):
    """Its contract permits packages on request; the candidate changes them."""

    rule: ApprovalRule = NETWORK

    def request(self) -> RunRequest:
        return replace(super().request(), network="on-request", environment=Environment(prefix=BEFORE))

    def contract(self, **changes: object) -> TaskContract:
        contract = super().contract(environment=Environment(prefix=BEFORE), **changes)
        contract = replace(contract, tool_permissions=replace(contract.tool_permissions, network="on-request"))
        return replace(contract, role_contract=resolve_role(contract))

    def step(self, *events: e.LabelledEvent) -> None:
        with_order = []
        for event in events:
            payload = event.event
            if isinstance(payload, e.CandidateComposed):
                payload = replace(payload, order=ORDER)
            with_order.append(e.LabelledEvent(payload, event.level, event.task_id, event.attempt, event.role))
        super().step(*with_order)

    def up_to_the_yes(self) -> None:
        self.accept()
        self.plan(shards=1)
        self.work()
        self.compose()
        review = f"{self.run_id}.review.a1"
        self.step(self.review(review), self.gate("reviewer", task_id=review), e.LabelledEvent(e.StateEntered(state="S4")))
        now = START + timedelta(seconds=len(self.transitions))
        for rule in matching_rules(self.run, "environment"):
            request = make_request(self.run, rule, 1, now)
            parked = e.LabelledEvent(e.StateEntered(state=states.PARKED))
            self.step(e.LabelledEvent(e.ApprovalRequested(request=request)), parked)

    def pull(self) -> None:
        """What the puller made, and the tests in it."""
        assert self.run.candidate is not None
        made = OrderedEnvironment(prefix=PULLED, ecosystem="python", record_sha256="e" * 64)
        pulled = e.EnvironmentPulled(tree=self.git.tree, order_sha256=ORDER.sha256, environments=(made,))
        run = replace(self.run, pulled=pulled)
        test = task_contracts.testing(run, self.contract(), self.run.candidate.patch)
        self.step(self.gate("environment"), e.LabelledEvent(pulled), self.dispatch(test.task_id, "testrunner", test))

    def finish_tests(self) -> None:
        test = f"{self.run_id}.test.a1"
        self.step(self.tests(test), self.gate("tests", task_id=test))
        self.finish()


def make_pulled(forgery: Forgery = as_it_is) -> PulledRun:
    """One shard with a changed lock: approved by Ana, pulled, tested and landed."""
    run = PulledRun(forgery=forgery)
    run.up_to_the_yes()
    if run.run.approvals:
        (asked,) = run.run.approvals.values()
        run.step(e.LabelledEvent(decided(asked.request)), run.gate("approval"), e.LabelledEvent(e.StateEntered(state="S4")))
    run.pull()
    run.finish_tests()
    return run
