"""Gate engine: answers the decider's checks. This is the only I/O between an input and its transition.

When the judged object causes an error, the gate fails with that error's code. Only when the bus is unreachable does the check
stay open: the input is returned and judged later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from gatewright.bus.topology import TASK_CLASSES
from gatewright.clock import Clock
from gatewright.contracts import ReviewReport, TaskContract, TestReport, codec
from gatewright.contracts.reports import GateName
from gatewright.contracts.transfers import TransferManifest
from gatewright.errors import BusError, ConfigurationError, ConflictError, GatewrightError, UnavailableError
from gatewright.git.host.identity import repository_identity
from gatewright.git.mirror import Mirror, Mirrors
from gatewright.git.patches.lines import changed_lines
from gatewright.git.patches.version_moves import version_move
from gatewright.git.process import in_thread
from gatewright.host_errors import is_waited_for
from gatewright.host_facts import host
from gatewright.order_artifacts.hidden_acceptance import shown_to_makers, visible, with_hidden_part
from gatewright.rules import gate_evidence as seen
from gatewright.rules.approvals import is_cleared, judge_batch, judge_decision
from gatewright.rules.landing import landing_ref, lands_by_queue
from gatewright.rules.people.ownership import orderers_of
from gatewright.rules.repairs import REFUSED_BEFORE, after, refused_trees, rejections, revision_order
from gatewright.rules.reports import times
from gatewright.rules.reports.results import RULE as RESULT_RULE
from gatewright.rules.reports.results import broken_by_result
from gatewright.rules.reports.tests import stored_by
from gatewright.rules.rounds import REPAIRABLE, may_repair, repairable
from gatewright.rules.routing import is_due, path_kinds
from gatewright.rules.standing import APPROVAL_LAPSED, HeldRoster, hold_roster, rests_on_people, used_grants, with_roster
from gatewright.run.candidates import made_by
from gatewright.run.events import LocksTaken
from gatewright.run.kinds import KINDS
from gatewright.run.state import Run
from gatewright.run.states import QUEUED
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.decider import gate_checks as q
from gatewright.services.gatekeeper.dispatch.priority import priority_of
from gatewright.services.gatekeeper.gates.cel_gate import judge_evidence_rules
from gatewright.services.gatekeeper.gates.change import candidate as candidates
from gatewright.services.gatekeeper.gates.change.destructive import judge_losses
from gatewright.services.gatekeeper.gates.change.packages import Puller, find_order
from gatewright.services.gatekeeper.gates.change.rebuild_trees import bring_candidate, bring_workers
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck, judge_redactions
from gatewright.services.gatekeeper.gates.change.votes import check_votes, judged_patch
from gatewright.services.gatekeeper.gates.context import ChangeContext, GateContext
from gatewright.services.gatekeeper.gates.contract.intake import judge_intake
from gatewright.services.gatekeeper.gates.contract.memory import FindRun, RunMemories, give_memory, judge_results
from gatewright.services.gatekeeper.gates.contract.plan import judge_plan
from gatewright.services.gatekeeper.gates.contract.policy import judge_compiled, judge_contract, judge_form
from gatewright.services.gatekeeper.gates.contract.transfers import TransferBasis, plan_transfers
from gatewright.services.gatekeeper.gates.granted import claim_grants
from gatewright.services.gatekeeper.gates.landing.completion import changed_paths, judge_completion
from gatewright.services.gatekeeper.gates.landing.landing import LandingOutcome, has_landed, land
from gatewright.services.gatekeeper.gates.landing.locks import Claim, PathLocks
from gatewright.services.gatekeeper.gates.landing.queued import LandedByQueue, LeftQueue, MergeQueue, StillQueued
from gatewright.services.gatekeeper.gates.landing.targets import TargetWatch
from gatewright.services.gatekeeper.gates.report_builder import GateReportBuilder
from gatewright.services.gatekeeper.gates.reports.artifact_checks import check_artifacts, judge_artifacts
from gatewright.services.gatekeeper.gates.reports.citations import judge_citations
from gatewright.services.gatekeeper.gates.reports.packages import KnownAdvisories, judge_licences, judge_vulnerabilities
from gatewright.services.gatekeeper.gates.reports.played_tests import TestHistory, judge_played
from gatewright.services.gatekeeper.gates.reports.recorded_calls import judge_calls, judge_consultation
from gatewright.services.gatekeeper.gates.reports.role_reports import judge_review, judge_tests
from gatewright.services.gatekeeper.gates.standing_grants import StandingGrants
from gatewright.services.gatekeeper.gates.whole_change import judge_reviewed, judge_whole_change
from gatewright.services.gatekeeper.policies.load import Policies
from gatewright.services.gatekeeper.policies.pools import RunNeeds


@dataclass(frozen=True)
class GateEngine:
    """All gates with their collaborators."""

    policies: Policies
    mirrors: Mirrors
    artifacts: ArtifactCache
    locks: PathLocks
    clock: Clock
    versions: dict[str, str]
    secrets: SecretsCheck = field(default_factory=SecretsCheck)
    #: Memory of earlier runs; None when memory is disabled.
    memories: RunMemories | None = None
    #: Finds an earlier run in the ledger; None compares no results of earlier runs.
    earlier: FindRun | None = None
    #: Approvals in advance; None for none.
    grants: StandingGrants | None = None
    #: The merge queues; None where nothing lands by one.
    queue: MergeQueue | None = None
    #: Prepares the packages of changed locks; None where nothing is pulled.
    puller: Puller | None = None
    #: Results by test of earlier reports; None to record none.
    history: TestHistory | None = None
    advisories: KnownAdvisories = field(default_factory=KnownAdvisories)

    @cached_property
    def targets(self) -> TargetWatch:
        """Known states of the targets of runs that wait for people."""
        return TargetWatch(self.mirrors, self.clock)

    async def answer(self, question: q.GateCheck) -> q.Verdict:  # noqa: C901 - one case a question
        """Return the verdict on one check.

        Raises:
            BusError, ConflictError, UnavailableError: the check cannot be answered now; the input must be retried.
        """
        match question:
            case q.IntakeCheck():
                return await self._intake(question)
            case q.ContractCheck(run=run, contract=contract):
                return await self._contract(run, contract)
            case q.PlanCheck(run=run, plan=plan):
                context = self._begin(run, "plan", plan.task_id)
                context.report.saw(seen.PLAN, seen.plan_digest(plan))
                await asyncio.to_thread(judge_plan, context, _contract(run), plan)
                _judge_times(context, run, plan.created_at)
                await judge_consultation(context, run, "techlead", plan.consultation)
                transfers = await self._transfers(context, TransferBasis.of(run, run.pools), _contract(run))
                return q.PlanVerdict(context.close(), transfers)
            case q.LocksCheck(run=run):
                return await self._locks(run)
            case q.DiffCheck(run=run):
                return await (self._diff(question) if run.kind.work_gate == "diff" else self._citations(question))
            case q.IntegratedCheck(run=run):
                return await (self._examined(run) if run.kind.examines else self._judge_integrated(run))
            case q.ReviewCheck(run=run, report=review):
                context = self._begin(run, "reviewer", review.task_id)
                await asyncio.to_thread(judge_review, context, review, run, question.makers)
                _judge_times(context, run, review.reviewed_at)
                await judge_consultation(context, run, "reviewer", review.consultation)
                await judge_redactions(context, review, ())
                return await _store_report(context, review)
            case q.TestsCheck(run=run, report=tests):
                context = self._begin(run, "tests", tests.task_id)
                changed = await changed_paths(run, self.artifacts)
                await asyncio.to_thread(judge_tests, context, tests, run, _contract(run), changed)
                _judge_times(context, run, tests.started_at, tests.finished_at)
                await judge_redactions(context, tests, tests.artifacts)
                outputs = [uri for command in tests.commands for uri in stored_by(command)]
                judge_artifacts(context, tests.artifacts, outputs)
                await check_artifacts(context, [*outputs, *(artifact.uri for artifact in tests.artifacts)])
                await judge_licences(context, tests)
                await judge_vulnerabilities(context, tests, self.advisories)
                await judge_played(context, tests, run, self.history)
                shown = shown_to_makers(tests, _contract(run))
                if shown is not tests:
                    await self.artifacts.put_artifact(codec.encode(shown))
                return await _store_report(context, tests)
            case q.DecisionCheck():
                return await self._people(question)
            case q.GrantsCheck(run=run):
                context = self._begin(run, "approval")
                claims, sha256 = await claim_grants(context, run, self.grants) if self.grants is not None else ((), "")
                return q.GrantsVerdict(context.close(), claims, sha256)
            case q.PullCheck() | q.QueueCheck() | q.WithdrawalCheck() | q.LandingCheck():
                return await self._way_to_target(question)

    async def _way_to_target(self, question: q.PullCheck | q.QueueCheck | q.WithdrawalCheck | q.LandingCheck) -> q.Verdict:
        run = question.run
        match question:
            case q.PullCheck():
                return await self._pull(run)
            case q.QueueCheck():
                return await self._admission(run)
            case q.WithdrawalCheck():
                context = self._begin(run, "queue")
                if self.queue is None or not await self.queue.withdraw(run):
                    context.report.violate("merge_landing", "queue", "the merge queue is landing the run at this moment")
                return q.WithdrawalVerdict(context.close())
            case q.LandingCheck():
                return await (self._queued_landing(run) if run.state == QUEUED else self._landing(run))

    def _begin(self, run: Run, gate: GateName, task_id: str | None = None) -> GateContext:
        context = self._context(GateReportBuilder(run.run_id, gate, task_id, run.attempt))
        context.names_other_policies(run.accepted)
        return context

    def _context(self, report: GateReportBuilder) -> GateContext:
        return GateContext.begin(report, self.policies, self.artifacts, self.clock)

    async def _intake(self, question: q.IntakeCheck) -> q.IntakeVerdict:
        context = self._context(GateReportBuilder(question.run_id, "policy"))
        context.report.saw(seen.POLICIES, self.policies.sha256)
        document, commit, tree = await judge_intake(context, question.document, self.mirrors, question.publisher)
        identity = ""
        if commit and document.repository is not None:
            identity = await in_thread(repository_identity, document.repository.url)
        if self.earlier is not None:
            await judge_results(context, document, question.publisher, self.earlier)
        document = await give_memory(context, document, identity, question.publisher, self.memories)
        policies = self.policies
        facts = (policies.sha256, self.versions, policies.digests, host())
        pack = policies.packs.pack(document.policy_pack or policies.packs.default)
        mutation = pack.mutation.bounds() if pack.mutation and KINDS[document.task_type].lands else None
        pools = policies.pools.placement(RunNeeds.of(document, policies.environments))
        url = document.repository.url if document.repository is not None else ""
        asked = policies.people.of(url) if url else ()
        transfers: tuple[TransferManifest, ...] = ()
        if isinstance(document, TaskContract):
            basis = TransferBasis(question.run_id, url, commit, tree, asked, pools)
            transfers = await self._planless_transfers(context, basis, document)
        return q.IntakeVerdict(
            context.close(),
            document,
            commit,
            tree,
            *facts,
            identity,
            mutation,
            pack.judging,
            asked,
            pools,
            policies.routing,
            policies.memory,
            policies.named_publishers,
            self._orderers(question),
            transfers,
        )

    def _orderers(self, question: q.IntakeCheck) -> tuple[str, ...]:
        publisher = self.policies.publishers.of(question.publisher)
        try:
            people = self.policies.people.roster()[0].people
        except ConfigurationError:
            people = ()  # fewer known orderers: the run is refused earlier
        return orderers_of(question.document, question.publisher, publisher.persons if publisher else (), people)

    async def _contract(self, run: Run, contract: TaskContract) -> q.ContractVerdict:
        context = self._begin(run, "policy")
        await judge_consultation(context, run, "pm", contract.consultation)
        contract = await asyncio.to_thread(self._judge_compiled, context, run, contract)
        pools = self.policies.pools.placement(RunNeeds.of(contract, self.policies.environments))
        transfers = await self._planless_transfers(context, TransferBasis.of(run, pools), contract)
        return q.ContractVerdict(context.close(), pools, transfers)

    def _judge_compiled(self, context: GateContext, run: Run, contract: TaskContract) -> TaskContract:
        if run.request is not None:
            judge_compiled(context, contract, visible(run.request), run.accepted.baseline_commit)
            contract = with_hidden_part(contract, run.request)
        judge_contract(context, contract, from_outside=False)
        if run.request is not None:
            judge_form(context, contract)
        return contract

    async def _planless_transfers(
        self, context: GateContext, basis: TransferBasis, contract: TaskContract
    ) -> tuple[TransferManifest, ...]:
        """Return the manifests of a contract that no plan follows."""
        is_planned = KINDS[contract.task_type].plans or not context.report.clean
        return () if is_planned else await self._transfers(context, basis, contract)

    async def _transfers(
        self, context: GateContext, basis: TransferBasis, contract: TaskContract
    ) -> tuple[TransferManifest, ...]:
        try:
            return await plan_transfers(context, basis, contract, self.mirrors, self.secrets.scanner)
        except GatewrightError as error:
            _fail(context.report, error)
        return ()

    async def _locks(self, run: Run) -> q.LocksVerdict:
        context = self._begin(run, "locks")
        claim = claim_of(run, _contract(run))
        grant = await self.locks.take(run.accepted.repository_key, claim)
        if not grant.token:
            context.report.violate("locks_held", "locks", "held by " + ", ".join(grant.holders))
        context.report.saw(seen.TOKEN, str(grant.token))
        return q.LocksVerdict(context.close(), claim.paths, grant.token, grant.holders)

    async def _diff(self, question: q.DiffCheck) -> q.DiffVerdict:
        run, task, result = question.run, question.task, question.result
        context = self._begin(run, "diff", task.task_id)
        report, tree = context.report, ""
        try:
            patch = await self.artifacts.get_artifact(result.git.patch) if result.git.patch else b""
            report.saw(seen.PATCH, result.git.patch)
            await _judge_result(context, question)
            contract = task.contract or _contract(run)
            change = context.of_change(contract, await self._mirror(run), run.accepted.approval_rules)
            tree = await candidates.judge_patch(change, self.secrets, patch, run)
            if tree and report.clean:
                changes = await change.mirror.changes(run.accepted.baseline_tree, tree)
                await judge_losses(change, changes, tree)
            elif tree and may_repair(run) and {each.code for each in report.violations} <= REPAIRABLE - {"diff_too_large"}:
                # The maker may have to revise the change and receives it then, so it must contain no secret.
                await self.secrets.judge(change, await change.mirror.changes(run.accepted.baseline_tree, tree))
        except GatewrightError as error:
            _fail(report, error)
        verdict = context.close()
        if repairable(run, verdict):
            await self.artifacts.put_artifact(codec.encode(verdict))  # evidence for a fix round
        return q.DiffVerdict(verdict, tree)

    async def _citations(self, question: q.DiffCheck) -> q.DiffVerdict:
        run, task, result = question.run, question.task, question.result
        context = self._begin(run, "citations", task.task_id)
        report = context.report
        try:
            await _judge_result(context, question)
            if result.git.patch:
                report.violate("result_contradicts", RESULT_RULE, "a searcher changes nothing, and this one made a patch")
            await judge_citations(context, task.contract or _contract(run), result)
        except GatewrightError as error:
            _fail(report, error)
        return q.DiffVerdict(context.close(), run.accepted.baseline_tree)

    async def _judge_integrated(self, run: Run) -> q.CandidateVerdict:
        context = self._begin(run, "integrated", run.workers()[0].task_id if run.chosen else None)
        candidate, patch, names, order = None, "", "", None
        try:
            change = context.of_change(_contract(run), await self._mirror(run), run.accepted.approval_rules)
            await bring_workers(change, run)
            candidate = await candidates.compose(change, run)
            if candidate is not None:
                if candidate.tree in refused_trees(run):
                    context.report.violate(REFUSED_BEFORE, "approval", "people refused just this change in a round before")
                await candidates.judge_candidate(change, self.secrets, candidate, run)
                await judge_losses(change, candidate.changes, candidate.tree)
                await judge_whole_change(change, candidate, made_by(run), run.accepted.approval_rules)
                order = await find_order(change, candidate, run) if context.report.clean else None
                # The rules of acceptance time apply: a rule that was removed meanwhile still requires its approval.
                asking = run.accepted.approval_rules
                asked = any(rule.reason == "protected_class" or rule.grants is not None for rule in asking)
                if asked or run.accepted.routing is not None:
                    context.report.asks_about_touched("protected_paths.", "protected_class")
                if await self.secrets.judge(change, candidate.changes):
                    patch, names = await asyncio.gather(
                        self.artifacts.put_artifact(candidate.patch), self.artifacts.put_artifact(candidate.names)
                    )
                    context.report.saw(seen.PATCH, patch)
        except GatewrightError as error:
            _fail(context.report, error)
        report = context.close()
        if candidate is None:
            return q.CandidateVerdict(report, "", patch, names, 0)
        lines = changed_lines(candidate.patch)
        rules = run.accepted.routing
        kinds = path_kinds(rules, (change.path for change in candidate.changes)) if rules is not None else None
        granted = any(rule.grants is not None for rule in run.accepted.approval_rules)
        moved = await asyncio.to_thread(version_move, candidate.patch) if granted else None
        return q.CandidateVerdict(report, candidate.tree, patch, names, len(candidate.changes), lines, kinds, moved, order)

    async def _pull(self, run: Run) -> q.PullVerdict:
        context, made = self._begin(run, "environment"), None
        try:
            if self.puller is None:
                raise UnavailableError("this gatekeeper reaches no puller", code="puller_missing")
            made = await self.puller.pull(context.of_change(_contract(run), await self._mirror(run)), run)
        except GatewrightError as error:
            _fail(context.report, error)
        waits = made is None and context.report.clean
        return q.PullVerdict(context.close(), made or (), waits)

    async def _examined(self, run: Run) -> q.CandidateVerdict:
        """Compose the candidate of a review or a test from commits of the repository."""
        context = self._begin(run, "integrated")
        candidate, patch, names = None, "", ""
        try:
            change = context.of_change(_contract(run), await self._mirror(run))
            candidate = await candidates.take_commits(change, run)
            if candidate is not None:
                await judge_reviewed(change, candidate, run)
            if candidate is not None and await self.secrets.judge(change, candidate.changes):
                patch, names = await asyncio.gather(
                    self.artifacts.put_artifact(candidate.patch), self.artifacts.put_artifact(candidate.names)
                )
                context.report.saw(seen.PATCH, patch)
        except GatewrightError as error:
            _fail(context.report, error)
        if candidate is None:
            return q.CandidateVerdict(context.close(), "", patch, names, 0)
        rules = run.accepted.routing
        kinds = path_kinds(rules, (each.path for each in candidate.changes)) if rules is not None else None
        facts = (len(candidate.changes), changed_lines(candidate.patch), kinds)
        return q.CandidateVerdict(context.close(), candidate.tree, patch, names, *facts)

    async def _people(self, question: q.DecisionCheck) -> q.DecisionVerdict:
        patch = await judged_patch(question.run, question.decisions, self.artifacts)
        revoked = await self.revoked_grants(question.run)
        verdict = await asyncio.to_thread(self._decisions, question, patch, revoked)
        run = question.run if verdict.held is None else with_roster(question.run, verdict.held)
        order = revision_order(after(run, verdict.judged))
        if order is not None:
            await self.artifacts.put_artifact(codec.encode(order))  # evidence for a fix round
        return verdict

    def _decisions(self, question: q.DecisionCheck, patch: bytes, revoked: frozenset[str]) -> q.DecisionVerdict:
        """Judge decisions of people against the current roster. Raises what ``judge_decision`` raises."""
        context = self._begin(question.run, "approval")
        roster, sha256 = self.policies.people.roster()
        held, run = None, question.run
        if run.parked and rests_on_people(run):
            held = hold_roster(run, roster, context.now, revoked)
            run = with_roster(run, held)
        judged = tuple(judge_decision(run, signed, roster, context.now) for signed in question.decisions)
        judge_batch(judged)
        check_votes(run, judged, patch)
        report = context.report
        report.saw(seen.ROSTER, sha256)
        for each in judged:
            decision = each.decision
            verdict = f"{decision.vote.colour} vote" if decision.vote is not None else decision.verdict
            report.checked(seen.decided_rule(each.request.rule), f"{verdict} by {decision.person} with {each.fingerprint}")
            report.saw(seen.decided_request(decision.request_id), decision.request_sha256)
        for broken in rejections(run, judged):
            report.violate(*broken)
        if run.candidate is not None:
            report.saw(seen.CANDIDATE_TREE, run.candidate.tree)
        return q.DecisionVerdict(context.close(), judged, sha256, held)

    async def revoked_grants(self, run: Run) -> frozenset[str]:
        """Return which grants that answered requests of the run are revoked now.

        Raises:
            BusError: the table of grants cannot be read.
        """
        used = used_grants(run)
        records = await self.grants.listed() if used and self.grants is not None else ()
        return frozenset(each.grant.grant_id for each in records if each.revocation is not None) & used

    async def _hold_roster(self, run: Run, now: datetime) -> tuple[HeldRoster | None, str]:
        """Return which answers of people the current roster still accepts, and the roster's digest.

        Raises UnavailableError (``approvers_unusable``) when the roster cannot be read: the run waits until it can.
        """
        if not rests_on_people(run):
            return None, ""
        revoked = await self.revoked_grants(run)
        try:
            roster, sha256 = await asyncio.to_thread(self.policies.people.roster)
        except ConfigurationError as error:
            raise UnavailableError(error.message, code=error.reason) from error
        return await asyncio.to_thread(hold_roster, run, roster, now, revoked), sha256

    async def lapsed_approvals(self, run: Run) -> str:
        """Return why an approval of the run no longer holds, under the current roster; empty when all hold.

        Raises:
            UnavailableError: the roster cannot be read now.
        """
        held, _ = await self._hold_roster(run, self.clock.now())
        return held.words if held is not None and held.reopened else ""

    async def _admission(self, run: Run) -> q.QueueVerdict:
        """Judge whether a candidate may enter the merge queue: as for a landing, without the push."""
        context = self._begin(run, "queue")
        held, sha256 = await self._hold_roster(run, context.now)
        try:
            await self._judge_whole(context, run, held, sha256)
            if run.candidate is not None:
                context.report.saw(seen.TREE, run.candidate.tree)
            if context.report.clean and held is not None and held.reopened:
                context.report.violate(APPROVAL_LAPSED, "approval", held.words)
            if self.queue is None:
                context.report.violate("merge_queue_missing", "queue", "this gatekeeper has no merge queue")
            elif context.report.clean and (why := await self.queue.check_entry(run)):
                context.report.violate("merge_not_possible", "queue", why)
        except GatewrightError as error:
            _fail(context.report, error)
        return q.QueueVerdict(context.close(), held, sha256)

    async def _queued_landing(self, run: Run) -> q.LandingVerdict:
        """Judge a run in the merge queue by what the queue did with it."""
        context = self._begin(run, "landing")
        outcome = await self.queue.outcome(run) if self.queue is not None else StillQueued()
        match outcome:
            case StillQueued():
                return q.LandingVerdict(context.close(), "", "", "", None, waits=True)
            case LeftQueue(code=code, words=words):
                context.report.violate(code, "queue", words)
                return q.LandingVerdict(context.close(), "", "", "", None)
            case LandedByQueue():
                held, sha256 = await self._hold_roster(run, context.now)
                await self._judge_whole(context, run, held, sha256)
                context.report.saw(seen.COMMIT, outcome.commit)
                context.report.saw(seen.TREE, outcome.tree)
                ref = landing_ref(run.run_id, repository) if (repository := _contract(run).repository) is not None else ""
                facts = (outcome.commit, outcome.tree, ref, outcome.previous)
                return q.LandingVerdict(context.close(), *facts, held=held, roster_sha256=sha256, receipt=outcome.receipt)

    async def _judge_whole(self, context: GateContext, run: Run, held: HeldRoster | None, roster_sha256: str) -> ChangeContext:
        """Judge everything that must hold when a candidate lands. Raises GitError, ArtifactError, BusError."""
        if held is not None:
            context.report.saw(seen.ROSTER, roster_sha256)
        change = context.of_change(_contract(run), await self._mirror(run))
        await bring_candidate(change, run)
        await judge_completion(change, run)
        await judge_evidence_rules(change, run)
        if is_due(run):
            context.report.violate("routing_missing", "routing", "how much the change risks was not recorded")
        if not is_cleared(run, "contract") or not is_cleared(run, "candidate"):
            context.report.violate("approval_missing", "approval", "a rule asks a person, who has not approved just this")
        return change

    async def _landing(self, run: Run) -> q.LandingVerdict:
        context = self._begin(run, "landing")
        landed = LandingOutcome()
        held, sha256 = await self._hold_roster(run, context.now)
        try:
            change = await self._judge_whole(context, run, held, sha256)
            if context.report.clean and run.locks is not None:
                await self._fence(context.report, run, run.locks)
            if context.report.clean and held is not None and held.reopened and not await has_landed(change, run):
                context.report.violate(APPROVAL_LAPSED, "approval", held.words)
            if context.report.clean:
                landed = await land(change, run)
        except GatewrightError as error:
            _fail(context.report, error)
        outcome = (landed.commit, landed.tree, landed.ref, landed.previous, landed.found)
        return q.LandingVerdict(context.close(), *outcome, held, sha256)

    async def _fence(self, report: GateReportBuilder, run: Run, locks: LocksTaken) -> None:
        """Fence off a stale replica: it moves no ref for a run that has ended meanwhile."""
        if not await self.locks.holds(locks.repository_url, claim_of(run, _contract(run)), locks.token):
            report.violate("locks_lost", "locks", f"token {locks.token} holds nothing any more")

    async def _mirror(self, run: Run) -> Mirror:
        mirror = await self.mirrors.open(run.accepted.repository_url)
        await mirror.ensure(run.accepted.baseline_commit)
        return mirror


def _judge_times(context: GateContext, run: Run, *stamps: str) -> None:
    """Check that the times in a role's document are plausible."""
    context.report.checked(times.RULE)
    for broken in times.broken_by_times(run, context.now, *stamps):
        context.report.violate(*broken)


async def _judge_result(context: GateContext, question: q.DiffCheck) -> None:
    """Judge what the results of all workers have in common: artifacts, model calls, identity and times."""
    run, task, result = question.run, question.task, question.result
    judge_artifacts(context, result.artifacts)
    await check_artifacts(context, [artifact.uri for artifact in result.artifacts])
    await judge_calls(context, run, task.role, result.artifacts, result.usage)
    await judge_redactions(context, result, result.artifacts)
    context.report.checked(RESULT_RULE)
    for broken in broken_by_result(result, task, run):
        context.report.violate(*broken)
    _judge_times(context, run, result.started_at, result.finished_at)


async def _store_report(context: GateContext, document: ReviewReport | TestReport) -> q.Verdict:
    """Store the report as an artifact: a fix round receives it as evidence."""
    context.report.saw(seen.REPORT, await context.artifacts.put_artifact(codec.encode(document)))
    return q.Verdict(context.close())


def claim_of(run: Run, contract: TaskContract) -> Claim:
    """Return the paths that the run must hold exclusively, on the ref that it lands on.

    A run that lands by the merge queue holds them on a ref of its own: the queue finds conflicts, and no run waits for another.
    """
    ref = landing_ref(run.run_id, contract.repository) if contract.repository is not None else ""
    ref = run.run_id if lands_by_queue(run) else ref
    return Claim(run.run_id, ref, contract.allowed_paths, TASK_CLASSES.index(priority_of(run)))


def _contract(run: Run) -> TaskContract:
    """Return the run's contract. Without a contract the gate fails."""
    if run.contract is None:
        raise GatewrightError(f"{run.run_id} has no contract yet", code="gate_not_evaluated")
    return run.contract


def _fail(report: GateReportBuilder, error: GatewrightError) -> None:
    if isinstance(error, BusError | ConflictError) or is_waited_for(error):
        raise error
    report.violate(error.reason, f"{report.gate}_gate", error.message)
