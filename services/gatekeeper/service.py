"""The gatekeeper as a process: assembles its parts and runs their loops. Nothing is judged or decided here."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.jetstream.setup import ensure_queues
from gatewright.bus.jetstream.starting import repeat_until_answered
from gatewright.bus.port import Subscription
from gatewright.bus.topology import (
    EVENTS_SUBJECT,
    EXHAUSTED_CONSUMER,
    INTAKE_CONSUMER,
    OPERATOR_INTAKE_CONSUMER,
    RESULT_CONSUMER,
    SUBMIT_SUBJECT,
    Consumer,
    consumers,
)
from gatewright.errors import ConfigurationError, MalformedError, StoreError, UnavailableError
from gatewright.evidence.signing import keyring
from gatewright.evidence.signing.keyring import HomeSigner
from gatewright.host_errors import check_room, host_errors
from gatewright.host_facts import program_versions
from gatewright.ledger.store import Ledger
from gatewright.pause import pause_unless
from gatewright.run.state import Run
from gatewright.secrets.scanner import SecretScanner
from gatewright.service.mirror_care import look_after
from gatewright.service.process import Service
from gatewright.services.gatekeeper.artifact_cache import ArtifactCache
from gatewright.services.gatekeeper.budget_accounts import BudgetAccounts
from gatewright.services.gatekeeper.consumer import InputConsumer
from gatewright.services.gatekeeper.decider.inputs import Continue
from gatewright.services.gatekeeper.gates.change.packages import Puller
from gatewright.services.gatekeeper.gates.change.secrets import SecretsCheck
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.gates.landing.locks import PathLocks
from gatewright.services.gatekeeper.gates.standing_grants import StandingGrants
from gatewright.services.gatekeeper.intake.agent_questions import AgentQuestionService
from gatewright.services.gatekeeper.intake.approvals import ApprovalService
from gatewright.services.gatekeeper.intake.claims import ClaimListener
from gatewright.services.gatekeeper.intake.endpoint import SubmissionService
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.merge_queries import MergeQueueService
from gatewright.services.gatekeeper.intake.result_consumer import ResultConsumer
from gatewright.services.gatekeeper.intake.run_queries import RunQueries
from gatewright.services.gatekeeper.intake.summons import SummonsService
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.load import load
from gatewright.services.gatekeeper.projections.bundle_place import BundlePlace
from gatewright.services.gatekeeper.projections.checkpoint import CHECKPOINTS, Checkpoint
from gatewright.services.gatekeeper.projections.follower import LOOK, LedgerFollower
from gatewright.services.gatekeeper.projections.memory_index import MemoryIndex
from gatewright.services.gatekeeper.projections.played_index import PlayedIndex
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.services.gatekeeper.projections.silent_runs import SilentRuns
from gatewright.services.gatekeeper.publisher_queues import PublisherQueues
from gatewright.services.gatekeeper.queue.composing import Composer
from gatewright.services.gatekeeper.queue.merge_queues import MergeQueues
from gatewright.services.gatekeeper.queue.receipts import ReceiptWriter
from gatewright.services.gatekeeper.run_metrics import watch_queues
from gatewright.services.gatekeeper.settings import Settings

#: Queues that are read from the start; queues of named publishers are added later.
_STANDING_QUEUES = (INTAKE_CONSUMER, OPERATOR_INTAKE_CONSUMER, RESULT_CONSUMER, EXHAUSTED_CONSUMER)
#: Seconds between two attempts to seal bundles that could not be written.
DEBTS = 2.0


async def serve(service: Service, settings: Settings) -> None:
    """Process messages until shutdown. Then finish the inputs in progress, or return them at once."""
    place = BundlePlace.of(settings)
    memories, played = MemoryIndex(), PlayedIndex()
    orchestrator, results = assemble(service, settings, place, memories, played)
    submissions = results.submissions
    silent = SilentRuns(orchestrator.policies.beats)
    follower = LedgerFollower(orchestrator, publishers=submissions.limits.runs, memories=memories, played=played, silent=silent)
    follower.checkpoint = await asyncio.to_thread(_checkpoint, service, settings)
    limits, index, approvals = submissions.limits, follower.index, follower.approvals
    asked = RunQueries(
        service.bus, orchestrator, limits, index, place.archives(), service.log, silent, approvals, played=played
    )
    claims = ClaimListener(service.bus, silent, service.clock, service.log, service.metrics)

    async def mend() -> None:
        await ensure_queues(service.bus, consumers(settings.pools, coming.publishers))

    inputs = InputConsumer(results, service.stop, service.log, settings.parallel_inputs, settings.drain_seconds, mend)
    coming = PublisherQueues(service.bus, inputs, service.log)
    room = settings.mirror_room("gatekeeper", orchestrator.ledger.baselines)
    async with contextlib.AsyncExitStack() as stack:
        queues = [await _open_consumer(service, consumer, stack) for consumer in _STANDING_QUEUES]
        async with asyncio.TaskGroup() as group:
            # In parallel: the first secret scan waits for it, and the process ends if it fails.
            group.create_task(asyncio.to_thread(submissions.scanner.prepare))
            # Also in parallel: a long ledger takes minutes to read, and a submission needs only its own subject.
            following = group.create_task(_look_after(service, follower, results.queues))
            timing = group.create_task(follower.deadlines.keep(orchestrator, service.stop))
            tending = group.create_task(look_after(room, service.log))
            summonses = SummonsService(orchestrator, submissions.limits, service.log, submissions.scanner)
            handlers = {SUBMIT_SUBJECT: submissions.submit, **asked.endpoints(), **summonses.endpoints()}
            people = ApprovalService(orchestrator, follower.index, follower.approvals, service.log, submissions.scanner)
            doors = _doors(tuple(handlers), _publisher_names(orchestrator))
            doors.append({subject: subject for subject in people.endpoints()})
            agents = AgentQuestionService(orchestrator, service.log, submissions.scanner)
            doors.append({subject: subject for subject in agents.endpoints()})
            handlers |= {**people.endpoints(), **agents.endpoints()}
            if results.queues is not None:
                merging = MergeQueueService(
                    results.queues, orchestrator, submissions.limits, follower.index, service.log, submissions.scanner
                )
                doors.extend(_doors(tuple(merging.questions()), _publisher_names(orchestrator)))
                doors.append({subject: subject for subject in merging.actions()})
                handlers |= {**merging.questions(), **merging.actions()}
            await service.register(
                {subject: inputs.attend_handler(handlers[plain]) for door in doors for subject, plain in door.items()},
                waiting=[subject for door in doors for subject, plain in door.items() if plain == EVENTS_SUBJECT],
                apart=doors,
            )
            group.create_task(_release(service.stop, follower.index))
            debts = _Debts(service, orchestrator)
            paying = group.create_task(debts.pay())
            group.create_task(debts.report())
            group.create_task(claims.keep(service.stop))
            if orchestrator.accounts is not None:
                group.create_task(orchestrator.accounts.watch(service.stop, service.metrics, service.log))
            if results.queues is not None:
                group.create_task(results.queues.keep(service.stop))
            group.create_task(follower.notices.keep(service.bus, service.clock, service.stop))
            group.create_task(watch_queues(service, lambda: consumers(settings.pools, coming.publishers)))
            # Its first step runs after the next line: queues can only be added to a running consumer.
            group.create_task(coming.keep(service.stop))
            await inputs.run(queues)
            tending.cancel()
            paying.cancel()  # it may wait for a hanging store
            await asyncio.wait({following, timing}, timeout=settings.drain_seconds)
            following.cancel()
            timing.cancel()
    follower.close()


def _checkpoint(service: Service, settings: Settings) -> Checkpoint | None:
    try:
        return Checkpoint.in_folder(settings.home / CHECKPOINTS)
    except OSError as error:
        service.log.warning("checkpoint_unusable", cause=str(error))
        return None


def _publisher_names(orchestrator: Orchestrator) -> list[str]:
    return [each.name for each in orchestrator.policies.publishers.publishers]


def _doors(plain: Sequence[str], publishers: Iterable[str]) -> list[dict[str, str]]:
    """Return the subjects of each publisher, and those shared by unlisted ones: subject -> plain subject.

    Each publisher has a separate subscription. The server disconnects a slow reader, and no publisher may cause that for
    another one or for the gatekeeper's own work.
    """
    endings = ["" if name == DEFAULT_PUBLISHER else f".{name}" for name in publishers]
    return [{f"{each}{ending}": each for each in plain} for ending in (*endings, ".*")]


async def _look_after(service: Service, follower: LedgerFollower, queues: MergeQueues | None) -> None:
    """Read merge queues and ledger to their ends, then follow the ledger and check for stalled runs, until shutdown."""
    while not service.stop.is_set():
        try:
            if queues is not None:
                await queues.catch_up()
            await follower.catch_up()
            await follower.settle()
        except UnavailableError as error:
            service.log.warning("ledger_unavailable", code=error.reason, cause=error.message)
            await asyncio.sleep(LOOK)
        else:
            break
    service.log.info("ledger_read", sequence=max(follower.seen, default=0), open_runs=len(follower.runs))
    async with asyncio.TaskGroup() as group:
        following = group.create_task(follower.follow())
        await follower.watch(service.stop)
        following.cancel()


def assemble(
    service: Service,
    settings: Settings,
    place: BundlePlace,
    memories: MemoryIndex | None = None,
    played: PlayedIndex | None = None,
) -> tuple[Orchestrator, ResultConsumer]:
    """Assemble the gatekeeper's parts.

    Raises:
        ConfigurationError: a policy file or the signing key cannot be used.
    """
    policies = load(settings.policies, settings.publishers)
    policies.pools.check_served(settings.pools)
    signer = HomeSigner(settings.home, settings.signing_key)

    def foreign(run_id: str, sequence: int) -> None:
        service.metrics.ledger_foreign_message()
        service.log.warning("ledger_foreign_message", run_id=run_id, sequence=sequence)

    ledger = Ledger(service.bus, foreign)

    async def has_ended(run_id: str) -> bool:
        """Return whether a run has ended.

        A run with an unreadable history never moves again and must not hold paths forever.
        """
        try:
            run = (await ledger.load(run_id)).run
        except MalformedError as error:
            service.log.error("run_unreadable", run_id=run_id, code=error.reason, cause=error.message)  # noqa: TRY400 - the cause is named
            return True
        if run is not None and run.sealed is not None:
            ledger.forget(run_id)
        return run is None or run.ended

    locks = PathLocks(service.bus, has_ended)
    mirrors = settings.open_mirrors("gatekeeper", ledger.baselines, settings.user_signs)
    artifacts = ArtifactCache(service.bus)
    scanner = settings.scanner()
    composer = Composer(ledger, mirrors, artifacts)

    async def wake(run_id: str) -> None:
        await orchestrator.advance(run_id, Continue(f"{run_id}:queue"))

    async def find(run_id: str) -> Run | None:
        run = (await ledger.load(run_id)).run
        if run is not None and run.sealed is not None:
            ledger.forget(run_id)
        return run

    async def lapsed(run: Run) -> str:
        return await gates.lapsed_approvals(run)

    queues = MergeQueues(
        bus=service.bus,
        ledger=ledger,
        composer=composer,
        artifacts=artifacts,
        rules=policies.queues,
        clock=service.clock,
        log=service.log,
        metrics=service.metrics,
        receipts=ReceiptWriter(artifacts, composer),
        lapsed=lapsed,
        wake=wake,
    )
    gates = GateEngine(
        policies=policies,
        mirrors=mirrors,
        artifacts=artifacts,
        locks=locks,
        clock=service.clock,
        versions=versions(scanner),
        secrets=SecretsCheck(scanner),
        memories=memories,
        earlier=find,
        grants=StandingGrants(service.bus),
        queue=queues,
        history=played,
        puller=Puller(service.bus, service.clock),
    )

    accounts = BudgetAccounts(service.bus, policies.budgets, service.clock, find) if policies.budgets.budgets else None
    bundles = place.writer(lambda: keyring.trusted_keys(settings.home, settings.signing_key) or [signer.public])
    orchestrator = Orchestrator(
        bus=service.bus,
        ledger=ledger,
        gates=gates,
        bundles=bundles,
        signer=signer,
        clock=service.clock,
        log=service.log,
        metrics=service.metrics,
        room=lambda: check_room(settings.home),
        accounts=accounts,
        spans=service.spans,
    )
    quotas = policies.publishers.repository_quotas
    runs = PublisherRuns(service.clock, policies.publishers.counted, repositories=bool(quotas))
    limits = PublisherLimits(runs, service.clock, quotas)
    submissions = SubmissionService(orchestrator, limits, service.log, service.metrics, scanner)
    return orchestrator, ResultConsumer(service.bus, orchestrator, submissions, service.log, service.metrics, scanner, queues)


def versions(scanner: SecretScanner) -> dict[str, str]:
    """Return the versions of the deciding programs, for the manifest.

    Raises:
        ConfigurationError: git is not installed.
    """
    found = program_versions(securesystemslib=metadata.version("securesystemslib"), secret_scanner=scanner.name)
    if "git" not in found:
        raise ConfigurationError("git cannot be run")
    return found


async def _release(stop: asyncio.Event, index: RunIndex) -> None:
    await stop.wait()
    index.release()


@dataclass
class _Debts:
    """Retries failed writes and reports them. ``trouble``: why the bundle store cannot be used."""

    service: Service
    orchestrator: Orchestrator
    trouble: str = ""

    async def pay(self) -> None:
        """Retry writing and sealing what the disk or the store refused, until shutdown."""
        while not self.service.stop.is_set():
            await pause_unless(self.service.stop, DEBTS)
            try:
                with host_errors():
                    await self.orchestrator.pay_debts()
                self.trouble = ""
            except StoreError as error:
                self.trouble = error.message
                self.service.log.warning("bundle_store_unusable", code=error.reason, cause=error.message)
            except UnavailableError as error:
                self.service.log.warning("debts_left_for_later", code=error.reason, cause=error.message)

    async def report(self) -> None:
        """Report pending writes. It runs in parallel to ``pay``, which may wait for a hanging store."""
        service, orchestrator = self.service, self.orchestrator
        while not service.stop.is_set():
            await pause_unless(service.stop, DEBTS)
            service.metrics.bundles_owed(len(orchestrator.owed))
            unwritten = {**orchestrator.owed, **orchestrator.behind}
            if cause := self.trouble or next(iter(unwritten.values()), ""):
                runs = f"{len(unwritten)} runs are not written or sealed: " if unwritten else ""
                service.readiness.lacks("evidence", f"{runs}{cause}")
            else:
                service.readiness.has("evidence")


async def _open_consumer(
    service: Service, consumer: Consumer, stack: contextlib.AsyncExitStack
) -> tuple[Consumer, Subscription]:
    subscription = await repeat_until_answered(lambda: service.bus.consume(consumer), useless=service.stop.is_set)
    stack.push_async_callback(subscription.close)
    return consumer, subscription
