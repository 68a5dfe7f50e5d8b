"""What the real decider writes is never called a contradiction: honest runs of every kind, by the rules of ``verify``."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace

from gatewright.contracts import AbortRequest, Transition
from gatewright.contracts.records import OrchestratorEvent
from gatewright.contracts.task_contract import TaskType
from gatewright.contracts.vocabulary import Budget, Usage
from gatewright.errors import MalformedError
from gatewright.evidence.projection.history import ended_history, evidence_records
from gatewright.evidence.verification.consistency.check import CHECKS
from gatewright.evidence.verification.consistency.replayed_run import replay_history
from gatewright.run.events import GateJudged, event_of
from gatewright.run.evolve import fold
from gatewright.run.kinds import KINDS
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider.decide import decide
from gatewright.services.gatekeeper.decider.inputs import AbortReceived, DeadlineReached, Input
from tests.gatekeeper.budgeted_run import BudgetedRun, make_usage
from tests.gatekeeper.candidate_run import MAKERS, CandidateRun, Maker
from tests.gatekeeper.simulated_run import ASKING, NOW, RUN_ID, Script, SimulatedRun

#: What follows from the decider alone; documents of the simulated roles and gates are shorter than real ones.
DECIDED = frozenset(
    {
        "out_of_turn",
        "time_reversed",
        "role_contradicts",
        "label_contradicts",
        "gate_missing",
        "gate_ignored",
        "rounds_contradict",
    }
    | {"choice_contradicts", "budget_contradicts", "end_contradicts", "task_contradicts", "locks_contradict", "run_contradicts"}
)
ABORT = AbortReceived(AbortRequest(run_id=RUN_ID, reason="changed my mind", requested_by="tests"), "abort")
SCRIPTS = [
    Script(
        shards=shards,
        serial=serial,
        retries=retries,
        from_contract=from_contract,
        review_fails_until=review,
        tests_fail_until=tests,
        refused_shard=refused,
        broken_shard=broken,
        landing_refused=landing,
        judging=judging,
    )
    for judging in ("in_turn", "together")
    for shards, serial, retries, from_contract in itertools.product((1, 3), (False, True), (0, 2), (False, True))
    for review, tests, refused, broken, landing in (
        *((0, 0, 0, 0, False), (1, 0, 0, 0, False), (0, 1, 0, 0, False), (1, 2, 0, 0, False)),
        *((3, 0, 0, 0, False), (0, 3, 0, 0, False), (0, 0, 1, 0, False), (0, 0, 0, 1, False), (0, 0, 0, 0, True)),
    )
]


OTHER_KINDS = [
    Script(task_type=task_type, from_contract=from_contract, shards=2, review_fails_until=fails, tests_fail_until=fails)
    for task_type in get_args(TaskType)
    if task_type != "IMPLEMENT"
    for from_contract in (False, True)
    for fails in (0, 1)
]


def contradictions(run: Run | None, transitions: list[Transition], codes: frozenset[str] = DECIDED) -> set[tuple[str, str]]:
    assert run is not None
    assert run.ended
    telling = replay_history(ended_history(run, evidence_records(transitions)), b"", {})
    found = (each for check in CHECKS for each in check(telling))
    return {(each.code, each.message) for each in found if each.code in codes}


@pytest.mark.parametrize(
    "script",
    [*SCRIPTS, *OTHER_KINDS, *(Script(asked=True, retries=retries, tests_fail_until=9) for retries in (1, 2, 5))],
    ids=str,
)
def test_run_to_its_end_contradicts_nothing(script: Script) -> None:
    world = SimulatedRun(script)
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    assert contradictions(world.run, world.transitions) == set()


@pytest.mark.parametrize("script", [script for script in SCRIPTS if script.judging == "together"], ids=str)
def test_run_whose_last_answers_come_first_contradicts_nothing(script: Script) -> None:
    world = SimulatedRun(script)
    while world.under_way:
        world.deliver(world.under_way.pop())
    assert contradictions(world.run, world.transitions) == set()


def test_a_test_runner_that_was_asked_too_early_is_out_of_turn() -> None:
    world = SimulatedRun(Script(judging="together"))
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    first, *others = world.transitions
    accepted = replace(first.events[0], payload={**first.events[0].payload, "judging": "in_turn"})
    told = [replace(first, events=(accepted, *first.events[1:])), *others]
    assert "out_of_turn" in {code for code, _ in contradictions(fold(told), told)}


@pytest.mark.parametrize("task_type", ["PLAN", "REVIEW", "TEST"])
def test_a_run_that_ended_without_its_last_gate_contradicts_itself(task_type: TaskType) -> None:
    world = SimulatedRun(Script(task_type=task_type))
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    changed = []
    for each in world.transitions:
        kept = tuple(record for record in each.events if not is_verdict(record, task_type))
        changed.append(replace(each, events=kept))
    assert "gate_missing" in {code for code, _ in contradictions(fold(changed), changed)}


def test_a_review_that_passed_without_its_people_contradicts_itself() -> None:
    world = SimulatedRun(Script(task_type="REVIEW"))
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    first, *others = world.transitions
    asking = {**first.events[0].payload, "approval_rules": [msgspec.to_builtins(ASKING)]}
    changed = [replace(first, events=(replace(first.events[0], payload=asking), *first.events[1:])), *others]
    assert contradictions(fold(changed), changed, frozenset({"approval_contradicts"}))


def is_verdict(record: OrchestratorEvent, task_type: TaskType) -> bool:
    """Whether an event is the verdict with which a run of this kind ends."""
    event = event_of(record)
    return isinstance(event, GateJudged) and event.report.gate == KINDS[task_type].gate


@pytest.mark.parametrize(("claimed", "ran"), [("REVIEW", "IMPLEMENT"), ("PLAN", "TEST"), ("IMPLEMENT", "REVIEW")])
def test_a_run_that_claims_another_kind_contradicts_itself(claimed: TaskType, ran: TaskType) -> None:
    world = SimulatedRun(Script(task_type=ran))
    while world.under_way:
        world.deliver(world.under_way.pop(0))
    first, *others = world.transitions
    accepted = replace(first.events[0], payload={**first.events[0].payload, "task_type": claimed})
    changed = [replace(first, events=(accepted, *first.events[1:])), *others]
    with pytest.raises(MalformedError, match="may not follow"):
        contradictions(fold(changed), changed)


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize(("first", "second"), list(itertools.product(MAKERS, repeat=2)), ids=lambda maker: maker.name)
def test_run_with_candidates_contradicts_nothing(first: Maker, second: Maker, retries: int) -> None:
    world = CandidateRun(Script(retries=retries), makers=(first, second))
    world.deliver_all()
    assert contradictions(world.run, world.transitions) == set()


@pytest.mark.parametrize("how", [ABORT], ids=["aborted"])
@pytest.mark.parametrize("after", range(1, 9))
def test_run_that_is_ended_anywhere_contradicts_nothing(how: Input, after: int) -> None:
    world = SimulatedRun(Script(shards=2, retries=1, review_fails_until=1))
    for _ in range(after):
        world.deliver(world.under_way.pop(0))
    world.deliver(how)
    assert contradictions(world.run, world.transitions) == set()


@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize(
    ("budget", "usage"),
    [
        (Budget(tokens=10), make_usage(tokens=11)),
        (Budget(cost_usd=1.0), make_usage(cost_usd=2.0)),
        (Budget(iterations=1), make_usage(iterations=5)),
        (Budget(iterations=2), make_usage(iterations=1)),
        (Budget(wall_sec=3.0), make_usage()),
        (Budget(tokens=100, wall_sec=1000), make_usage(tokens=5)),
    ],
)
def test_run_with_a_budget_contradicts_nothing(budget: Budget, usage: Usage, retries: int) -> None:
    script = Script(shards=2, retries=retries, tests_fail_until=1)
    world = BudgetedRun(script, budget=budget, used={f"{RUN_ID}.plan.w01": usage})
    world.deliver_all()
    if not world.opened.ended:
        world.at(NOW + timedelta(hours=2))
    assert contradictions(world.run, world.transitions) == set()


def test_replica_whose_clock_is_behind_writes_no_time_that_goes_back() -> None:
    world = SimulatedRun(Script())
    world.deliver(world.under_way.pop(0))
    assert world.run is not None
    transition = decide(world.run, ABORT, [], NOW - timedelta(hours=1))
    assert transition is not None
    assert {record.ts for record in transition.events} == {world.run.at}
    assert decide(world.run, DeadlineReached("time"), [], NOW) is None
