"""The definition of done, asked as the last question before landing, on a real repository: what is not done does not land."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from gatewright.contracts import GateReport, Plan, ReviewReport, TaskResult, TestReport
from gatewright.contracts.reports import (
    Finding,
    GateOutcome,
    GateOutcomes,
    GitOutcome,
    NextSteps,
    ScopeCheck,
    TestCommand,
)
from gatewright.contracts.task_contract import RequiredOutput
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Artifact
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.rules.reports.completion import RULES
from gatewright.run.events import CandidateComposed
from gatewright.run.state import Run, RunTask
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.gates.engine import GateEngine
from tests.factories import make_contract
from tests.gatekeeper.recorded import make_open_run
from tests.git.repositories import MakeRepository, Repository

RUN = "run-0123456789"
WHEN = "2026-01-02T00:00:00.000Z"
_PASSED = GateOutcome(passed=True, violations=())
Change = Callable[["Finished"], Run]


@dataclass
class Finished:
    """A run whose gates have all passed, on the doorstep of landing."""

    repository: Repository
    gates: GateEngine
    run: Run

    async def land(self, change: Change | None = None) -> GateReport:
        """The landing gate's verdict on the run after ``change``; what it refuses must not be in the repository."""
        run = change(self) if change else self.run
        report = (await self.gates.answer(q.LandingCheck(run))).report
        landed = self.repository.exists(f"refs/heads/gatewright/{RUN}")
        assert landed == (report.verdict == "PASS")
        return report

    def with_contract(self, **changes: object) -> Run:
        assert self.run.contract is not None
        return replace(self.run, contract=replace(self.run.contract, **changes))

    def asking_for(self, *outputs: tuple[str, str]) -> Run:
        wanted = tuple(RequiredOutput(name=name, type=kind, acceptance="is there") for kind, name in outputs)  # type: ignore[arg-type]  # literals
        return self.with_contract(required_outputs=wanted)

    def with_task(self, role: str, **changes: object) -> Run:
        (task,) = (task for task in self.run.tasks.values() if task.role == role)
        return replace(self.run, tasks={**self.run.tasks, task.task_id: replace(task, **changes)})


@pytest.fixture
async def finished(make_repository: MakeRepository, gates: GateEngine) -> Finished:
    repository = make_repository(files={"src/a.py": b"one\n", "docs/guide.md": b"guide\n", "README.md": b"read me\n"})
    contract = make_contract(RUN, repository=RepositoryField(url=repository.url))
    mirror = await gates.mirrors.open(repository.url)
    baseline = await mirror.resolve("HEAD")
    run = make_open_run(RUN, contract, baseline, await mirror.tree_of(baseline))
    (repository.path / "src/a.py").write_bytes(b"two\n")
    repository.git("add", "--all")
    patch = repository.git("diff", "--cached", "--binary", "--no-renames", "HEAD")
    tree = await mirror.apply(baseline, patch)
    stored = await gates.artifacts.put_artifact(patch)
    findings = await gates.artifacts.put_artifact(b'{"found": []}')
    broken = await gates.artifacts.put_artifact(b'{"found": ')
    handed = tuple(
        Artifact(name=name, uri=uri, sha256=uri.rpartition(":")[2])
        for name, uri in (("findings", findings), ("broken", broken))
    )
    shard = replace(contract, task_id=f"{RUN}.plan.w01")
    result = TaskResult(
        run_id=RUN,
        task_id=shard.task_id,
        producer=Agent(role="WORKER", agent_id="worker-1"),
        status="SUCCESS",
        started_at=WHEN,
        finished_at=WHEN,
        summary="done",
        artifacts=handed,
        git=GitOutcome(baseline_ref=baseline, head_ref=tree, changed_files=("src/a.py",), patch=stored),
        gates=GateOutcomes(diff_gate=_PASSED, policy_gate=_PASSED, review_gate=_PASSED, tests_gate=_PASSED),
        next_steps=NextSteps(suggested_action="none", notes=""),
    )
    plan = Plan(
        run_id=RUN,
        task_id=f"{RUN}.plan",
        producer=Agent(role="TECH_LEAD", agent_id="techlead-1"),
        created_at=WHEN,
        contracts=(shard,),
        batches=((shard.task_id,),),
    )
    names = await gates.artifacts.put_artifact(b"src/a.py\0")
    run = replace(
        run,
        state="S4",
        created_at=WHEN,
        plan=plan,
        candidate=CandidateComposed(tree=tree, patch=stored, names=names, changed_files=1, changed_lines=1, candidate=0),
        review=make_review(tree),
        tests=make_tests(tree),
        tests_passed=True,
        tasks={
            shard.task_id: RunTask(shard.task_id, "worker", "default", "SUCCESS", 1, shard, result, tree),
            f"{RUN}.review.a1": RunTask(f"{RUN}.review.a1", "reviewer", "default", "SUCCESS", 1, contract),
        },
    )
    return Finished(repository, gates, run)


def make_review(candidate: str, /, **changes: object) -> ReviewReport:
    report = ReviewReport(
        run_id=RUN,
        reviewer=Agent(role="REVIEWER", agent_id="reviewer-1"),
        reviewed_at=WHEN,
        verdict="PASS",
        summary="nothing was found",
        scope_check=ScopeCheck(passed=True, violations=()),
        evidence=(),
        tree=candidate,
    )
    return replace(report, **changes)


def make_tests(tree: str, *exit_codes: int) -> TestReport:
    commands = tuple(
        TestCommand(
            name="unit",
            cmd_argv=("true",),
            must_pass=True,
            timeout_sec=60.0,
            exit_code=exit_code,
            duration_sec=0.1,
            stdout="",
            stderr="",
            run=number,
        )
        for number, exit_code in enumerate(exit_codes or (0,), 1)
    )
    return TestReport(
        run_id=RUN,
        task_id=f"{RUN}.test.a1",
        runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        started_at=WHEN,
        finished_at=WHEN,
        status="PASS",
        commands=commands,
        artifacts=(),
        tree=tree,
    )


def codes(report: GateReport) -> set[str]:
    return {violation.code for violation in report.violations}


async def test_run_that_is_done_lands_and_every_rule_is_named(finished: Finished) -> None:
    report = await finished.land()
    assert report.verdict == "PASS", report.violations
    named = [rule.rule for rule in report.rules if rule.rule.startswith("completion.")]
    assert named == list(RULES)
    assert "output.patch.patch" in {seen.name for seen in report.evidence}


async def test_all_kinds_of_outputs_that_are_there_are_found(finished: Finished) -> None:
    wanted = [("patch", "p"), ("commit", "c"), ("report", "review_report"), ("json", "findings"), ("json", "plan")]
    report = await finished.land(lambda it: it.asking_for(*wanted, ("file", "src/a.py"), ("file", "README.txt.md")))
    assert codes(report) == {"completion_output_missing", "completion_document_missing"}
    report = await finished.land(lambda it: it.asking_for(*wanted, ("file", "src/a.py")))
    assert report.verdict == "PASS", report.violations


@pytest.mark.parametrize(
    "output",
    [
        *[("file", name) for name in ("src/b.py", "../etc/passwd", "/etc/passwd", "src", ":(top)src/a.py", "")],
        *[("json", "absent"), ("json", "broken"), ("report", "absent")],
    ],
)
async def test_required_output_that_is_not_there_stops_the_landing(finished: Finished, output: tuple[str, str]) -> None:
    report = await finished.land(lambda it: it.asking_for(output))
    assert codes(report) == {"completion_output_missing"}


async def test_commit_that_was_ordered_and_never_lands_is_missing(finished: Finished) -> None:
    repository = RepositoryField(url=finished.repository.url, landing="none")
    wanted = (RequiredOutput(name="commit", type="commit", acceptance="lands"),)
    run = finished.with_contract(required_outputs=wanted, repository=repository)
    verdict = await finished.gates.answer(q.LandingCheck(run))
    assert codes(verdict.report) == {"completion_output_missing"}


async def test_document_that_was_ordered_must_be_written_and_not_only_be_there(finished: Finished) -> None:
    report = await finished.land(lambda it: it.asking_for(("file", "docs/guide.md")))
    assert codes(report) == {"completion_document_missing"}


async def test_a_file_without_an_owner_stops_the_landing(finished: Finished) -> None:
    (shard,) = finished.run.workers()
    assert shard.contract is not None
    narrow = replace(shard.contract, allowed_paths=("src/other",))
    report = await finished.land(lambda it: it.with_task("worker", contract=narrow))
    assert codes(report) == {"completion_file_not_owned"}
    assert [violation.path for violation in report.violations] == ["src/a.py"]


async def test_file_outside_the_contract_stops_the_landing(finished: Finished) -> None:
    report = await finished.land(lambda it: it.with_contract(allowed_paths=("docs",)))
    assert "completion_file_not_owned" in codes(report)


async def test_test_that_must_pass_and_never_ran_stops_the_landing(finished: Finished) -> None:
    tests = (*make_contract().acceptance_tests, AcceptanceTest(name="lint", cmd="true", must_pass=True))
    report = await finished.land(lambda it: it.with_contract(acceptance_tests=tests))
    assert codes(report) == {"completion_tests_missing"}


@pytest.mark.parametrize("exit_codes", [(1,), (0, 1)])
async def test_exit_code_that_is_not_0_stops_the_landing(finished: Finished, exit_codes: tuple[int, ...]) -> None:
    def change(it: Finished) -> Run:
        assert it.run.candidate is not None
        return replace(it.run, tests=make_tests(it.run.candidate.tree, *exit_codes))

    assert codes(await finished.land(change)) == {"completion_tests_missing"}


async def test_tests_of_another_tree_stop_the_landing(finished: Finished) -> None:
    report = await finished.land(lambda it: replace(it.run, tests=make_tests("f" * 40)))
    assert codes(report) == {"completion_tests_missing"}


@pytest.mark.parametrize(
    "changes",
    [
        {"tree": "f" * 40},
        {"verdict": "FAIL"},
        {"scope_check": ScopeCheck(passed=False, violations=("x",))},
        {"findings": (Finding(code="secret", message="a key", blocking=True),)},
    ],
)
async def test_review_that_leaves_something_open_stops_the_landing(finished: Finished, changes: dict[str, object]) -> None:
    def change(it: Finished) -> Run:
        assert it.run.candidate is not None
        return replace(it.run, review=make_review(it.run.candidate.tree, **changes))

    assert codes(await finished.land(change)) == {"completion_violation_open"}


async def test_shard_that_is_not_done_stops_the_landing(finished: Finished) -> None:
    report = await finished.land(lambda it: it.with_task("worker", status="RUNNING"))
    assert codes(report) == {"completion_shards_open", "completion_violation_open"}


async def test_planned_shard_that_was_never_given_out_stops_the_landing(finished: Finished) -> None:
    plan = finished.run.plan
    assert plan is not None
    two = (*plan.contracts, replace(plan.contracts[0], task_id=f"{RUN}.plan.w02"))
    report = await finished.land(lambda it: replace(it.run, plan=replace(plan, contracts=two)))
    assert codes(report) == {"completion_shards_open"}


async def test_audit_that_changes_something_does_not_land(finished: Finished) -> None:
    report = await finished.land(lambda it: it.with_contract(audit_only=True))
    assert codes(report) == {"completion_audit_changed"}


async def test_change_of_nothing_is_no_change(finished: Finished) -> None:
    candidate = finished.run.candidate
    assert candidate is not None
    empty = replace(candidate, names="", changed_files=0)
    report = await finished.land(lambda it: replace(it.run, candidate=empty))
    assert codes(report) == {"completion_output_missing"}
