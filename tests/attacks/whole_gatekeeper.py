"""The gatekeeper itself, on a real repository and a bus, with the tester in the place of every role and every publisher."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.clock import Clock, SystemClock
from gatewright.contracts import GateReport, Plan, ReviewReport, RunRequest, TaskContract, TaskResult, TestReport, codec
from gatewright.contracts.reports import (
    GateOutcome,
    GateOutcomes,
    GitOutcome,
    NextSteps,
    ScopeCheck,
    TestCommand,
)
from gatewright.contracts.task_contract import Rollback
from gatewright.contracts.vocabulary import Agent, Surroundings
from gatewright.contracts.vocabulary import Repository as RepositoryField
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.git.access.credentials import NO_ACCESS, RepositoryAccess
from gatewright.git.mirror import Mirrors
from gatewright.ledger.store import Ledger
from gatewright.rules.shards import shard_of
from gatewright.run.events import GateJudged, event_of
from gatewright.run.state import Run, RunTask, run_id_of
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.decider.inputs import RoleDocument, RoleReplied, Submitted
from gatewright.services.gatekeeper.gates.change.packages import Puller
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks
from gatewright.services.gatekeeper.gates.standing_grants import StandingGrants
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.load import load
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.factories import make_contract
from tests.gatekeeper.contexts import delivered_policies
from tests.git.repositories import Repository

KEY = "the run of these tests"
RUN = run_id_of(KEY)
WHEN = "2026-01-02T00:00:00.000Z"
TECH_LEAD = Agent(role="TECH_LEAD", agent_id="techlead-1")
_FINE = GateOutcome(passed=True, violations=())


@dataclass
class Gatekeeper:
    """One repository, one run. ``refs`` are those of the repository before anything happened. ``key``: that of the run."""

    repository: Repository
    bus: MemoryBus
    orchestrator: Orchestrator
    refs: bytes
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    key: str = KEY
    publisher: str = "default"

    @property
    def run_id(self) -> str:
        return run_id_of(self.key, self.publisher)

    async def submit(self, document: RunRequest | TaskContract) -> Run:
        """A document from outside; the run as it stands when the gatekeeper has done all that it can do alone."""
        digest = hashlib.sha256(codec.encode(document)).hexdigest()
        names = {"publisher": self.publisher, "document_sha256": digest, "key": self.key}
        item = Submitted(self.run_id, "0" * 32, document, "0" * 64, f"submit:{self.run_id}", **names)
        await self.orchestrator.advance(self.run_id, item)
        return await self.run()

    async def answer(self, role: str, document: RoleDocument) -> Run:
        """What a role publishes on its result subject."""
        name = next(known for known in ("pm", "techlead", "worker", "reviewer", "testrunner") if known == role)
        await self.orchestrator.advance(self.run_id, RoleReplied(name, document, f"answer:{next(self.numbers)}"))
        return await self.run()

    async def run(self) -> Run:
        run = (await self.orchestrator.ledger.get(self.run_id)).run
        assert run is not None
        return run

    async def reports(self, gate: str) -> list[GateReport]:
        """The verdicts of one gate, in order, as the ledger has them."""
        records = [record for step in (await self.orchestrator.ledger.get(self.run_id)).transitions for record in step.events]
        payloads = [event_of(record) for record in records]
        return [each.report for each in payloads if isinstance(each, GateJudged) and each.report.gate == gate]

    async def plan(self) -> Run:
        """The tech lead's honest answer."""
        return await self.answer("techlead", make_plan(await self.run()))

    async def work(self, patch: bytes) -> Run:
        """A worker's answer that says that all is well."""
        run = await self.run()
        uri = await self.bus.put_artifact(patch)
        return await self.answer("worker", make_result(run, uri))

    async def review(self) -> Run:
        """The reviewer's honest answer."""
        return await self.answer("reviewer", make_review(await self.run()))

    async def test(self) -> Run:
        """The test runner's honest answer: everything ran and passed."""
        return await self.answer("testrunner", make_tests(await self.run()))

    def patch(self, files: dict[str, bytes | None]) -> bytes:
        """What plain git says of other files (None: deleted); the repository's branch stays where it is."""
        for name, content in files.items():
            target = self.repository.path / name
            if content is None:
                target.unlink()
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        self.repository.git("add", "--all", "--force")
        return self.repository.git("diff", "--cached", "--binary", "--no-renames", "HEAD")

    def nothing_landed(self) -> bool:
        return refs_of(self.repository) == self.refs


@asynccontextmanager
async def open_gatekeeper(
    repository: Repository,
    folder: Path,
    *,
    policies: Path | None = None,
    clock: Clock | None = None,
    access: RepositoryAccess = NO_ACCESS,
) -> AsyncIterator[Gatekeeper]:
    """The gatekeeper with the policies that come with the package, or those of the operator's folder ``policies``."""

    async def nobody_has_ended(_run_id: str) -> bool:
        return False

    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    now = clock or SystemClock()
    mirrors = Mirrors(folder / "gatekeeper-mirrors", access=access)
    rules = delivered_policies() if policies is None else load(policies)
    locks = PathLocks(bus, nobody_has_ended)
    ledger = Ledger(bus)

    async def find(run_id: str) -> Run | None:
        return (await ledger.load(run_id)).run

    grants, puller = StandingGrants(bus), Puller(bus, now)
    gates = GateEngine(rules, mirrors, ArtifactCache(bus), locks, now, {}, grants=grants, earlier=find, puller=puller)
    signer = Signer(keys.load_or_create(folder / "key.pem"))
    bundles = BundleWriter(folder / "runs")
    orchestrator = Orchestrator(bus, ledger, gates, bundles, signer, now, make_logger(), Metrics("gatekeeper"))
    yield Gatekeeper(repository, bus, orchestrator, refs_of(repository))
    await bus.close()


def contract_on(repository: Repository, **changes: object) -> TaskContract:
    """A contract over one file of the repository's HEAD, as somebody outside would send it."""
    contract = make_contract(
        RUN,
        repository=RepositoryField(url=repository.url),
        rollback=Rollback(strategy="worktree_drop", baseline_ref="HEAD"),
        allowed_paths=("README.md",),
    )
    return replace(contract, **changes)


def refs_of(repository: Repository) -> bytes:
    return repository.git("for-each-ref", "--format=%(refname) %(objectname)")


def make_plan(run: Run, **changes: object) -> Plan:
    """A plan of one shard; ``changes`` are fields of the shard."""
    contract = run.contract
    assert contract is not None
    shard = shard_of(contract, f"{run.run_id}.plan.w01", contract.allowed_paths, TECH_LEAD)
    shard = replace(shard, **changes)
    return Plan(
        run_id=run.run_id,
        task_id=f"{run.run_id}.plan",
        producer=TECH_LEAD,
        created_at=run.at,
        contracts=(shard,),
        batches=((shard.task_id,),),
    )


def make_result(run: Run, patch: str) -> TaskResult:
    return TaskResult(
        run_id=run.run_id,
        task_id=_running(run, "worker").task_id,
        producer=Agent(role="WORKER", agent_id="worker-1"),
        status="SUCCESS",
        started_at=run.at,
        finished_at=run.at,
        summary="all is well",
        artifacts=(),
        git=GitOutcome(baseline_ref=run.accepted.baseline_commit, head_ref="", changed_files=(), patch=patch),
        gates=GateOutcomes(diff_gate=_FINE, policy_gate=_FINE, review_gate=_FINE, tests_gate=_FINE),
        next_steps=NextSteps(suggested_action="land it", notes=""),
        attempt=run.attempt,
    )


def make_review(run: Run) -> ReviewReport:
    assert run.candidate is not None
    return ReviewReport(
        run_id=run.run_id,
        reviewer=Agent(role="REVIEWER", agent_id="reviewer-1"),
        reviewed_at=run.at,
        verdict="PASS",
        summary="nothing found",
        scope_check=ScopeCheck(passed=True, violations=()),
        evidence=(),
        task_id=_running(run, "reviewer").task_id,
        tree=run.candidate.tree,
    )


def make_tests(run: Run) -> TestReport:
    assert run.candidate is not None
    assert run.contract is not None
    commands = [
        TestCommand(
            name=test.name,
            cmd_argv=tuple(test.cmd.split()),
            must_pass=test.must_pass,
            timeout_sec=60,
            exit_code=0,
            duration_sec=1,
            stdout="",
            stderr="",
        )
        for test in run.contract.acceptance_tests
    ]
    return TestReport(
        run_id=run.run_id,
        task_id=_running(run, "testrunner").task_id,
        runner=Agent(role="TEST_RUNNER", agent_id="testrunner-1"),
        started_at=run.at,
        finished_at=run.at,
        status="PASS",
        commands=tuple(commands),
        artifacts=(),
        tree=run.candidate.tree,
        sandbox="bubblewrap",
        surroundings=Surroundings(versions={}, host={}, sandbox={"sandbox": "bubblewrap"}),
    )


def _running(run: Run, role: str) -> RunTask:
    return next(task for task in run.tasks.values() if task.role == role and task.status == "RUNNING")
