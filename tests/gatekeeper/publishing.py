"""A whole gatekeeper in memory with publishers as a policy names them, and messages as the server would let them send."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.permissions import publisher_subjects
from gatewright.bus.port import Message, Reply
from gatewright.contracts import Error, RunRequest, RunStatus, StatusRequest, SubmitReply, TaskContract, codec
from gatewright.contracts.vocabulary import Document
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger.store import Ledger
from gatewright.run.state import Run
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.intake.endpoint import SubmissionService
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.result_consumer import ResultConsumer
from gatewright.services.gatekeeper.intake.run_queries import RunQueries
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.publishers import Publisher, Publishers, RepositoryQuota
from gatewright.services.gatekeeper.projections.bundle_archives import BundleArchives
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.attacks.real_gate import default_scanner

EVERYTHING: dict[str, Any] = {
    "repositories": ["*"],
    "landing_refs": ["refs/heads/*"],
    "kinds": ["request", "contract"],
    "highest_priority": "high",
    "max_document_bytes": 1 << 20,
    "submissions": None,
    "questions": None,
    "max_open_runs": None,
    "max_runs_per_day": None,
    "may_abort": "own",
    "may_see": "own",
}


@dataclass
class HandClock:
    """A clock that a test moves."""

    seconds: float = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


def make_publisher(name: str, **rules: Any) -> Publisher:
    return Publisher.model_validate({"name": name, **EVERYTHING, **rules})


@dataclass
class Given:
    """A delivery that remembers how it was settled."""

    message: Message
    attempts: int = 1
    settled: list[str] = field(default_factory=list)
    delay: float = 0.0

    async def ack(self) -> None:
        self.settled.append("ack")

    async def nak(self, delay: float = 0.0) -> None:
        self.settled.append("nak")
        self.delay = delay

    async def term(self) -> None:
        self.settled.append("term")

    async def in_progress(self) -> None: ...


@dataclass
class IntakeFixture:
    """A gatekeeper's intake, and publishers who use it."""

    bus: MemoryBus
    results: ResultConsumer
    clock: HandClock
    questions: RunQueries
    following: list[asyncio.Task[None]] = field(default_factory=list)
    sequence: int = 100

    async def submit(
        self,
        document: Document | bytes,
        publisher: str = "default",
        *,
        headers: Mapping[str, str] | None = None,
        subject: str | None = None,
    ) -> SubmitReply | Error:
        """Ask ``gw.submit``; the next steps of the run are not waited for."""
        data, plain = _sent(document, headers)
        message = Message(subject or publisher_subjects(publisher)["submit"], data, plain)
        reply = await self.results.submissions.submit(message)
        await asyncio.gather(*self.results.background)
        return codec.decode(reply.data, SubmitReply) if reply.schema == "submit_reply.v1" else codec.decode(reply.data, Error)

    async def store(
        self,
        document: Document | bytes,
        publisher: str = "default",
        *,
        want: str = "request",
        headers: Mapping[str, str] | None = None,
        attempts: int = 1,
        sequence: int | None = None,
    ) -> Given:
        """Have a message of INTAKE handled."""
        self.sequence += 1
        data, plain = _sent(document, headers)
        place = self.sequence if sequence is None else sequence
        given = Given(Message(publisher_subjects(publisher)[want], data, plain, sequence=place), attempts)
        await self.results.handle(given)
        return given

    async def status(self, run_id: str, publisher: str = "default", *, data: bytes | None = None) -> RunStatus | Error:
        asked = codec.encode(StatusRequest(run_id=run_id)) if data is None else data
        reply = await self.ask("status", asked, publisher)
        return codec.decode(reply.data, RunStatus) if reply.schema == "run_status.v1" else codec.decode(reply.data, Error)

    async def ask(self, want: str, question: bytes, publisher: str = "default") -> Reply:
        """Ask one of the endpoints about runs."""
        subject = publisher_subjects(publisher)[want]
        handler = self.questions.endpoints()[publisher_subjects("default")[want]]
        return await handler(Message(subject, question))

    async def run(self, run_id: str) -> Run | None:
        return (await Ledger(self.bus).load(run_id)).run

    async def runs(self) -> set[str]:
        return {message.subject.removeprefix("gw.run.") async for message in self.bus.replay("gw.run.*")}

    async def dead(self) -> list[Message]:
        return [message async for message in self.bus.replay("gw.dead.gatekeeper")]


def _sent(document: Document | bytes, headers: Mapping[str, str] | None) -> tuple[bytes, dict[str, str]]:
    if isinstance(document, bytes):
        return document, dict(headers or {})
    named = {"Gw-Schema": codec.schema_of(document)} if isinstance(document, RunRequest | TaskContract) else {}
    return codec.encode(document), {**named, **(headers or {})}


def make_result_consumer(orchestrator: Orchestrator, limits: PublisherLimits, scanner: SecretScanner) -> ResultConsumer:
    """What settles the deliveries of ``orchestrator``'s bus, with the submission service behind it."""
    bus, log, metrics = orchestrator.bus, orchestrator.log, orchestrator.metrics
    submissions = SubmissionService(orchestrator, limits, log, metrics, scanner)
    return ResultConsumer(bus, orchestrator, submissions, log, metrics, scanner)


def open_intake(
    bus: MemoryBus, gates: GateEngine, folder: Path, *publishers: Publisher, quotas: Sequence[RepositoryQuota] = ()
) -> IntakeFixture:
    """An intake for these publishers. Those with quotas are counted, runs listed, as long as the ``following`` tasks run."""
    policy = Publishers(version="1", publishers=publishers, repository_quotas=tuple(quotas))
    policies = dataclasses.replace(gates.policies, publishers=policy)
    gates = dataclasses.replace(gates, policies=policies)
    clock, log, metrics = HandClock(), make_logger(), Metrics("gatekeeper")
    signer = Signer(keys.load_or_create(folder / "key.pem"))
    orchestrator = Orchestrator(bus, Ledger(bus), gates, BundleWriter(folder / "runs"), signer, clock, log, metrics)
    runs = PublisherRuns(clock, policy.counted, repositories=bool(quotas))
    limits = PublisherLimits(runs, clock, quotas)
    results = make_result_consumer(orchestrator, limits, default_scanner())
    follower = LedgerFollower(orchestrator, publishers=runs)
    follower.index.read_to_the_end()
    runs.read_to_the_end()
    archives = BundleArchives(folder / "runs", folder / "outgoing")
    questions = RunQueries(bus, orchestrator, limits, follower.index, archives, log, follower.silent, follower.approvals)
    return IntakeFixture(bus, results, clock, questions, [asyncio.get_running_loop().create_task(follower.follow())])
