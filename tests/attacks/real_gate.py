"""The gatekeeper's gates on a real repository, asked as the orchestrator asks, with what a hostile role would hand over."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.clock import SystemClock
from gatewright.contracts import GateReport, ReviewReport, TaskContract, TaskResult, TestReport
from gatewright.contracts.reports import (
    GateOutcome,
    GateOutcomes,
    GitOutcome,
    NextSteps,
    ScopeCheck,
    TestCommand,
)
from gatewright.contracts.vocabulary import AcceptanceTest, Agent, Artifact
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.git.mirror import Mirrors
from gatewright.run.events import CandidateComposed
from gatewright.run.state import Run, RunTask
from gatewright.secrets.scanner import SecretScanner
from gatewright.secrets.selection import make_scanner
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks
from tests.factories import make_contract
from tests.gatekeeper.contexts import delivered_policies
from tests.gatekeeper.recorded import make_open_run
from tests.git.repositories import Repository

RUN = "run-0123456789"
SHARD = f"{RUN}.plan.w01"
WHEN = "2026-01-02T00:00:00.000Z"
_OWN_VIEW = GateOutcome(passed=True, violations=())


@dataclass
class RealGate:
    """One repository, one run on its HEAD, and every gate of the gatekeeper."""

    repository: Repository
    gates: GateEngine
    bus: MemoryBus
    run: Run

    @property
    def contract(self) -> TaskContract:
        assert self.run.contract is not None
        return self.run.contract

    def patch(self, files: Mapping[str, bytes | None]) -> bytes:
        """What plain git says of the baseline with other files (None: deleted), whatever .gitignore says."""
        for name, content in files.items():
            target = self.repository.path / name
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        self.repository.git("add", "--all", "--force")
        return self.repository.git("diff", "--cached", "--binary", "--no-renames", "HEAD")

    async def worked(self, patch: bytes, **changes: object) -> TaskResult:
        """The result of a worker that says that all is well, its patch stored."""
        uri = await self.bus.put_artifact(patch) if patch else ""
        result = TaskResult(
            run_id=RUN,
            task_id=SHARD,
            producer=Agent(role="WORKER", agent_id="worker-1"),
            status="SUCCESS",
            started_at=WHEN,
            finished_at=WHEN,
            summary="done",
            artifacts=(),
            git=GitOutcome(baseline_ref=self.run.accepted.baseline_commit, head_ref="", changed_files=(), patch=uri),
            gates=GateOutcomes(diff_gate=_OWN_VIEW, policy_gate=_OWN_VIEW, review_gate=_OWN_VIEW, tests_gate=_OWN_VIEW),
            next_steps=NextSteps(suggested_action="land it", notes=""),
        )
        return replace(result, **changes)

    async def diff(self, result: TaskResult) -> GateReport:
        """The diff gate's verdict on a worker's result."""
        return (await self.gates.answer(q.DiffCheck(self.run, self.task(), result))).report

    async def integrated(self, result: TaskResult, tree: str) -> GateReport:
        """The integrated gate's verdict when the diff gate had let ``tree`` pass."""
        task = replace(self.task(), status="SUCCESS", result=result, tree=tree)
        run = replace(self.run, tasks={SHARD: task})
        return (await self.gates.answer(q.IntegratedCheck(run))).report

    async def judged(self, result: TaskResult) -> GateReport:
        """The verdict of the diff gate or, when that lets the result pass, of the integrated gate."""
        report = await self.diff(result)
        if report.verdict == "FAIL":
            return report
        return await self.integrated(result, evidence(report)["candidate_tree"])

    async def compose(self, patch: bytes) -> str:
        """Make what ``patch`` leads to the run's candidate; returns its tree."""
        mirror = await self.gates.mirrors.open(self.repository.url)
        await mirror.ensure(self.run.accepted.baseline_commit)
        tree = await mirror.apply(self.run.accepted.baseline_commit, patch)
        uri = await self.bus.put_artifact(await mirror.diff(self.run.accepted.baseline_tree, tree))
        changes = await mirror.changes(self.run.accepted.baseline_tree, tree)
        names = await self.bus.put_artifact(b"".join(change.path + b"\0" for change in changes))
        composed = CandidateComposed(
            tree=tree, patch=uri, names=names, changed_files=len(changes), changed_lines=0, candidate=0
        )
        done = replace(self.task(), status="SUCCESS", result=await self.worked(patch), tree=tree)
        self.run = replace(self.run, candidate=composed, tasks={SHARD: done})
        return tree

    async def tests(self, report: TestReport) -> GateReport:
        return (await self.gates.answer(q.TestsCheck(self.run, report))).report

    async def review(self, report: ReviewReport) -> GateReport:
        return (await self.gates.answer(q.ReviewCheck(self.run, report, self.run.workers()))).report

    def task(self) -> RunTask:
        """The worker's task, as it runs."""
        return RunTask(
            task_id=SHARD,
            role="worker",
            pool="default",
            status="RUNNING",
            attempt=1,
            contract=replace(self.contract, task_id=SHARD),
        )


@cache
def default_scanner() -> SecretScanner:
    """The scanner that services have by default."""
    return make_scanner("kingfisher", Path(tempfile.gettempdir()) / "gatewright-secret-rules")


@asynccontextmanager
async def open_gate(repository: Repository, folder: Path, **changes: object) -> AsyncIterator[RealGate]:
    """A run under a contract over ``src`` of the repository's HEAD; ``changes`` are fields of the contract."""

    async def nobody_has_ended(_run_id: str) -> bool:
        return False

    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    mirrors, policies = Mirrors(folder / "gatekeeper-mirrors"), delivered_policies()
    locks, secrets = PathLocks(bus, nobody_has_ended), SecretsCheck(default_scanner())
    gates = GateEngine(policies, mirrors, ArtifactCache(bus), locks, SystemClock(), {}, secrets)
    mirror = await mirrors.open(repository.url)
    baseline = await mirror.resolve("HEAD")
    contract = make_contract(RUN, repository=RepositoryField(url=repository.url), **changes)
    yield RealGate(repository, gates, bus, make_open_run(RUN, contract, baseline, await mirror.tree_of(baseline)))
    await bus.close()


def codes(report: GateReport) -> list[str]:
    """The reason codes of a verdict, each once, in order."""
    return list(dict.fromkeys(violation.code for violation in report.violations))


def evidence(report: GateReport) -> dict[str, str]:
    return {seen.name: seen.digest for seen in report.evidence}


def make_test(name: str, *, must_pass: bool = True, may_rerun: bool = False) -> AcceptanceTest:
    return AcceptanceTest(name=name, cmd=f"python3 {name}.py", must_pass=must_pass, may_rerun=may_rerun)


def ran(test: AcceptanceTest, exit_code: int = 0, **changes: object) -> TestCommand:
    """One run of ``test`` as a test runner reports it."""
    command = TestCommand(
        name=test.name,
        cmd_argv=tuple(test.cmd.split()),
        must_pass=test.must_pass,
        timeout_sec=60,
        exit_code=exit_code,
        duration_sec=1,
        stdout="",
        stderr="",
    )
    return replace(command, **changes)


def make_test_report(tree: str, *commands: TestCommand, **changes: object) -> TestReport:
    report = TestReport(
        run_id=RUN,
        task_id=f"{RUN}.test.a1",
        runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        started_at=WHEN,
        finished_at="2026-01-02T00:01:00.000Z",
        status="PASS",
        commands=commands,
        artifacts=(),
        tree=tree,
        sandbox="bubblewrap",
    )
    return replace(report, **changes)


def make_review(tree: str, **changes: object) -> ReviewReport:
    report = ReviewReport(
        run_id=RUN,
        reviewer=Agent(role="REVIEWER", agent_id="reviewer-1"),
        reviewed_at=WHEN,
        verdict="PASS",
        summary="nothing was found",
        scope_check=ScopeCheck(passed=True, violations=()),
        evidence=(),
        task_id=f"{RUN}.review.a1",
        tree=tree,
    )
    return replace(report, **changes)


def artifact(name: str, uri: str) -> Artifact:
    return Artifact(name=name, uri=uri, sha256=uri.rpartition(":")[2])
