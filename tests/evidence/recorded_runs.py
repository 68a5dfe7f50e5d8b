"""Runs whose events are written by hand, as the decider writes them, with the artifacts that they name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from gatewright.clock import timestamp
from gatewright.contracts import (
    Error,
    GateReport,
    Plan,
    ReviewReport,
    RunRequest,
    TaskContract,
    TaskResult,
    TestReport,
    Transition,
    codec,
)
from gatewright.contracts.people.identities import identities_of
from gatewright.contracts.records import Cause, OrchestratorEvent
from gatewright.contracts.reports import (
    BaselineTests,
    Evidence,
    GateName,
    GateOutcome,
    GateOutcomes,
    GitOutcome,
    Mutant,
    MutationSample,
    NextSteps,
    RedFirst,
    RuleOutcome,
    ScopeCheck,
    TestCommand,
    TestControl,
    TestCounts,
    TestProof,
    TestSummary,
    Violation,
    WorkReport,
)
from gatewright.contracts.vocabulary import (
    AcceptanceTest,
    Agent,
    Artifact,
    Executor,
    Interpreter,
    MutationBounds,
    Sharding,
    Surroundings,
    TimeoutRetry,
)
from gatewright.evidence.projection.names import quote_path
from gatewright.git.patches.lines import changed_lines
from gatewright.ledger.chain import link
from gatewright.policy_files import REQUIRED
from gatewright.rules import task_contracts
from gatewright.rules.endings import refused_ending
from gatewright.rules.gate_evidence import (
    FILES_LOST,
    FILES_REMOVED,
    FILES_WRITTEN,
    expected_evidence,
    missing_rules,
    owned_files,
)
from gatewright.rules.policy_digest import policies_sha256
from gatewright.rules.shards import shard_of
from gatewright.run import events as e
from gatewright.run.evolve import evolve, fold
from gatewright.run.state import GENESIS, Run, TaskRole, run_id_of
from gatewright.worker_role import REQUIRED_OUTPUTS, resolve_role
from tests.evidence.recorded_artifacts import Store
from tests.factories import BASELINE, BASELINE_TREE, make_contract, make_request

TREE = "3" * 40
COMMIT = "4" * 40
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STAMP = "2026-01-02T03:04:05.000Z"
WORKER = Agent(role="WORKER", agent_id="worker-1")
TECH_LEAD = Agent(role="TECH_LEAD", agent_id="techlead-1")
REVIEWER = Agent(role="REVIEWER", agent_id="reviewer-1")
TEST_RUNNER = Agent(role="TEST_RUNNER", agent_id="testrunner-1")
SURROUNDINGS = Surroundings(
    versions={"python": "3.11.7", "git": "2.39.5"},
    host={"system": "Linux"},
    sandbox={"sandbox": "bubblewrap", "other networks": "0"},
    interpreter=Interpreter(prefix="/srv/env", version="3.11.7", sha256="9" * 64, packages_sha256="a" * 64),
)
BOUNDS = MutationBounds(time_share=0.5, least_seconds=4, most_mutants=12, must_kill=0.5)
MUTANTS = MutationSample(
    seed="b" * 64,
    possible=2,
    tried=2,
    mutants=(
        Mutant(path="src/a.py", line=14, column=8, before="<", after="<=", outcome="killed", tests=1),
        Mutant(path="src/a.py", line=15, column=3, before="x", after="None", outcome="survived", tests=2),
    ),
    seconds=1.5,
)
#: Digests of the policies that it is judged by.
POLICIES = {name: hashlib.sha256(name.encode()).hexdigest() for name in REQUIRED}
NAMES = (b"src/a.py", b'src/na\xc3\xafve "quoted".py', b"src/tab\there.py")


def under_policies(accepted: e.RunAccepted, policies: Mapping[str, str], **changes: object) -> e.RunAccepted:
    """The first event of a run that these policies judge; ``changes`` are of further fields."""
    return replace(accepted, policies=dict(policies), policy_sha256=policies_sha256(policies, ()), **changes)


def _quoted(path: bytes) -> bytes:
    return quote_path(path).encode("ascii")


def _added_line(name: bytes, line: str) -> bytes:
    """A patch that adds a line to a file."""
    old, new = _quoted(b"a/" + name), _quoted(b"b/" + name)
    return b"diff --git %s %s\n--- %s\n+++ %s\n@@ -0,0 +1,1 @@\n+%s\n" % (old, new, old, new, line.encode())


@dataclass(frozen=True)
class GitFacts:
    """Ids and bytes that a run is about; by default of a repository that never was."""

    baseline: str = BASELINE
    baseline_tree: str = BASELINE_TREE
    tree: str = TREE
    commit: str = COMMIT
    patch: bytes = b""
    names: tuple[bytes, ...] = NAMES


@dataclass
class RecordedRun:
    """A ledger of one run in the making. ``key`` is what its id is made of."""

    key: str = "modernise"
    store: Store = field(default_factory=Store)
    transitions: list[Transition] = field(default_factory=list)
    git: GitFacts = GitFacts()
    #: When it was accepted; each transition comes a second after the one before it.
    start: datetime = START

    @property
    def run_id(self) -> str:
        return run_id_of(self.key)

    @property
    def mutants(self) -> MutationSample:
        """Of the first changed file."""
        path = self.git.names[0].decode()
        return replace(MUTANTS, mutants=tuple(replace(each, path=path) for each in MUTANTS.mutants))

    @property
    def stamp(self) -> str:
        """The time that every document of a role and every verdict names."""
        return timestamp(self.start)

    @property
    def run(self) -> Run:
        run = fold(self.transitions)
        assert run is not None
        return run

    @property
    def records(self) -> list[OrchestratorEvent]:
        return [record for transition in self.transitions for record in transition.events]

    @property
    def sequences(self) -> tuple[int, ...]:
        """Where its transitions lie in a stream that holds nothing else."""
        return tuple(range(1, len(self.transitions) + 1))

    def step(self, *events: e.LabelledEvent) -> None:
        """One transition, with the labels that the decider gives its events."""
        records = self._linked(events)
        number = len(self.transitions) + 1
        cause = Cause(kind="answered", message_id=f"message-{number}")
        self.transitions.append(
            Transition(run_id=self.run_id, number=number, cause=cause, events=records, commands=()),
        )

    def after(self, *events: e.LabelledEvent) -> Run:
        """The run as it would be after one more transition."""
        run = fold(self.transitions)
        for record in self._linked(events):
            run = evolve(run, record)
        assert run is not None
        return run

    def _linked(self, events: Sequence[e.LabelledEvent]) -> tuple[OrchestratorEvent, ...]:
        run = fold(self.transitions)
        now = self.start + timedelta(seconds=len(self.transitions))
        records: list[OrchestratorEvent] = []
        for number, event in enumerate(events):
            payload = event.event if run is None else self._judged(run, events, number)
            records += link(
                [e.with_labels(payload, run, event.task_id)],
                run_id=self.run_id,
                trace_id="ab" * 16,
                seq=run.seq if run else 0,
                head=run.head if run else GENESIS,
                now=now,
            )
            run = evolve(run, records[-1])
        return tuple(records)

    def _judged(self, run: Run, events: Sequence[e.LabelledEvent], number: int) -> e.RunEvent:
        """An event; a verdict with all that its gate must have looked at, and the rules that it must have applied."""
        judged = events[number].event
        if not isinstance(judged, e.GateJudged):
            return judged
        report, run = judged.report, run.seen_from(judged.of_candidate(run))
        for document in (run.review, run.tests):
            if document is not None:
                self.store.put(codec.encode(document))
        before = [each.event for each in events[:number]]
        decisions = [each for each in before if isinstance(each, e.ApprovalDecided | e.ApprovalByGrant)]
        held = before[-1] if before and isinstance(before[-1], e.RosterHeld) else None
        expected = expected_evidence(run, report, decisions, [each.event for each in events[number + 1 :]], held)
        named = {seen.name for seen in report.evidence}
        more = tuple(
            Evidence(name=name, digest=digest or self._seen(run, name)) for name, digest in expected if name not in named
        )
        rules = tuple(RuleOutcome(rule=rule, verdict="PASS") for rule in missing_rules(run, report, decisions))
        return e.GateJudged(report=replace(report, evidence=(*report.evidence, *more), rules=(*report.rules, *rules)))

    def _seen(self, run: Run, name: str) -> str:
        """What a gate alone knows: the last worker owns all changed files, and none was removed or lost."""
        owners = [owned_files(task.task_id) for task in run.workers()]
        if name in owners:
            return f"{len(self.git.names) if name == owners[-1] else 0} of {len(self.git.names)} changed files"
        return "0" if name in {FILES_WRITTEN, FILES_REMOVED, FILES_LOST} else "1"

    def artifact(self, name: str, data: bytes) -> Artifact:
        uri = self.store.put(data)
        return Artifact(name=name, uri=uri, sha256=uri.rpartition(":")[2])

    def gate(
        self,
        gate: GateName,
        *,
        task_id: str | None = None,
        code: str = "ok",
        evidence: str = "",
        detail: str = "outside the contract's paths",
    ) -> e.LabelledEvent:
        violation = Violation(code=code, rule=f"{gate}_gate", detail=detail, path="etc/passwd")
        report = GateReport(
            run_id=self.run_id,
            gate=gate,
            verdict="PASS" if code == "ok" else "FAIL",
            code=code,
            summary="passed" if code == "ok" else f"{violation.path}: {violation.detail}",
            violations=() if code == "ok" else (violation,),
            rules=() if code == "ok" else (RuleOutcome(rule=violation.rule, verdict="FAIL"),),
            evidence=(Evidence(name="patch", digest=evidence),) if evidence else (),
            evaluated_at=self.stamp,
            task_id=task_id,
            attempt=self.run.attempt if self.transitions else 1,
            duration_ms=1.5,
        )
        return e.LabelledEvent(e.GateJudged(report=report))

    def dispatch(self, task_id: str, role: TaskRole, contract: TaskContract | None = None) -> e.LabelledEvent:
        return e.LabelledEvent(e.TaskDispatched(task_id=task_id, role=role, pool="default", contract=contract))

    def contract(self, **changes: object) -> TaskContract:
        """What the pm makes of the request."""
        request = self.request()
        contract = make_contract(
            self.run_id,
            executor=request.executor,
            candidates=request.candidates,
            allowed_paths=request.allowed_paths,
            acceptance_tests=request.acceptance_tests,
            timeout_retry=request.timeout_retry,
            policy_pack=request.policy_pack,
            sharding=request.sharding,
            required_outputs=REQUIRED_OUTPUTS,
        )
        inputs = replace(contract.inputs, artifacts=request.artifacts)
        rollback = replace(contract.rollback, baseline_ref=self.git.baseline)
        contract = replace(contract, inputs=inputs, rollback=rollback)
        return replace(contract, **{"role_contract": resolve_role(contract), **changes})

    def request(self) -> RunRequest:
        """What was asked for: two answers of a model, for at most two attempts."""
        return make_request(
            executor=Executor(kind="reply", artifacts=("reply.a1", "reply.a2")),
            artifacts=(self.artifact("reply.a1", b"the model's answer\n"), self.artifact("reply.a2", b"its other answer\n")),
            allowed_paths=("src", "docs"),
            acceptance_tests=(
                AcceptanceTest(name="unit", cmd="python -m pytest 'a b'", must_pass=True),
                AcceptanceTest(name="lint", cmd="ruff check", must_pass=True),
            ),
            timeout_retry=TimeoutRetry(timeout_sec=60, max_retries=1, retry_backoff_sec=0),
            sharding=Sharding(count=2),
            baseline_ref=self.git.baseline,
        )

    def result(self, task_id: str, *, patch: bytes, extra: tuple[Artifact, ...] = ()) -> TaskResult:
        outcome = GateOutcome(passed=True, violations=())
        report = WorkReport(
            task_id=task_id, status="success", patch_ref=self.store.put(patch), diff_summary="1 file", evidence_refs=()
        )
        return TaskResult(
            run_id=self.run_id,
            task_id=task_id,
            producer=WORKER,
            status="SUCCESS",
            started_at=self.stamp,
            finished_at=self.stamp,
            summary="done",
            artifacts=(
                self.artifact("work_report", codec.encode(report)),
                self.artifact("stdout", f"output of {task_id}\n".encode()),
                self.artifact("stderr", b""),
                *extra,
            ),
            git=GitOutcome(
                baseline_ref=self.git.baseline, head_ref=self.git.tree, changed_files=("src/a.py",), patch=self.store.put(patch)
            ),
            gates=GateOutcomes(diff_gate=outcome, policy_gate=outcome, review_gate=outcome, tests_gate=outcome),
            next_steps=NextSteps(suggested_action="none", notes=""),
            attempt=self.run.attempt,
            surroundings=SURROUNDINGS,
        )

    def review(self, task_id: str, verdict: Literal["PASS", "FAIL"] = "PASS") -> e.LabelledEvent:
        report = ReviewReport(
            run_id=self.run_id,
            reviewer=REVIEWER,
            reviewed_at=self.stamp,
            verdict=verdict,
            summary="looked at",
            scope_check=ScopeCheck(passed=True, violations=()),
            evidence=(),
            task_id=task_id,
            tree=self.git.tree,
        )
        return e.LabelledEvent(e.ReviewReceived(report=report))

    def tests(self, task_id: str) -> e.LabelledEvent:
        path = self.git.names[0].decode()
        command = TestCommand(
            name="unit",
            cmd_argv=("python", "-m", "pytest", "a b"),
            must_pass=True,
            timeout_sec=60.0,
            exit_code=0,
            duration_sec=1.25,
            stdout=self.store.put(b"2 passed\n"),
            stderr=self.store.put(b"a warning\n"),
            proof=TestProof(
                framework="pytest",
                complete=True,
                counts=TestCounts(passed=2, failed=0, skipped=1),
                collected_before=2,
                new_count=1,
                control=TestControl(
                    failing="test_k.py::test_a",
                    passing="test_k.py::test_b",
                    exit_code=1,
                    failing_outcome="failed",
                    passing_outcome="passed",
                ),
                red_first=RedFirst(tests=2, failed_count=1, passed_count=1, passed=(f"{path}::test_a",)),
                baseline_tests=BaselineTests(
                    paths=(path,),
                    exit_code=1,
                    complete=True,
                    counts=TestCounts(passed=2, failed=1, skipped=0),
                    failed=("src/test_a.py::test_old",),
                ),
                mutation=self.mutants,
                table=self.store.put(f"{path}::test_a\tpassed\na.py::test_b\tpassed\na.py::test_c\tskipped\n".encode()),
            ),
        )
        output = self.store.put(b"all clean\n")
        lint = replace(command, name="lint", cmd_argv=("ruff", "check"), stdout=output, stderr="", proof=None)
        report = TestReport(
            run_id=self.run_id,
            task_id=task_id,
            runner=TEST_RUNNER,
            started_at=self.stamp,
            finished_at=timestamp(self.start + timedelta(seconds=3)),
            status="PASS",
            commands=(command, lint),
            artifacts=(self.artifact("coverage.xml", b"<coverage/>\n"),),
            summary=TestSummary(passed=2, failed=0, skipped=0),
            tree=self.git.tree,
            sandbox="bubblewrap",
        )
        return e.LabelledEvent(e.TestsReceived(report=report))

    def accept(self, requested_by: str = "tests") -> None:
        request = self.request()
        accepted = e.RunAccepted(
            user_request="modernise the sources",
            requested_by=requested_by,
            repository_url="/srv/project",
            submitted_sha256="5" * 64,
            policy_sha256=policies_sha256(POLICIES, ()),
            versions={"gatewright": "0.1.0"},
            publisher="default",
            document_sha256=hashlib.sha256(codec.encode(request)).hexdigest(),
            idempotency_key=self.key,
            orderers=tuple(sorted(identities_of(requested_by))),
            recording=e.RECORDING,
            policies=POLICIES,
            host={"system": "Linux", "machine": "x86_64"},
            baseline_commit=self.git.baseline,
            baseline_tree=self.git.baseline_tree,
            request=request,
            mutation=BOUNDS,
        )
        self.step(e.LabelledEvent(accepted), self.gate("policy"), self.dispatch(f"{self.run_id}.pm", "pm"))

    def plan(self, shards: int = 2) -> None:
        planning = f"{self.run_id}.plan"
        contract = self.contract()
        self.step(
            self.gate("policy"),
            e.LabelledEvent(e.ContractCompiled(contract=contract)),
            e.LabelledEvent(e.StateEntered(state="S1")),
            self.dispatch(planning, "techlead", task_contracts.planning(contract, self.run_id)),
        )
        ids = tuple(f"{planning}.w{number:02}" for number in range(1, shards + 1))
        parts = (("src", "docs"),) if shards == 1 else (("src",), ("docs",))
        plan = Plan(
            run_id=self.run_id,
            task_id=planning,
            producer=TECH_LEAD,
            created_at=self.stamp,
            contracts=tuple(shard_of(contract, task_id, paths, TECH_LEAD) for task_id, paths in zip(ids, parts, strict=True)),
            batches=(ids,),
        )
        self.step(self.gate("plan", task_id=planning), e.LabelledEvent(e.PlanAccepted(plan=plan)))
        locks = e.LocksTaken(repository_url="/srv/project", paths=("src", "docs"), token=7)
        workers = [self.dispatch(task.task_id, "worker") for task in self.run.workers()]
        self.step(self.gate("locks"), e.LabelledEvent(locks), e.LabelledEvent(e.StateEntered(state="S2")), *workers)

    def work(self) -> None:
        for task in self.run.workers():
            patch = f"--- the patch of {task.task_id}\n".encode()
            result = self.result(task.task_id, patch=patch, extra=(self.artifact("notes", b"more\n"),))
            finished = e.TaskFinished(result=result, accepted=result.status == "SUCCESS", tree=self.git.tree)
            self.step(e.LabelledEvent(finished), self.gate("diff", task_id=task.task_id, evidence=result.git.patch))

    def compose(self) -> None:
        attempt = self.run.attempt
        data = self.git.patch or b"".join(_added_line(name, f"round {attempt}") for name in self.git.names)
        patch = self.artifact("candidate.patch", data)
        names = self.store.put(b"".join(name + b"\0" for name in self.git.names))
        composed = e.CandidateComposed(
            tree=self.git.tree,
            patch=patch.uri,
            names=names,
            changed_files=len(self.git.names),
            changed_lines=changed_lines(data),
            candidate=0,
        )
        told = (
            self.gate("integrated", evidence=patch.uri),
            e.LabelledEvent(composed),
            e.LabelledEvent(e.StateEntered(state="S3")),
        )
        review = task_contracts.reviewing(self.after(*told), self.contract(), patch.uri)
        self.step(*told, self.dispatch(review.task_id, "reviewer", review))

    def pass_review(self) -> None:
        attempt = self.run.attempt
        review = f"{self.run_id}.review.a{attempt}"
        assert self.run.candidate is not None
        test = task_contracts.testing(self.run, self.contract(), self.run.candidate.patch)
        self.step(
            self.review(review),
            self.gate("reviewer", task_id=review),
            e.LabelledEvent(e.StateEntered(state="S4")),
            self.dispatch(test.task_id, "testrunner", test),
        )

    def fail_review(self) -> None:
        """A blocking review and a new round."""
        review = self.review(f"{self.run_id}.review.a{self.run.attempt}", "FAIL")
        assert isinstance(review.event, e.ReviewReceived)
        self.store.put(codec.encode(review.event.report))
        attempt = self.run.attempt + 1
        contracts = tuple(
            task_contracts.fixing(task.contract, attempt, review.event.report, task.result)
            for task in self.run.workers()
            if task.contract
        )
        self.step(
            review,
            self.gate("reviewer", task_id=review.event.report.task_id, code="review_failed"),
            e.LabelledEvent(e.StateEntered(state="S5")),
            e.LabelledEvent(e.FixOrdered(attempt=attempt, reason="review_failed", contracts=contracts)),
            e.LabelledEvent(e.StateEntered(state="S2")),
            *(self.dispatch(contract.task_id, "worker") for contract in contracts),
        )

    def land(self) -> None:
        test = f"{self.run_id}.test.a{self.run.attempt}"
        self.step(self.tests(test), self.gate("tests", task_id=test))
        landed = e.Landed(mode="branch", commit=self.git.commit, tree=self.git.tree, ref=f"refs/heads/gatewright/{self.run_id}")
        self.step(
            self.gate("landing"),
            e.LabelledEvent(landed),
            e.LabelledEvent(e.StateEntered(state="S6")),
            e.LabelledEvent(e.RunFinished(status="SUCCESS", code="ok", message="landed")),
        )

    def end_refused(self, *before: e.LabelledEvent) -> None:
        """The end that the last event, a verdict that refuses, leads to."""
        judged = before[-1].event
        assert isinstance(judged, e.GateJudged)
        code, message = refused_ending(judged.report)
        self.end("FAILED", code, message, *before)

    def end(self, status: Literal["FAILED", "ABORTED"], code: str, message: str, *before: e.LabelledEvent) -> None:
        self.step(
            *before,
            e.LabelledEvent(e.StateEntered(state=status)),
            e.LabelledEvent(e.RunFinished(status=status, code=code, message=message)),
        )


def make_success(git: GitFacts = GitFacts(), run: RecordedRun | None = None) -> RecordedRun:
    """Two shards, two test commands, landed on a branch; ``run`` is one that nothing has happened to yet."""
    run = run or RecordedRun(git=git)
    run.accept()
    run.plan()
    run.work()
    run.compose()
    run.pass_review()
    run.land()
    return run


def make_fixed(run: RecordedRun | None = None) -> RecordedRun:
    """The same after a first review that failed."""
    run = run or RecordedRun()
    run.accept()
    run.plan(shards=1)
    run.work()
    run.compose()
    run.fail_review()
    run.work()
    run.compose()
    run.pass_review()
    run.land()
    return run


def make_failed(git: GitFacts = GitFacts(), run: RecordedRun | None = None) -> RecordedRun:
    """Refused by the diff gate: the worker's patch leaves its scope."""
    run = run or RecordedRun(git=git)
    run.accept()
    run.plan(shards=1)
    (task,) = run.run.workers()
    result = run.result(task.task_id, patch=b"--- a patch of etc/passwd\n")
    refused = run.gate("diff", task_id=task.task_id, code="path_out_of_scope", evidence=result.git.patch)
    finished = e.LabelledEvent(e.TaskFinished(result=result, accepted=False))
    run.end_refused(finished, refused)
    return run


def make_unplanned(run: RecordedRun | None = None) -> RecordedRun:
    """The pm could not compile a contract."""
    run = run or RecordedRun()
    run.accept()
    task_id = f"{run.run_id}.pm"
    error = Error(code="request_incomplete", message="no paths", run_id=run.run_id, task_id=task_id, role="pm")
    run.end("FAILED", "request_incomplete", "no paths", e.LabelledEvent(e.TaskFailed(error=error)))
    return run


def make_aborted(run: RecordedRun | None = None) -> RecordedRun:
    """Stopped while its workers worked."""
    run = run or RecordedRun()
    run.accept()
    run.plan()
    run.end(
        "ABORTED",
        "aborted",
        "changed my mind",
        e.LabelledEvent(e.AbortRequested(reason="changed my mind", requested_by="tests")),
    )
    return run


MAKERS: dict[str, Callable[..., RecordedRun]] = {
    "success": make_success,
    "fixed": make_fixed,
    "failed": make_failed,
    "unplanned": make_unplanned,
    "aborted": make_aborted,
}
