"""The decider under every order of inputs: what a run becomes may not depend on the bus's luck."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from gatewright.contracts import AbortRequest, TaskContract
from gatewright.contracts.people.approvals import ApprovalRule
from gatewright.contracts.people.review_votes import ReviewQuorum
from gatewright.contracts.task_contract import TaskType
from gatewright.ledger import chain
from gatewright.run.events import RunFinished, event_of
from gatewright.run.evolve import fold
from gatewright.run.kinds import KINDS
from gatewright.run.state import Run
from gatewright.run.states import TERMINAL
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.decider.decide import decide
from gatewright.services.gatekeeper.decider.gate_checks import next_step, required_checks
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, DeadlineReached, RoleReplied
from tests.gatekeeper.simulated_run import NOW, RUN_ID, Script, SimulatedRun

SCRIPTS = st.builds(
    Script,
    shards=st.integers(1, 4),
    serial=st.booleans(),
    retries=st.integers(0, 3),
    from_contract=st.booleans(),
    review_fails_until=st.integers(0, 2),
    tests_fail_until=st.integers(0, 2),
    refused_shard=st.sampled_from([0, 0, 0, 1]),
    landing_refused=st.booleans(),
    lock_refusals=st.integers(0, 2),
    judging=st.sampled_from(["together", "in_turn"]),
    task_type=st.sampled_from(["IMPLEMENT", "IMPLEMENT", "PLAN", "REVIEW", "TEST"]),
    person=st.sampled_from(["", "", "approve", "reject"]),
)


def run_in_order(script: Script) -> SimulatedRun:
    world = SimulatedRun(script)
    finish(world)
    return world


def finish(world: SimulatedRun) -> None:
    """Deliver all that is under way, and the last input again while the run waits; bounded, so that a hang is a failure."""
    for _ in range(300):
        if world.run is not None and world.run.ended and not world.under_way:
            return
        world.deliver(world.under_way.pop(0) if world.under_way else world.delivered[-1])
    raise AssertionError("the run does not come to an end")


def outcome(run: Run | None) -> tuple[object, ...]:
    """What a run has come to, without what depends on order: times, numbers and hashes."""
    assert run is not None
    landed = run.landed.tree if run.landed else None
    # A test runner whose candidate the reviewer refused may have answered before that, or be at it still.
    last = [task for task in run.tasks.values() if task.attempt == run.attempt or task.role != "testrunner"]
    statuses = {task.task_id: task.status for task in last} if run.status == "SUCCESS" else {}
    return run.state, run.attempt, run.failure, landed, statuses, run.sealed is not None


def test_a_request_goes_through_every_state_once() -> None:
    world = run_in_order(Script())
    assert world.states == ["S0", "S1", "S2", "S3", "S4", "S6"]
    assert world.run is not None
    assert world.run.status == "SUCCESS"


@pytest.mark.parametrize("from_contract", [False, True])
@pytest.mark.parametrize(
    ("task_type", "states", "roles", "code"),
    [
        ("PLAN", ["S0", "S1", "S6"], {"techlead"}, "planned"),
        ("REVIEW", ["S0", "S1", "S3", "S6"], {"reviewer"}, "reviewed"),
        ("TEST", ["S0", "S1", "S4", "S6"], {"testrunner"}, "tested"),
    ],
)
def test_a_run_without_a_change_goes_through_its_own_line(
    task_type: TaskType, states: list[str], roles: set[str], code: str, from_contract: bool
) -> None:
    world = run_in_order(Script(task_type=task_type, from_contract=from_contract, judging="together", lock_refusals=1))
    assert world.states == states
    run = world.run
    assert run is not None
    assert {task.role for task in run.tasks.values()} - {"pm"} == roles
    assert (run.status, run.landed, run.locks, run.accepted.task_type) == ("SUCCESS", None, None, task_type)
    ends = [event for each in world.transitions for record in each.events if isinstance(event := event_of(record), RunFinished)]
    assert [end.code for end in ends] == [code]


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (Script(task_type="REVIEW", retries=2, review_fails_until=1), "review_failed"),
        (Script(task_type="TEST", retries=2, tests_fail_until=1), "tests_failed"),
    ],
)
def test_a_refused_run_without_a_change_gets_no_further_round(script: Script, code: str) -> None:
    run = run_in_order(script).run
    assert run is not None
    assert run.failure is not None
    assert (run.status, run.attempt, run.failure.code) == ("FAILED", 1, code)


def test_failed_tests_lead_to_a_new_contract_with_the_evidence_attached() -> None:
    world = run_in_order(Script(retries=2, tests_fail_until=1, shards=2))
    run = world.run
    assert run is not None
    assert world.states == ["S0", "S1", "S2", "S3", "S4", "S5", "S2", "S3", "S4", "S6"]
    fixed = run.tasks[f"{RUN_ID}.plan.w01.a2"].contract
    assert fixed is not None
    assert fixed.parent_task_id == f"{RUN_ID}.plan.w01"
    assert [artifact.name for artifact in fixed.inputs.artifacts] == ["failed.test_report.a1"]
    assert fixed.evidence_links == (fixed.inputs.artifacts[0].uri,)


def test_a_third_attempt_descends_from_the_second() -> None:
    run = run_in_order(Script(retries=2, review_fails_until=2)).run
    assert run is not None
    assert run.status == "SUCCESS"
    third = run.tasks[f"{RUN_ID}.plan.w01.a3"].contract
    assert third is not None
    assert third.parent_task_id == f"{RUN_ID}.plan.w01.a2"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (Script(tests_fail_until=1), "tests_failed"),
        (Script(review_fails_until=3, retries=2), "review_failed"),
        (Script(refused_shard=1, retries=2), "path_out_of_scope"),
        (Script(broken_shard=1, retries=2), "executor_failed"),
        (Script(landing_refused=True), "landing_conflict"),
    ],
)
def test_a_refused_run_fails_with_the_gate_s_reason(script: Script, code: str) -> None:
    run = run_in_order(script).run
    assert run is not None
    assert run.failure is not None
    assert (run.status, run.failure.code, run.landed) == ("FAILED", code, None)


def test_retries_are_bounded_by_the_contract() -> None:
    run = run_in_order(Script(retries=2, tests_fail_until=9)).run
    assert run is not None
    assert (run.status, run.attempt) == ("FAILED", 3)


def test_an_agents_next_round_receives_the_previous_patch_and_session() -> None:
    run = run_in_order(Script(asked=True, retries=2, tests_fail_until=2)).run
    assert run is not None
    assert run.status == "SUCCESS"
    first, third = run.tasks[f"{RUN_ID}.plan.w01"].result, run.tasks[f"{RUN_ID}.plan.w01.a3"].contract
    assert first is not None
    assert third is not None
    names = [artifact.name for artifact in third.inputs.artifacts]
    assert names == ["failed.test_report.a1", "failed.test_report.a2", "failed.patch.a2", "failed.session.a2"]
    assert third.inputs.artifacts[2].uri == first.git.patch


@pytest.mark.parametrize(("retries", "attempt", "code"), [(1, 2, "tests_failed"), (2, 3, "escalated"), (9, 3, "escalated")])
def test_an_agent_that_fails_three_times_is_escalated(retries: int, attempt: int, code: str) -> None:
    run = run_in_order(Script(asked=True, retries=retries, tests_fail_until=9)).run
    assert run is not None
    assert run.failure is not None
    assert (run.status, run.attempt, run.failure.code) == ("FAILED", attempt, code)
    assert (code == "escalated") == ("tests gate (tests_failed)" in run.failure.message)


def test_a_refusal_that_no_round_could_cure_is_not_escalated() -> None:
    run = run_in_order(Script(asked=True, retries=2, tests_fail_until=2, landing_refused=True)).run
    assert run is not None
    assert run.failure is not None
    assert (run.attempt, run.failure.code) == (3, "landing_conflict")


def test_serial_batches_are_dispatched_one_after_another() -> None:
    world = SimulatedRun(Script(shards=3, serial=True))
    most = 0
    while world.under_way:
        workers = [i for i in world.under_way if isinstance(i, RoleReplied) and i.role == "worker"]
        most = max(most, len(workers))
        world.deliver(world.under_way.pop(0))
    assert most == 1
    assert world.run is not None
    assert world.run.status == "SUCCESS"


def test_a_missing_verdict_fails_closed() -> None:
    world = SimulatedRun(Script())
    world.deliver(world.under_way.pop(0))
    item = world.under_way.pop(0)
    transition = decide(world.run, item, [], NOW)
    assert transition is not None
    run = fold([transition], world.run)
    assert run is not None
    assert run.failure is not None
    assert run.failure.code == "gate_not_evaluated"


def test_waiting_for_locks_is_recorded_once() -> None:
    world = run_in_order(Script(lock_refusals=3))
    waits = [event for t in world.transitions for event in t.events if event.event_type == "locks_waiting"]
    assert len(waits) == 1
    assert world.run is not None
    assert world.run.status == "SUCCESS"


def run_until(script: Script, *roles: str) -> SimulatedRun:
    """A run that comes to be judged, in which the answers of ``roles`` come first, in this order."""
    world = SimulatedRun(script)
    while world.run is None or world.run.state != "S3":
        world.deliver(world.under_way.pop(0))
    for role in roles:
        world.deliver(next(item for item in world.under_way if isinstance(item, RoleReplied) and item.role == role))
    return world


def test_one_candidate_is_reviewed_and_tested_at_the_same_time() -> None:
    world = run_until(Script(judging="together"))
    assert [item.role for item in world.under_way if isinstance(item, RoleReplied)] == ["reviewer", "testrunner"]
    assert [item.role for item in run_until(Script()).under_way if isinstance(item, RoleReplied)] == ["reviewer"]


@pytest.mark.parametrize("first", [("reviewer", "testrunner"), ("testrunner", "reviewer")])
def test_early_answers_are_judged_in_the_order_of_the_states(first: tuple[str, str]) -> None:
    world = run_until(Script(judging="together"), *first)
    judged = [
        record.payload["state"] if record.event_type == "state_entered" else record.payload["report"]["gate"]
        for transition in world.transitions
        for record in transition.events
        if record.event_type in {"state_entered", "gate_judged"}
    ]
    assert judged[judged.index("S3") :] == ["S3", "reviewer", "S4", "tests", "landing", "S6"]


def test_failed_tests_wait_for_the_review_and_count_then() -> None:
    world = run_until(Script(judging="together", retries=1, tests_fail_until=1), "testrunner")
    assert world.run is not None
    assert (world.run.state, world.run.attempt) == ("S3", 1)
    finish(world)
    assert world.states == ["S0", "S1", "S2", "S3", "S4", "S5", "S2", "S3", "S4", "S6"]


def test_a_refused_review_counts_though_the_tests_failed_too() -> None:
    for first in (("testrunner", "reviewer"), ("reviewer", "testrunner")):
        run = run_until(Script(judging="together", review_fails_until=1, tests_fail_until=1), *first).run
        assert run is not None
        assert run.failure is not None
        assert run.failure.code == "review_failed"


def test_test_results_of_a_refused_change_do_not_carry_over() -> None:
    world = run_until(Script(judging="together", retries=1, review_fails_until=1), "reviewer")
    stale = next(item for item in world.under_way if isinstance(item, RoleReplied) and item.role == "testrunner")
    while world.run is None or (world.run.state, world.run.attempt) != ("S3", 2):
        world.deliver(next(item for item in world.under_way if item is not stale and item not in world.delivered))
    world.deliver(stale)
    assert world.run.tests is None
    assert world.run.tasks[f"{RUN_ID}.test.a1"].status == "FAILED"
    assert world.run.tasks[f"{RUN_ID}.test.a2"].status == "RUNNING"
    finish(world)
    assert world.states[-1] == "S6"


def test_a_test_report_without_its_verdict_fails_closed() -> None:
    world = run_until(Script(judging="together"), "testrunner")
    review = next(item for item in world.under_way if isinstance(item, RoleReplied) and item.role == "reviewer")
    (passed, _) = [world._answer(question) for question in required_checks(world.run, review)]
    transition = decide(world.run, review, [passed], NOW)
    assert transition is not None
    run = fold([transition], world.run)
    assert run is not None
    assert run.failure is not None
    assert run.failure.code == "gate_not_evaluated"


def test_an_answer_of_a_stale_attempt_is_ignored() -> None:
    world = SimulatedRun(Script(retries=1, tests_fail_until=1, shards=2))
    stale: RoleReplied | None = None
    while world.under_way:
        item = world.under_way.pop(0)
        if isinstance(item, RoleReplied) and item.role == "worker" and stale is None:
            stale = item
        world.deliver(item)
        if stale is not None and world.run is not None and world.run.attempt == 2:
            before = len(world.transitions)
            world.deliver(stale)
            assert len(world.transitions) == before
    assert world.run is not None
    assert world.run.status == "SUCCESS"


class AnyOrder(RuleBasedStateMachine):
    """Answers arrive in any order, twice, late, or to a gatekeeper that has just crashed; the end is always the same."""

    def __init__(self) -> None:
        super().__init__()
        self.world: SimulatedRun | None = None
        self.aborted = False

    @precondition(lambda self: self.world is None)
    @rule(script=SCRIPTS)
    def begin(self, script: Script) -> None:
        self.world = SimulatedRun(script)
        self.expected = outcome(run_in_order(script).run)

    @precondition(lambda self: self.world is not None and self.world.under_way)
    @rule(data=st.data(), crash=st.booleans(), keep=st.booleans())
    def deliver(self, data: st.DataObject, crash: bool, keep: bool) -> None:
        assert self.world is not None
        index = data.draw(st.integers(0, len(self.world.under_way) - 1))
        item = self.world.under_way[index]
        if not keep and not crash:
            del self.world.under_way[index]
        self.world.deliver(item, crash_after_append=crash)

    @precondition(lambda self: self.world is not None and self.world.delivered)
    @rule(data=st.data())
    def deliver_again(self, data: st.DataObject) -> None:
        assert self.world is not None
        self.world.deliver(data.draw(st.sampled_from(self.world.delivered)))

    @precondition(lambda self: self.world is not None and self.world.run is not None and not self.world.run.ended)
    @rule(chance=st.integers(0, 9))
    def abort(self, chance: int) -> None:
        assert self.world is not None
        if chance == 0:
            request = AbortRequest(run_id=RUN_ID, reason="enough", requested_by="tests")
            # While a ref may be moving at this moment, an abort comes too late.
            self.aborted = self.aborted or (self.world.run is not None and next_step(self.world.run) != "land")
            self.world.deliver(AbortReceived(request, "abort"))

    @invariant()
    def no_state_is_skipped(self) -> None:
        for before, after in pairwise(self.world.states if self.world else []):
            successors = KINDS[self.world.script.task_type].successors if self.world else {}
            assert after in (*successors[before], "FAILED", "ABORTED")  # type: ignore[index]  # names of states, as strings

    @invariant()
    def the_chain_holds_and_the_end_absorbs(self) -> None:
        if self.world is None:
            return
        ends = [state for state in self.world.states if state in TERMINAL]
        assert len(ends) <= 1
        assert [t.number for t in self.world.transitions] == list(range(1, len(self.world.transitions) + 1))

    def teardown(self) -> None:
        if self.world is None:
            return
        finish(self.world)
        run = self.world.run
        chain.check(event for transition in self.world.transitions for event in transition.events)
        assert run == fold(self.world.transitions)
        if self.aborted:
            assert run is not None
            assert run.status == "ABORTED"
        else:
            assert outcome(run) == self.expected


AnyOrder.TestCase.settings = settings(
    max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyOrder = pytest.mark.short(AnyOrder.TestCase)


class AnyOrderAtLength(AnyOrder):
    """The same, of many more."""


AnyOrderAtLength.TestCase.settings = settings(AnyOrder.TestCase.settings, max_examples=60)
TestAnyOrderAtLength = pytest.mark.long(AnyOrderAtLength.TestCase)


@given(script=SCRIPTS)
@settings(max_examples=50, deadline=None)
def test_nothing_is_asked_and_nothing_changes_after_the_end(script: Script) -> None:
    world = run_in_order(script)
    length = len(world.transitions)
    for item in list(world.delivered):
        assert required_checks(world.run, item) == ()
        world.deliver(item)
    assert len(world.transitions) == length


def test_a_refused_result_is_kept_and_its_task_failed() -> None:
    run = run_in_order(Script(refused_shard=1)).run
    assert run is not None
    task = run.tasks[f"{RUN_ID}.plan.w01"]
    assert (task.status, task.tree) == ("FAILED", "")
    assert task.result is not None


@dataclass
class AskingRun(SimulatedRun):
    """A run whose policy asks about network access, which its contract wants."""

    autopilot: bool = False

    def contract(self) -> TaskContract:
        wanted = super().contract()
        return replace(wanted, tool_permissions=replace(wanted.tool_permissions, network="allow"))

    def _answer(self, question: q.GateCheck) -> q.Verdict:
        verdict = super()._answer(question)
        asks = {"name": "net", "reason": "network", "risk": "low", "approvers": ("ana",)}
        rule = ApprovalRule(**asks, within_seconds=60, yourself=True, autopilot=self.autopilot)  # type: ignore[arg-type]
        return dataclasses.replace(verdict, approval_rules=(rule,)) if isinstance(verdict, q.IntakeVerdict) else verdict


@dataclass
class VotedReview(SimulatedRun):
    """A run of commits under review, about whose result people vote by quorum: the script's number of them is seen in time."""

    reason: str = "review"

    def _answer(self, question: q.GateCheck) -> q.Verdict:
        verdict = super()._answer(question)
        asks = {"name": "people", "reason": self.reason, "risk": "medium", "approvers": ("ana",), "within_seconds": 60}
        quorum = ReviewQuorum(domain=("ana",), quality=("ana",)) if self.reason == "review" else None
        rule = ApprovalRule(**asks, yourself=self.reason != "review", quorum=quorum)  # type: ignore[arg-type]
        known = {"approval_rules": (rule,), "orderers": ("ben",)}
        return dataclasses.replace(verdict, **known) if isinstance(verdict, q.IntakeVerdict) else verdict  # type: ignore[arg-type]


def code_after_the_deadline(run: Run) -> str:
    late = decide(run, DeadlineReached("time"), [], NOW + timedelta(hours=1))
    assert late is not None
    ended = fold([late], run)
    assert ended is not None
    assert ended.failure is not None
    return ended.failure.code


@pytest.mark.parametrize("from_contract", [True, False])
def test_a_review_does_not_pass_before_people_voted(from_contract: bool) -> None:
    world = VotedReview(Script(task_type="REVIEW", from_contract=from_contract))
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    run = world.run
    assert run is not None
    assert (run.state, run.parked_from, [asked.status for asked in run.approvals.values()]) == (
        "AWAITING_APPROVAL", "S3", ["pending"]
    )  # fmt: skip
    assert [asked.request.on_yes for asked in run.approvals.values()] == ["the review passes, and nothing lands"]
    assert code_after_the_deadline(run) == "approval_expired"


@pytest.mark.parametrize(
    ("person", "states"),
    [
        ("approve", ["S0", "S1", "S3", "AWAITING_APPROVAL", "S3", "S6"]),
        ("reject", ["S0", "S1", "S3", "AWAITING_APPROVAL", "FAILED"]),
    ],
)
def test_a_persons_answer_decides_a_review(person: Literal["approve", "reject"], states: list[str]) -> None:
    assert run_in_order(Script(task_type="REVIEW", person=person)).states == states


@pytest.mark.parametrize("reason", ["landing", "protected_class", "proof"])
def test_a_review_asks_no_person_about_landings(reason: str) -> None:
    world = VotedReview(Script(task_type="REVIEW"), reason=reason)
    finish(world)
    assert world.run is not None
    assert (world.run.status, world.run.approvals) == ("SUCCESS", {})


@pytest.mark.parametrize("task_type", ["REVIEW", "TEST"])
def test_a_person_is_asked_before_commits_are_examined(task_type: TaskType) -> None:
    world = AskingRun(Script(task_type=task_type, from_contract=True))
    world.deliver(world.under_way.pop(0))
    run = world.run
    assert run is not None
    assert (run.state, run.parked_from, run.tasks, run.candidate) == ("AWAITING_APPROVAL", "S1", {}, None)
    assert code_after_the_deadline(run) == "approval_expired"


def test_a_rule_that_approves_by_itself_lets_a_test_run_go_on() -> None:
    world = AskingRun(Script(task_type="TEST", from_contract=True), autopilot=True)
    finish(world)
    assert world.states == ["S0", "S1", "S4", "S6"]
    assert world.run is not None
    assert [asked.status for asked in world.run.approvals.values()] == ["autopilot"]


def test_a_plan_asks_no_person() -> None:
    world = AskingRun(Script(task_type="PLAN", from_contract=True))
    finish(world)
    assert world.run is not None
    assert (world.run.status, world.run.approvals) == ("SUCCESS", {})
