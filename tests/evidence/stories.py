"""The stories: for each the honest run that it is made of, what is changed, and how the verification names it."""

from __future__ import annotations

from msgspec.structs import replace as changed

from gatewright.contracts.reports import Finding, Remark, RuleOutcome, TestCounts
from gatewright.contracts.vocabulary import Agent, Budget, Usage
from gatewright.run import events as e
from tests.evidence.contradictions import (
    OTHER_COMMIT,
    OTHER_RUN,
    OTHER_TESTS,
    OTHER_TREE,
    VIOLATION,
    Story,
    all_mutants,
    as_told,
    commands,
    contract,
    everywhere,
    evidence,
    first_command,
    first_proof,
    first_shard,
    gate,
    insert,
    label,
    later,
    leave_out,
    listing,
    plan,
    refused,
    report,
    result,
    review_refused,
    rounds,
    spent,
    swap,
    task,
    tests_refused,
    to_end,
    without,
)
from tests.evidence.recorded_runs import MUTANTS, NAMES, make_aborted, make_failed, make_fixed, make_success

GIVEN = Agent(role="WORKER", agent_id="worker-1")
BLOCKING = Finding(code="tests_weakened", message="a test was deleted", blocking=True)
BUDGET = Budget(tokens=10)
CI = "ci/run-a31d0eeaa8061bb92728.test.a1.json"
REVIEW = "reviews/run-a31d0eeaa8061bb92728.review.a1.json"
PLAN = "results/run-a31d0eeaa8061bb92728.plan/plan.json"
RESULT = "results/run-a31d0eeaa8061bb92728.plan.w02/result.json"
LANDED = "git/landed.json"
EVENTS = "events.jsonl"
CONTRACT = "contract.json"
CANDIDATE = "git/candidate_tree.txt"
DONE = "reports/completion_report.json"
LEFT_OUT = changed(MUTANTS, mutants=MUTANTS.mutants[:1])

STORIES: dict[str, Story] = {
    # what the tests say
    "a test that must pass ended with 1": Story(make_success, first_command(exit_code=1), "tests_failed", CI, "reports/gates/"),
    "a test was killed at its time limit": Story(make_success, first_command(timed_out=True), "tests_failed", CI),
    "a test was killed at its memory limit": Story(make_success, first_command(stopped="memory"), "tests_failed", CI),
    "another command than the contract's": Story(
        make_success, first_command(cmd_argv=("true",)), "tests_incomplete", CI, CONTRACT
    ),
    "a command that need not pass": Story(make_success, first_command(must_pass=False), "tests_incomplete", CI, CONTRACT),
    "a command was left out": Story(make_success, commands(lambda given: given[:1]), "tests_incomplete", CI, CONTRACT),
    "a command too many": Story(make_success, commands(lambda given: (*given, given[0])), "tests_incomplete", CI, CONTRACT),
    "commands in another order": Story(make_success, commands(lambda given: given[::-1]), "tests_incomplete", CI, CONTRACT),
    "tests that were never told to their end": Story(make_success, first_proof(complete=False), "report_missing", CI),
    "no test that passed": Story(
        make_success, first_proof(counts=TestCounts(passed=0, failed=0, skipped=3)), "tests_none", CI, "reports/gates/"
    ),
    "a test that failed, and yet the command succeeded": Story(
        make_success, first_proof(counts=TestCounts(passed=2, failed=1, skipped=0)), "report_missing", CI
    ),
    "no negative control": Story(make_success, first_proof(control=None), "tests_not_alive", CI),
    "a lost test that no contract opened": Story(
        make_success, first_proof(lost_count=1, lost=("a.py::test_old",), collected_before=3), "tests_lost", CI
    ),
    "a lost test that is not named": Story(make_success, first_proof(lost_count=1, collected_before=3), "report_missing", CI),
    "more tests before than there can have been": Story(
        make_success, first_proof(lost_count=1, lost=("a.py::test_old",)), "report_missing", CI
    ),
    "more new tests than there are": Story(make_success, first_proof(new_count=4), "report_missing", CI),
    "more tests that are newly skipped than are skipped": Story(
        make_success, first_proof(newly_skipped=("a.py::test_b", "a.py::test_c")), "report_missing", CI
    ),
    "more tests than the table has": Story(
        make_success,
        first_proof(counts=TestCounts(passed=830, failed=0, skipped=1), collected_before=830),
        "tests_contradict",
        CI,
        "ci/run-a31d0eeaa8061bb92728.test.a1/01-tests.log",
    ),
    "tests that passed, and were skipped by the table": Story(
        make_success, first_proof(counts=TestCounts(passed=3, failed=0, skipped=0)), "tests_contradict", CI
    ),
    "modules that came from elsewhere": Story(
        make_success, first_proof(shadowed=("shop -> /srv/shop.py",)), "environment_shadows_candidate", CI
    ),
    "a survivor that is left out": Story(make_success, first_proof(mutation=LEFT_OUT), "report_contradicts", CI),
    "a survivor that is left out with its figures": Story(
        make_success, first_proof(mutation=changed(LEFT_OUT, tried=1, possible=1)), "result_contradicts", CI, "reports/gates/"
    ),
    "a survivor that was killed": Story(
        make_success, first_proof(mutation=all_mutants("killed")), "result_contradicts", CI, "reports/gates/"
    ),
    "no mutants, where they were asked for": Story(make_success, first_proof(mutation=None), "tests_too_weak", CI),
    "more survivors than the policy lets pass": Story(
        make_success, first_proof(mutation=all_mutants("survived")), "tests_too_weak", CI
    ),
    "a test runner that was asked for no mutants": Story(
        make_success, task("testrunner", mutation=None), "task_contradicts", "tasks/", EVENTS
    ),
    "no command at all": Story(make_success, commands(lambda _: ()), "tests_incomplete", CI, CONTRACT),
    "a longer limit than the contract's": Story(
        make_success, first_command(timeout_sec=600.0), "tests_incomplete", CI, CONTRACT
    ),
    "a second run that is not allowed": Story(
        make_success,
        commands(lambda given: (changed(given[0], exit_code=1), changed(given[0], run=2), *given[1:])),
        "rerun_not_allowed",
        CI,
        CONTRACT,
    ),
    "a runner that reports FAIL": Story(make_success, report(e.TestsReceived, status="FAIL"), "tests_failed", CI),
    "a runner that could not run": Story(
        make_success, report(e.TestsReceived, status="ERROR", failure="tests_not_run: no sandbox"), "tests_not_run", CI
    ),
    "a summary that does not count": Story(
        make_success,
        swap(
            e.TestsReceived,
            lambda given: changed(given, report=changed(given.report, summary=changed(given.report.summary, passed=1))),
        ),
        "report_contradicts",
        CI,
    ),
    "tests of another tree": Story(make_success, report(e.TestsReceived, tree=OTHER_TREE), "tests_wrong_tree", CI, CANDIDATE),
    "tests by a worker": Story(make_success, report(e.TestsReceived, runner=GIVEN), "tests_not_run", CI),
    "tests that ended before they began": Story(
        make_success, report(e.TestsReceived, started_at="2026-01-02T03:04:16.000Z"), "report_contradicts", CI
    ),
    # what the review says
    "a review of another tree": Story(
        make_success, report(e.ReviewReceived, tree=OTHER_TREE), "reviewer_wrong_tree", REVIEW, CANDIDATE
    ),
    "a reviewer that implemented it": Story(
        make_success,
        report(e.ReviewReceived, reviewer=Agent(role="REVIEWER", agent_id="worker-1")),
        "reviewer_not_independent",
        REVIEW,
    ),
    "a reviewer that is none": Story(
        make_success, report(e.ReviewReceived, reviewer=GIVEN), "reviewer_not_independent", REVIEW
    ),
    "a review that failed": Story(make_success, report(e.ReviewReceived, verdict="FAIL"), "review_failed", REVIEW),
    "a review with a blocking finding": Story(
        make_success, report(e.ReviewReceived, findings=(BLOCKING,)), "review_failed", REVIEW
    ),
    "a review under another task": Story(make_success, report(e.ReviewReceived, task_id="run-x.review.a9"), "out_of_turn"),
    # what the gates say
    "a policy gate that refused": Story(make_success, refused("policy"), "gate_ignored", "reports/gates/", EVENTS),
    "a plan gate that refused": Story(make_success, refused("plan"), "gate_ignored", "reports/gates/", EVENTS),
    "a locks gate that refused": Story(make_success, refused("locks"), "gate_ignored", "reports/gates/", EVENTS),
    "a diff gate that refused": Story(make_success, refused("diff"), "gate_ignored", "reports/gates/", EVENTS),
    "an integrated gate that refused": Story(make_success, refused("integrated"), "gate_ignored", "reports/gates/", EVENTS),
    "a reviewer gate that refused": Story(
        make_success, refused("reviewer", "review_failed"), "gate_ignored", "reports/gates/", EVENTS
    ),
    "a tests gate that refused": Story(
        make_success, refused("tests", "tests_failed"), "gate_ignored", "reports/gates/", EVENTS
    ),
    "a landing gate that refused": Story(make_success, refused("landing"), "gate_ignored", "reports/gates/", EVENTS),
    "no gate report at all": Story(
        make_success, leave_out(lambda payload: isinstance(payload, e.GateJudged)), "gate_missing", CONTRACT, EVENTS
    ),
    "no policy gate": Story(make_success, without("policy"), "gate_missing", CONTRACT, EVENTS),
    "no plan gate": Story(make_success, without("plan"), "gate_missing", PLAN, EVENTS),
    "no locks gate": Story(make_success, without("locks"), "gate_missing", EVENTS, EVENTS),
    "no diff gate": Story(make_success, without("diff"), "gate_missing", "results/", EVENTS),
    "no integrated gate": Story(make_success, without("integrated"), "gate_missing", CANDIDATE, EVENTS),
    "no reviewer gate": Story(make_success, without("reviewer"), "gate_missing", "reports/review_report.json", EVENTS),
    "no tests gate": Story(make_success, without("tests"), "gate_missing", "reports/test_report.json", EVENTS),
    "no landing gate": Story(make_success, without("landing"), "gate_missing", LANDED, EVENTS),
    "a verdict PASS with a violation": Story(
        make_success, gate("plan", violations=(VIOLATION,)), "gate_contradicts", "reports/gates/"
    ),
    "a verdict PASS with a broken rule": Story(
        make_success, gate("plan", rules=(RuleOutcome(rule="disjoint", verdict="FAIL"),)), "gate_contradicts", "reports/gates/"
    ),
    "a remark by a rule that was not applied": Story(
        make_success,
        gate("plan", remarks=(Remark(rule="no rule", message="All is well."),)),
        "gate_contradicts",
        "reports/gates/",
    ),
    "a verdict FAIL without a violation": Story(make_failed, gate("diff", violations=()), "gate_contradicts", "reports/gates/"),
    "a tests gate that looked at another tree": Story(
        make_success,
        gate("tests", evidence=evidence("candidate_tree", OTHER_TREE)),
        "gate_contradicts",
        "reports/gates/",
        CANDIDATE,
    ),
    "a policy gate that looked at another baseline": Story(
        make_success,
        gate("policy", evidence=evidence("baseline_commit", OTHER_COMMIT)),
        "gate_contradicts",
        "reports/gates/",
        "git/baseline_commit.txt",
    ),
    "a landing gate that saw another commit": Story(
        make_success, gate("landing", evidence=evidence("commit", OTHER_COMMIT)), "gate_contradicts", "reports/gates/", LANDED
    ),
    "a verdict on another attempt": Story(make_success, gate("tests", attempt=2), "attempt_contradicts", "reports/gates/"),
    "a verdict that was given after it was recorded": Story(
        make_success, gate("tests", evaluated_at="2027-01-01T00:00:00.000Z"), "time_reversed", "reports/gates/", EVENTS
    ),
    "a refusal that the tests do not bear out": Story(tests_refused, as_told, "refusal_unfounded", "reports/gates/", CI),
    "a refusal that the review does not bear out": Story(
        review_refused, as_told, "refusal_unfounded", "reports/gates/", REVIEW
    ),
    # what landed, and how it ended
    "a landed tree that was not tested": Story(
        make_success, swap(e.Landed, lambda given: changed(given, tree=OTHER_TREE)), "landed_contradicts", LANDED, CANDIDATE
    ),
    "a landing on another ref": Story(
        make_success,
        swap(e.Landed, lambda given: changed(given, ref="refs/heads/main")),
        "landed_contradicts",
        LANDED,
        CONTRACT,
    ),
    "a landing of another mode": Story(
        make_success, swap(e.Landed, lambda given: changed(given, mode="target")), "landed_contradicts", LANDED, CONTRACT
    ),
    "a landing without a commit": Story(
        make_success, swap(e.Landed, lambda given: changed(given, commit="")), "landed_contradicts", LANDED, CONTRACT
    ),
    "a landing over something else": Story(
        make_success,
        swap(e.Landed, lambda given: changed(given, previous=OTHER_COMMIT)),
        "landed_contradicts",
        LANDED,
        CONTRACT,
    ),
    "a success without a landing": Story(
        make_success, leave_out(lambda payload: isinstance(payload, e.Landed)), "out_of_turn", EVENTS
    ),
    "a success that ended as failed": Story(
        make_success,
        swap(e.RunFinished, lambda given: changed(given, status="FAILED", code="tests_failed")),
        "end_contradicts",
        EVENTS,
    ),
    "a success with another code": Story(
        make_success, swap(e.RunFinished, lambda given: changed(given, code="tests_failed")), "end_contradicts", EVENTS
    ),
    "a failure that ended as success": Story(
        make_failed, swap(e.RunFinished, lambda given: changed(given, status="SUCCESS", code="ok")), "end_contradicts", EVENTS
    ),
    "a failure for another reason than its gate's": Story(
        make_failed, swap(e.RunFinished, lambda given: changed(given, code="repository_unavailable")), "end_contradicts", EVENTS
    ),
    "a failure for no reason": Story(to_end("FAILED", "tests_failed", "words"), as_told, "end_contradicts", EVENTS),
    "an abort that was not asked for": Story(to_end("ABORTED", "aborted", "words"), as_told, "end_contradicts", EVENTS),
    "a run that ended twice": Story(
        make_success,
        insert(e.RunFinished, e.RunFinished(status="SUCCESS", code="ok", message="again")),
        "end_contradicts",
        EVENTS,
    ),
    "a rule of the definition of done that was broken": Story(
        make_success,
        gate("landing", rules=(RuleOutcome(rule="completion.tests", verdict="FAIL", detail="unit did not pass"),)),
        "completion_contradicts",
        "manifest.json",
        DONE,
    ),
    "a definition of done that was not judged": Story(
        make_success, gate("landing", rules=()), "completion_contradicts", "manifest.json", DONE
    ),
    # order and time
    "a time that goes back": Story(make_success, later(e.CandidateComposed, -3600), "time_reversed", EVENTS, EVENTS),
    "a result that ended before it began": Story(
        make_success, result(finished_at="2025-01-01T00:00:00.000Z"), "result_contradicts", RESULT, "tasks/"
    ),
    "a result whose times are none": Story(
        make_success, result(finished_at="yesterday"), "result_contradicts", RESULT, "tasks/"
    ),
    "an event of another attempt": Story(make_success, label(e.Landed, attempt=2), "attempt_contradicts", EVENTS),
    "an event in the name of another role": Story(
        make_success, label(e.TestsReceived, role="worker"), "role_contradicts", EVENTS
    ),
    "tests under another task": Story(
        make_success, report(e.TestsReceived, task_id="run-x.test.a9"), "out_of_turn", "reports/test_report.json"
    ),
    "a worker that was given a task of no plan": Story(
        make_success,
        insert(e.LocksTaken, e.TaskDispatched(task_id="run-x.w99", role="worker", pool="default")),
        "out_of_turn",
        "tasks/",
    ),
    # who ordered what
    "a contract of wider paths than the request": Story(
        make_success, contract(allowed_paths=("src", "docs", "etc")), "contract_contradicts", CONTRACT, "request.json"
    ),
    "a contract of other tests than the request": Story(
        make_success,
        swap(
            e.ContractCompiled,
            lambda given: e.ContractCompiled(
                contract=changed(given.contract, acceptance_tests=(changed(given.contract.acceptance_tests[0], cmd="true"),))
            ),
        ),
        "contract_contradicts",
        CONTRACT,
        "request.json",
    ),
    "a contract of another baseline": Story(
        make_success,
        swap(
            e.ContractCompiled,
            lambda given: e.ContractCompiled(
                contract=changed(given.contract, rollback=changed(given.contract.rollback, baseline_ref=OTHER_COMMIT))
            ),
        ),
        "baseline_contradicts",
        "git/baseline_commit.txt",
        CONTRACT,
    ),
    "a run on another baseline than its request": Story(
        make_success,
        swap(e.RunAccepted, lambda given: changed(given, baseline_commit=OTHER_COMMIT)),
        "baseline_contradicts",
        "git/baseline_commit.txt",
        "request.json",
    ),
    "a result on another baseline": Story(
        make_success,
        swap(
            e.TaskFinished,
            lambda given: changed(
                given, result=changed(given.result, git=changed(given.result.git, baseline_ref=OTHER_COMMIT))
            ),
        ),
        "result_contradicts",
        RESULT,
        "tasks/",
    ),
    "a run in another repository": Story(
        make_success,
        swap(e.RunAccepted, lambda given: changed(given, repository_url="/srv/other")),
        "order_contradicts",
        "meta.json",
    ),
    "other words than the request's": Story(
        make_success,
        swap(e.RunAccepted, lambda given: changed(given, user_request="drop it all")),
        "order_contradicts",
        "manifest.json",
    ),
    "a plan whose shards overlap": Story(
        make_success, first_shard(allowed_paths=("src", "docs")), "plan_contradicts", PLAN, CONTRACT
    ),
    "a plan that leaves the contract": Story(
        make_success, first_shard(allowed_paths=("etc",)), "plan_contradicts", PLAN, CONTRACT
    ),
    "a plan that changes the tests": Story(
        make_success, first_shard(acceptance_tests=OTHER_TESTS), "plan_contradicts", PLAN, CONTRACT
    ),
    "a plan whose batches lack a shard": Story(
        make_success, plan(lambda given: changed(given, batches=(given.batches[0][:1],))), "plan_contradicts", PLAN, CONTRACT
    ),
    "a shard of a later batch that was given out at once": Story(
        make_success,
        plan(lambda given: changed(given, batches=tuple((task_id,) for task_id in given.batches[0]))),
        "plan_contradicts",
        "tasks/",
        PLAN,
    ),
    "a shard that was never done": Story(
        make_success,
        leave_out(lambda payload: isinstance(payload, e.TaskFinished) and payload.result.task_id.endswith("w02")),
        "completion_contradicts",
        "manifest.json",
    ),
    "locks that lack a path": Story(
        make_success, swap(e.LocksTaken, lambda given: changed(given, paths=("src",))), "locks_contradict", EVENTS, CONTRACT
    ),
    "a test runner that was given other tests": Story(
        make_success, task("testrunner", acceptance_tests=OTHER_TESTS), "task_contradicts", "tasks/", CONTRACT
    ),
    "a reviewer that was given wider paths": Story(
        make_success, task("reviewer", allowed_paths=("src",)), "task_contradicts", "tasks/", CONTRACT
    ),
    "a test runner that was given another patch": Story(
        make_success,
        swap(
            e.TaskDispatched,
            lambda given: changed(given, contract=changed(given.contract, inputs=changed(given.contract.inputs, artifacts=()))),
        ),
        "task_contradicts",
        "tasks/",
        "patch.diff",
    ),
    # whose documents
    "a verdict on another run": Story(
        make_success, gate("tests", run_id=OTHER_RUN), "run_contradicts", "reports/gates/", EVENTS
    ),
    "a review of another run": Story(
        make_success, report(e.ReviewReceived, run_id=OTHER_RUN), "run_contradicts", REVIEW, EVENTS
    ),
    "tests of another run": Story(make_success, report(e.TestsReceived, run_id=OTHER_RUN), "run_contradicts", CI, EVENTS),
    "a result of another run": Story(make_success, result(run_id=OTHER_RUN), "run_contradicts", RESULT, EVENTS),
    "a plan of another run": Story(
        make_success, plan(lambda given: changed(given, run_id=OTHER_RUN)), "run_contradicts", PLAN, EVENTS
    ),
    "a contract of another run": Story(
        make_success,
        swap(
            e.ContractCompiled,
            lambda given: e.ContractCompiled(
                contract=changed(given.contract, log_refs=changed(given.contract.log_refs, run_id=OTHER_RUN))
            ),
        ),
        "run_contradicts",
        CONTRACT,
        EVENTS,
    ),
    # rounds and budgets
    "a round of fixing more than there may be": Story(rounds(0), as_told, "rounds_contradict", EVENTS, CONTRACT),
    "a round of fixing that skips one": Story(
        make_fixed, swap(e.FixOrdered, lambda given: changed(given, attempt=3)), "rounds_contradict", EVENTS, CONTRACT
    ),
    "a round of fixing for another reason": Story(
        make_fixed, swap(e.FixOrdered, lambda given: changed(given, reason="tests_failed")), "rounds_contradict", EVENTS
    ),
    "a round of fixing with wider paths": Story(
        make_fixed,
        swap(
            e.FixOrdered,
            lambda given: changed(given, contracts=tuple(changed(each, allowed_paths=("src",)) for each in given.contracts)),
        ),
        "task_contradicts",
        "tasks/",
        "tasks/",
    ),
    "a result of another attempt": Story(make_fixed, result(attempt=1), "result_contradicts", "results/", "tasks/"),
    "more tokens than the budget": Story(
        spent(BUDGET, Usage(tokens=11, cost_usd=0.0, iterations=1, delivery="1")),
        as_told,
        "budget_contradicts",
        EVENTS,
        CONTRACT,
    ),
    "more money than the budget": Story(
        spent(Budget(cost_usd=1.0), Usage(tokens=1, cost_usd=1.5, iterations=1, delivery="1")),
        as_told,
        "budget_contradicts",
        EVENTS,
        CONTRACT,
    ),
    "more time than the budget": Story(
        spent(Budget(wall_sec=30.0), Usage(tokens=1, cost_usd=0.0, iterations=1, delivery="1")),
        later(e.TestsReceived, 60),
        "budget_contradicts",
        EVENTS,
        CONTRACT,
    ),
    "a budget that was said to be used up": Story(
        make_aborted,
        swap(
            e.AbortRequested,
            lambda _: e.BudgetExceeded(budget="tokens", limit=10, used=3, totals={}),
        ),
        "budget_contradicts",
        EVENTS,
        CONTRACT,
    ),
    # the change itself
    "another number of changed files": Story(
        listing(*NAMES, count=7), as_told, "change_contradicts", "diff_name_only.txt", EVENTS
    ),
    "a list that lacks a file of the patch": Story(
        listing(*NAMES[:2]), as_told, "change_contradicts", "patch.diff", "diff_name_only.txt"
    ),
    "a list with a file that the patch lacks": Story(
        listing(*NAMES, b"src/z.py"), as_told, "change_contradicts", "patch.diff", "diff_name_only.txt"
    ),
    "a changed file outside of the paths": Story(
        listing(*NAMES, b"etc/passwd"), as_told, "path_out_of_scope", "diff_name_only.txt", CONTRACT
    ),
    "a candidate that is not the lone worker's": Story(
        make_fixed, swap(e.TaskFinished, lambda given: changed(given, tree=OTHER_TREE)), "change_contradicts", CANDIDATE
    ),
    "an audit that changed something": Story(
        make_success, everywhere(audit_only=True), "change_contradicts", "diff_name_only.txt", CONTRACT
    ),
}
