"""Several candidates of one change: which one lands, whatever the order of answers, crashes and failures of the others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as changed

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.memory.server import MemoryServer
from gatewright.bus.port import TASK_TOKEN_HEADER, Message
from gatewright.contracts.records import CommandRef
from gatewright.contracts.vocabulary import Budget
from gatewright.errors import DeniedError
from gatewright.rules.reviewing import not_independent
from gatewright.rules.shards import PARTS_OF_CANDIDATES, broken_by_candidates
from gatewright.run.choice import NONE_PASSED, best, standings, why_chosen
from gatewright.run.events import AnswerIgnored, CandidateChosen, FixOrdered, RunEvent, event_of
from gatewright.run.evolve import fold
from gatewright.run.state import Run
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.decider.inputs import RoleReplied
from gatewright.services.gatekeeper.dispatch.task_tokens import check_held, task_token
from gatewright.work_documents.candidates import cells_of, rows_of
from tests.gatekeeper.candidate_run import GOOD, MAKERS, CandidateRun, Maker
from tests.gatekeeper.simulated_run import RUN_ID, Script

ANY_MAKERS = st.lists(st.sampled_from(MAKERS), min_size=2, max_size=4).map(tuple)


def run_of(*makers: Maker, retries: int = 0, budget: Budget | None = None) -> CandidateRun:
    """The world of a run with these makers, at its end."""
    world = CandidateRun(Script(retries=retries), makers=makers, budget=budget)
    world.deliver_all()
    return world


def ended(world: CandidateRun) -> Run:
    assert world.run is not None
    assert world.run.ended
    return world.run


def told(world: CandidateRun) -> list[RunEvent]:
    return [event_of(record) for transition in world.transitions for record in transition.events]


def outcome(world: CandidateRun) -> tuple[object, ...]:
    """What a run has come to, without what depends on order: times, numbers and hashes."""
    run = ended(world)
    statuses = {task_id: task.status for task_id, task in run.tasks.items()}
    choices = [each for each in told(world) if isinstance(each, CandidateChosen)]
    return run.state, run.attempt, run.chosen, run.failure, statuses, choices, run.landed


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (Maker("1", findings=1, lines=1, cost_usd=0.1), Maker("2", findings=0, lines=9, cost_usd=0.9)),
        (Maker("1", lines=9, cost_usd=0.1), Maker("2", lines=8, cost_usd=0.9)),
        (Maker("1", tokens=1, unpriced=True), Maker("2", cost_usd=0.9, tokens=9)),
        (Maker("1", cost_usd=0.2, tokens=1), Maker("2", cost_usd=0.1, tokens=9)),
        (Maker("1", tokens=2), Maker("2", tokens=1)),
        (Maker("1", broken="executor_failed: exit 2", lines=1), Maker("2", findings=5, lines=500, cost_usd=9.0)),
        (Maker("1", tests_fail_until=9, lines=1), Maker("2", lines=9)),
    ],
    ids=["findings", "lines", "unknown_price", "dollars", "tokens", "a_change_at_all", "tests"],
)
def test_the_best_by_the_rule_lands_whatever_its_number(worse: Maker, better: Maker) -> None:
    assert ended(run_of(worse, better)).chosen == 2
    assert ended(run_of(better, worse)).chosen == 1


def test_of_equals_the_first_lands() -> None:
    run = ended(run_of(GOOD, GOOD, GOOD))
    assert (run.status, run.chosen) == ("SUCCESS", 1)
    assert run.landed is not None
    assert run.landed.tree == "1" * 40


def test_an_unknown_cost_stays_unknown_in_record_and_table() -> None:
    world = run_of(Maker("a", tokens=7, unpriced=True), Maker("b", cost_usd=0.5, tokens=9))
    run = ended(world)
    (choice,) = [each for each in told(world) if isinstance(each, CandidateChosen)]
    assert [(each.candidate, each.cost_usd) for each in choice.standings] == [(2, 0.5), (1, None)]
    assert why_chosen(choice.standings) == "a known cost, which candidate 1 does not have"
    first, second = rows_of(run, ())
    assert (first.cost_usd, second.cost_usd) == (None, 0.5)
    assert (cells_of(first)[5], cells_of(second)[5]) == ("unknown price, 7 tokens", "0.5 USD, 9 tokens")


def test_the_choice_names_every_candidate_with_its_facts() -> None:
    world = run_of(Maker("a", lines=7, cost_usd=0.5, tokens=3, findings=2), Maker("b", broken="no_change: nothing"), GOOD)
    (choice,) = [each for each in told(world) if isinstance(each, CandidateChosen)]
    assert [(each.candidate, each.outcome) for each in choice.standings] == [(3, "passed"), (1, "passed"), (2, "no_change")]
    first = choice.standings[1]
    assert (first.findings, first.changed_lines, first.cost_usd, first.tokens) == (2, 7, 0.5, 3)
    assert choice.standings == standings(ended(world))
    assert best(choice.standings) == choice.candidate == 3


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(makers=ANY_MAKERS, retries=st.integers(0, 1), data=st.data())
def test_order_repetitions_and_crashes_change_nothing(makers: tuple[Maker, ...], retries: int, data: st.DataObject) -> None:
    expected = outcome(run_of(*makers, retries=retries))
    world = CandidateRun(Script(retries=retries), makers=makers)
    for _ in range(200):
        if not world.under_way:
            break
        item = world.under_way.pop(data.draw(st.integers(0, len(world.under_way) - 1)))
        if data.draw(st.booleans()):
            world.deliver(item, crash_after_append=True)
            world.under_way.append(item)
        else:
            world.deliver(item)
            if data.draw(st.booleans()):
                world.deliver(item)
    assert outcome(world) == expected


@pytest.mark.parametrize("makers", [(GOOD, MAKERS[1]), (MAKERS[-1], MAKERS[8], MAKERS[2])], ids=["chosen", "fixed"])
def test_a_gatekeeper_restarted_after_any_transition_reaches_the_same_end(makers: tuple[Maker, ...]) -> None:
    first = run_of(*makers, retries=1)
    for length in range(1, len(first.transitions)):
        world = CandidateRun(Script(retries=1), makers=makers)
        world.transitions, world.under_way = list(first.transitions[:length]), []
        run = world.run = fold(world.transitions)
        assert run is not None
        for task in run.tasks.values():
            if task.status == "RUNNING":
                command = CommandRef(role=task.role, pool=task.pool, task_id=task.task_id)
                world.under_way.append(world._work(run, command))
        world.deliver(first.delivered[-1])
        world.deliver_all()
        assert outcome(world) == outcome(first), length


def test_others_go_on_when_one_fails_and_it_is_judged_no_further() -> None:
    world = run_of(*MAKERS[2:8], GOOD)
    run = ended(world)
    assert (run.status, run.chosen) == ("SUCCESS", 7)
    judged = {task.task_id.removeprefix(f"{RUN_ID}.") for task in run.tasks.values() if task.role in {"reviewer", "testrunner"}}
    assert judged == {"review.c5.a1", "review.c6.a1", "review.c7.a1", "test.c7.a1"}
    failures = {number: state.failure for number, state in run.candidates.items()}
    assert failures == {
        1: "executor_failed",
        2: "attempts_exhausted",
        3: "path_out_of_scope",
        4: "empty_diff",
        5: "attempts_exhausted",
        6: "review_failed",
        7: "",
    }


def test_a_run_without_a_passing_candidate_explains_each_failure() -> None:
    run = ended(run_of(MAKERS[2], MAKERS[8], MAKERS[4]))
    assert run.failure is not None
    assert (run.status, run.failure.code, run.landed) == ("FAILED", NONE_PASSED, None)
    words = "candidate 1: executor_failed; candidate 2: tests_failed; candidate 3: path_out_of_scope"
    assert run.failure.message == words


def test_the_third_failed_round_of_candidates_escalates_to_a_person() -> None:
    run = ended(run_of(MAKERS[2], MAKERS[8], retries=5))
    assert run.failure is not None
    assert (run.status, run.failure.code, run.attempt) == ("FAILED", "escalated", 3)
    assert run.failure.message == "candidate 1: executor_failed; candidate 2: tests_failed"
    run = ended(run_of(MAKERS[2], MAKERS[8], retries=1))
    assert run.failure is not None
    assert (run.failure.code, run.attempt) == (NONE_PASSED, 2)


def test_a_further_round_serves_fixable_candidates_each_with_its_evidence() -> None:
    world = run_of(MAKERS[2], replace(MAKERS[-1], name="cured"), replace(MAKERS[7], name="criticised"), retries=1)
    run = ended(world)
    (order,) = [each for each in told(world) if isinstance(each, FixOrdered)]
    assert [contract.candidate for contract in order.contracts] == [2, 3]
    given = [[artifact.name for artifact in contract.inputs.artifacts] for contract in order.contracts]
    named = [next(name for name in names if name.startswith("failed.")) for names in given]
    assert named == ["failed.test_report.a1", "failed.review_report.a1"]
    assert [contract.executor.agent for contract in order.contracts if contract.executor] == ["agent-2", "agent-3"]
    assert (run.status, run.chosen, run.attempt) == ("SUCCESS", 2, 2)
    assert [task.task_id for task in run.workers()] == [f"{RUN_ID}.plan.w01.c2.a2"]


def test_gates_see_one_candidate_at_a_time_and_every_maker() -> None:
    world = run_of(Maker("a"), Maker("b"), Maker("c", broken="no_change: nothing"))
    seen = [question for question in world.asked if isinstance(question, q.ReviewCheck | q.TestsCheck | q.IntegratedCheck)]
    assert len(seen) == 6
    for question in seen:
        (worker,) = question.run.workers()
        assert {task.candidate for task in question.run.tasks.values()} == {0, worker.candidate}
        assert question.run.chosen == worker.candidate
    for question in seen:
        if isinstance(question, q.ReviewCheck):
            assert [task.candidate for task in question.makers] == [1, 2, 3]


def test_who_made_one_candidate_reviews_no_other() -> None:
    world = run_of(Maker("a"), Maker("b"))
    (question, *_) = [each for each in world.asked if isinstance(each, q.ReviewCheck)]
    other = replace_reviewer(question, "worker-2")
    assert [broken.code for broken in not_independent(other.report, other.makers)] == ["reviewer_not_independent"]
    assert not list(not_independent(question.report, question.makers))


def replace_reviewer(question: q.ReviewCheck, agent_id: str) -> q.ReviewCheck:
    reviewer = changed(question.report.reviewer, agent_id=agent_id)
    return replace(question, report=changed(question.report, reviewer=reviewer))


def test_candidates_share_the_budget_of_the_run() -> None:
    world = CandidateRun(Script(), makers=(GOOD, GOOD, GOOD), budget=Budget(tokens=100, cost_usd=1.0, iterations=9))
    while world.run is None or world.run.state != "S2":
        world.deliver(world.under_way.pop(0))
    shares = [task.contract.budget for task in world.run.workers() if task.contract is not None]
    assert sum(share.tokens or 0 for share in shares if share is not None) == 100
    assert sum(share.cost_usd or 0 for share in shares if share is not None) == pytest.approx(1.0)
    assert [share.iterations for share in shares if share is not None] == [3, 3, 3]


def test_what_all_candidates_used_together_ends_the_run() -> None:
    spender = Maker("spender", tokens=60)
    run = ended(run_of(spender, spender, budget=Budget(tokens=100)))
    assert run.failure is not None
    assert run.failure.code == "budget_exceeded"


def test_a_repeated_review_of_a_loser_is_no_news() -> None:
    world = CandidateRun(Script(), makers=(GOOD, MAKERS[1]))
    while world.under_way:
        item = world.under_way.pop(0)
        world.deliver(item)
        if isinstance(item, RoleReplied):
            world.deliver(item)
    assert not [each for each in told(world) if isinstance(each, AnswerIgnored)]
    assert ended(world).status == "SUCCESS"


def test_an_answer_for_another_candidate_needs_the_token_of_its_task() -> None:
    world = CandidateRun(Script(), makers=(GOOD, GOOD))
    while world.run is None or world.run.state != "S2":
        world.deliver(world.under_way.pop(0))
    bus, run = MemoryBus(MemoryServer()), world.run
    (first, second) = [item for item in world.under_way if isinstance(item, RoleReplied)]
    token = task_token(bus, RUN_ID, f"{RUN_ID}.plan.w01.c2")
    message = Message("gw.result.worker", b"", {TASK_TOKEN_HEADER: token})
    check_held(bus, run, second, message)
    with pytest.raises(DeniedError) as caught:
        check_held(bus, run, first, message)
    assert caught.value.reason == "task_not_held"


def test_a_plan_of_several_parts_has_no_candidates() -> None:
    for parts, codes in ((1, []), (2, [PARTS_OF_CANDIDATES])):
        world = CandidateRun(Script(shards=parts), makers=(GOOD, GOOD))
        world.deliver(world.under_way.pop(0))
        world.deliver(world.under_way.pop(0))
        (question,) = q.required_checks(world.run, world.under_way[0])
        assert isinstance(question, q.PlanCheck)
        assert [broken.code for broken in broken_by_candidates(question.plan, world.contract())] == codes
