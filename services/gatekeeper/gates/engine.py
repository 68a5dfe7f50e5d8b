"""Answers the decider's questions: the only I/O on the way from an input to a transition.

A gate that meets an error of the thing it judges fails with that error's code. Only when the bus itself is away does the
question stay open: the input is given back and judged later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gatewright.bus.topology import TASK_CLASSES
from gatewright.clock import Clock
from gatewright.contracts import ReviewReport, TaskContract, TestReport, codec
from gatewright.contracts.reports import GateName
from gatewright.errors import BusError, ConflictError, GatewrightError
from gatewright.evidence.signing.keys import PublicKey
from gatewright.git.host.identity import repository_identity
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.process import in_thread
from gatewright.host_errors import is_waited_for
from gatewright.host_facts import host
from gatewright.ledger.events import LocksTaken
from gatewright.ledger.run import Run
from gatewright.rules.landing import landing_ref
from gatewright.rules.results import RULE as RESULT_RULE
from gatewright.rules.results import broken_by_result
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.dispatch.priority import priority_of
from gatewright.services.gatekeeper.gates.cel_gate import judge_evidence_rules
from gatewright.services.gatekeeper.gates.change import candidate as candidates
from gatewright.services.gatekeeper.gates.change.approvals import Approved, read_approval
from gatewright.services.gatekeeper.gates.change.destructive import judge_losses
from gatewright.services.gatekeeper.gates.change.rebuild_trees import bring_candidate, bring_workers
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck, note_redactions
from gatewright.services.gatekeeper.gates.contract.intake import judge_intake
from gatewright.services.gatekeeper.gates.contract.plan import judge_plan
from gatewright.services.gatekeeper.gates.contract.policy import judge_compiled, judge_contract
from gatewright.services.gatekeeper.gates.landing.completion import judge_completion
from gatewright.services.gatekeeper.gates.landing.landing import land
from gatewright.services.gatekeeper.gates.landing.locks import Claim, PathLocks
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.gates.reports.artifact_checks import check_artifacts
from gatewright.services.gatekeeper.gates.reports.role_reports import judge_review, judge_tests
from gatewright.services.gatekeeper.gates.whole_change import judge_whole_change
from gatewright.services.gatekeeper.policies.load import Policies


@dataclass(frozen=True)
class GateEngine:
    """All gates, with what they need to judge."""

    policies: Policies
    mirrors: Mirrors
    artifacts: ArtifactCache
    locks: PathLocks
    clock: Clock
    versions: dict[str, str]
    secrets: SecretsCheck = field(default_factory=SecretsCheck)
    #: Whose signatures approve what needs a person's leave.
    approvers: tuple[PublicKey, ...] = ()

    async def answer(self, question: q.GateCheck) -> q.Verdict:
        """The verdict on one question. Raises BusError or ConflictError when the bus cannot serve now."""
        match question:
            case q.IntakeCheck():
                return await self._intake(question)
            case q.ContractCheck(run=run, contract=contract):
                return await asyncio.to_thread(self._contract, run, contract)
            case q.PlanCheck(run=run, plan=plan):
                found, started = self._begin(run, "plan", plan.task_id)
                await asyncio.to_thread(judge_plan, plan, _contract(run), self.policies, found)
                return q.Verdict(found.report(self.clock, started))
            case q.LocksCheck(run=run):
                return await self._locks(run)
            case q.DiffCheck():
                return await self._diff(question)
            case q.IntegratedCheck(run=run):
                return await self._integrated(run)
            case q.ReviewCheck(run=run, report=review):
                found, started = self._begin(run, "reviewer", review.task_id)
                await asyncio.to_thread(judge_review, review, run, found)
                note_redactions(review, (), found)
                return await self._on_report(review, found, started)
            case q.TestsCheck(run=run, report=tests):
                found, started = self._begin(run, "tests", tests.task_id)
                await asyncio.to_thread(judge_tests, tests, run, _contract(run), found)
                note_redactions(tests, tests.artifacts, found)
                outputs = [uri for command in tests.commands for uri in (command.stdout, command.stderr) if uri]
                await check_artifacts([*outputs, *(artifact.uri for artifact in tests.artifacts)], found, self.artifacts)
                return await self._on_report(tests, found, started)
            case q.LandingCheck(run=run):
                return await self._landing(run)

    def _begin(self, run: Run, gate: GateName, task_id: str | None = None) -> tuple[GateReportBuilder, float]:
        return GateReportBuilder(run.run_id, gate, task_id, run.attempt), self.clock.monotonic()

    async def _intake(self, question: q.IntakeCheck) -> q.IntakeVerdict:
        found, started = GateReportBuilder(question.run_id, "policy"), self.clock.monotonic()
        found.saw("policies", self.policies.sha256)
        now = self.clock.now()
        document, commit, tree = await judge_intake(question.document, found, self.policies, self.mirrors, self.artifacts, now)
        identity = ""
        if commit and document.repository is not None:
            identity = await in_thread(repository_identity, document.repository.url)
        report = found.report(self.clock, started)
        policies = self.policies
        facts = (policies.sha256, self.versions, policies.digests, host())
        return q.IntakeVerdict(report, document, commit, tree, *facts, identity)

    def _contract(self, run: Run, contract: TaskContract) -> q.Verdict:
        found, started = self._begin(run, "policy")
        found.saw("policies", self.policies.sha256)
        if run.request is not None:
            judge_compiled(contract, run.request, run.accepted.baseline_commit, found)
        judge_contract(contract, self.policies, found, from_outside=False)
        return q.Verdict(found.report(self.clock, started))

    async def _locks(self, run: Run) -> q.LocksVerdict:
        found, started = self._begin(run, "locks")
        claim = claim_of(run, _contract(run))
        grant = await self.locks.take(run.accepted.repository_key, claim)
        if not grant.token:
            found.violate("locks_held", "locks", "held by " + ", ".join(grant.holders))
        found.saw("token", str(grant.token))
        return q.LocksVerdict(found.report(self.clock, started), claim.paths, grant.token, grant.holders)

    async def _diff(self, question: q.DiffCheck) -> q.DiffVerdict:
        run, task, result = question.run, question.task, question.result
        found, started = self._begin(run, "diff", task.task_id)
        tree = ""
        try:
            patch = await self.artifacts.get_artifact(result.git.patch) if result.git.patch else b""
            found.saw("patch", result.git.patch)
            await check_artifacts([artifact.uri for artifact in result.artifacts], found, self.artifacts)
            note_redactions(result, result.artifacts, found)
            found.checked(RESULT_RULE)
            for broken in broken_by_result(result, task, run):
                found.violate(*broken)
            contract = task.contract or _contract(run)
            mirror = await self._mirror(run)
            approved = await self._approved(run, found)
            tree = await candidates.judge_patch(patch, contract, run, mirror, self.policies, found, approved)
            if tree and found.clean:
                changes = await mirror.changes(run.accepted.baseline_tree, tree)
                await judge_losses(changes, contract, tree, mirror, found)
        except GatewrightError as error:
            _fail(found, error)
        return q.DiffVerdict(found.report(self.clock, started), tree)

    async def _integrated(self, run: Run) -> q.CandidateVerdict:
        found, started = self._begin(run, "integrated")
        candidate, patch, names = None, "", ""
        try:
            mirror = await self._mirror(run)
            await bring_workers(run, mirror, self.artifacts)
            candidate = await candidates.compose(run, mirror, self.artifacts, found)
            if candidate is not None:
                approved = await self._approved(run, found)
                await candidates.judge_candidate(candidate, run, _contract(run), mirror, self.policies, found, approved)
                await judge_losses(candidate.changes, _contract(run), candidate.tree, mirror, found)
                await judge_whole_change(candidate, _contract(run), mirror, self.policies, found)
            if candidate is not None and await self.secrets.judge(candidate.changes, mirror, found):
                patch, names = await asyncio.gather(
                    self.artifacts.put_artifact(candidate.patch), self.artifacts.put_artifact(candidate.names)
                )
                found.saw("patch", patch)
        except GatewrightError as error:
            _fail(found, error)
        report = found.report(self.clock, started)
        if candidate is None:
            return q.CandidateVerdict(report, "", patch, names, 0)
        return q.CandidateVerdict(report, candidate.tree, patch, names, len(candidate.changes))

    async def _on_report(self, document: ReviewReport | TestReport, found: GateReportBuilder, started: float) -> q.Verdict:
        """Keep the report as an artifact: a round of fixing is shown it as evidence."""
        found.saw("report", await self.artifacts.put_artifact(codec.encode(document)))
        return q.Verdict(found.report(self.clock, started))

    async def _landing(self, run: Run) -> q.LandingVerdict:
        found, started = self._begin(run, "landing")
        commit, tree, ref, previous = "", "", "", None
        try:
            mirror = await self._mirror(run)
            await bring_candidate(run, mirror, self.artifacts)
            await judge_completion(run, _contract(run), mirror, self.artifacts, found)
            await judge_evidence_rules(run, _contract(run), mirror, self.artifacts, self.policies, found)
            if found.clean and run.locks is not None:
                await self._fence(run, run.locks, found)
            if found.clean:
                commit, tree, ref, previous = await land(run, _contract(run), mirror, found)
        except GatewrightError as error:
            _fail(found, error)
        return q.LandingVerdict(found.report(self.clock, started), commit, tree, ref, previous)

    async def _fence(self, run: Run, locks: LocksTaken, found: GateReportBuilder) -> None:
        """Who believes that a run stands where it no longer does (it has ended meanwhile) does not move the ref for it."""
        if not await self.locks.holds(locks.repository_url, run.run_id, locks.token):
            found.violate("locks_lost", "locks", f"token {locks.token} holds nothing any more")

    async def _approved(self, run: Run, found: GateReportBuilder) -> Approved:
        repository, now = run.accepted.repository_url, self.clock.now()
        return await read_approval(_contract(run), repository, self.artifacts, self.approvers, now, found)

    async def _mirror(self, run: Run) -> Mirror:
        mirror = await self.mirrors.open(run.accepted.repository_url)
        await mirror.ensure(run.accepted.baseline_commit)
        return mirror


def claim_of(run: Run, contract: TaskContract) -> Claim:
    """What the run has to have to itself: its paths, on the ref that it lands on."""
    ref = landing_ref(run.run_id, contract.repository) if contract.repository is not None else ""
    return Claim(run.run_id, ref, contract.allowed_paths, TASK_CLASSES.index(priority_of(run)))


def _contract(run: Run) -> TaskContract:
    """The run's contract; whoever asks about a run without one is answered by a failed gate."""
    if run.contract is None:
        raise GatewrightError(f"{run.run_id} has no contract yet", code="gate_not_evaluated")
    return run.contract


def _fail(found: GateReportBuilder, error: GatewrightError) -> None:
    if isinstance(error, BusError | ConflictError) or is_waited_for(error):
        raise error
    found.violate(error.reason, f"{found.gate}_gate", error.message)
