"""Deliveries: a message that meets a defect of the gatekeeper's own must not come back for ever."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Message
from gatewright.bus.topology import result_subject
from gatewright.bus.versions import WAITED_FOR
from gatewright.clock import SystemClock
from gatewright.contracts import Error, StatusRequest, codec
from gatewright.errors import BusError
from gatewright.evidence.signing import keys
from gatewright.evidence.signing.envelopes import Signer
from gatewright.evidence.writer import BundleWriter
from gatewright.ledger.store import Ledger
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.gates.engine import GateEngine
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.result_consumer import MOST_CRASHES, MOST_ENDINGS, RETRY, ResultConsumer
from gatewright.services.gatekeeper.intake.run_queries import RunQueries
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.projections.bundle_archives import BundleArchives
from gatewright.services.gatekeeper.projections.publisher_runs import PublisherRuns
from gatewright.services.gatekeeper.projections.run_index import RunIndex
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.gatekeeper.publishing import make_result_consumer


class BrokenLedger(Ledger):
    async def load(self, run_id: str) -> object:  # type: ignore[override]  # it never returns
        raise KeyError(run_id)


@dataclass
class Given:
    """A delivery that remembers how it was settled."""

    message: Message
    attempts: int
    settled: list[str] = field(default_factory=list)

    async def ack(self) -> None:
        self.settled.append("ack")

    async def nak(self, delay: float = 0.0) -> None:
        self.settled.append(f"nak {delay}")

    async def term(self) -> None:
        self.settled.append("term")

    async def in_progress(self) -> None: ...


@pytest.fixture
async def broken(bus: MemoryBus, gates: GateEngine, tmp_path: Path) -> ResultConsumer:
    log, metrics = make_logger(), Metrics("gatekeeper")
    signer = Signer(keys.load_or_create(tmp_path / "key.pem"))
    orchestrator = Orchestrator(
        bus, BrokenLedger(bus), gates, BundleWriter(tmp_path / "runs"), signer, SystemClock(), log, metrics
    )
    limits = PublisherLimits(PublisherRuns(SystemClock(), frozenset()), SystemClock())
    return make_result_consumer(orchestrator, limits, SecretScanner())


def make_delivery(attempts: int) -> Given:
    answer = Error(code="task_failed", message="x", run_id="run-0123456789", task_id="run-0123456789.pm")
    message = Message(result_subject("pm"), codec.encode(answer), {"Gw-Schema": "error.v1"}, sequence=7)
    return Given(message, attempts)


async def test_a_defect_ends_the_process_and_leaves_the_message_for_the_next(broken: ResultConsumer) -> None:
    delivery = make_delivery(attempts=1)
    with pytest.raises(KeyError):
        await broken.handle(delivery)
    assert delivery.settled == []


async def test_a_message_that_meets_a_defect_every_time_is_put_aside(broken: ResultConsumer, bus: MemoryBus) -> None:
    """Where ending its run meets the defect, too, after some more deliveries."""
    last = MOST_CRASHES + MOST_ENDINGS
    for attempts in (MOST_CRASHES, last - 1, last):
        delivery = make_delivery(attempts)
        with pytest.raises(KeyError):
            await broken.handle(delivery)
        assert delivery.settled == (["term"] if attempts == last else [])
    (buried,) = [message async for message in bus.replay("gw.dead.gatekeeper")]
    assert buried.data == delivery.message.data
    assert buried.headers["Gw-Dead-Code"] == "internal_error"


class Unsettled(Given):
    """A delivery whose settlements all get lost."""

    async def ack(self) -> None:
        raise BusError("the bus is away")

    async def nak(self, delay: float = 0.0) -> None:
        raise BusError("the bus is away")

    async def term(self) -> None:
        raise BusError("the bus is away")


async def test_a_settlement_that_gets_lost_does_not_end_the_gatekeeper(broken: ResultConsumer, bus: MemoryBus) -> None:
    """The message comes again after ``ack_wait``; put aside, it is put aside once."""
    for _ in range(2):
        await broken.handle(Unsettled(Message(result_subject("pm"), b"no document", {}, sequence=7), 1))
    assert len([message async for message in bus.replay("gw.dead.gatekeeper")]) == 1
    waiting = replace(broken.orchestrator, ledger=HostFails(broken.bus))
    results = make_result_consumer(waiting, broken.submissions.limits, SecretScanner())
    await results.handle(Unsettled(make_delivery(1).message, 1))


class HostFails(Ledger):
    """Every look into it meets what the operating system refuses."""

    number = errno.ENOSPC

    async def load(self, run_id: str) -> object:  # type: ignore[override]  # it never returns
        raise OSError(self.number, os.strerror(self.number), f"/home/{run_id}")


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk_full"),
        (errno.EDQUOT, "disk_full"),
        (errno.EIO, "disk_failed"),
        (errno.EROFS, "disk_read_only"),
        (errno.EACCES, "permission_denied"),
        (errno.EMFILE, "too_many_open_files"),
        (errno.ENOMEM, "memory_exhausted"),
    ],
)
async def test_a_host_error_returns_the_input_with_its_own_code(
    broken: ResultConsumer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, code: str
) -> None:
    ledger = HostFails(broken.bus)
    ledger.number = number
    orchestrator, limits = replace(broken.orchestrator, ledger=ledger), broken.submissions.limits
    results = make_result_consumer(orchestrator, limits, SecretScanner())
    for attempts in (1, MOST_CRASHES + 1):
        delivery = make_delivery(attempts)
        await results.handle(delivery)
        assert delivery.settled == [f"nak {RETRY}"]
    question = StatusRequest(run_id="run-0123456789")
    monkeypatch.setattr("gatewright.services.gatekeeper.intake.run_queries.Ledger", lambda _bus: ledger)
    archives = BundleArchives(tmp_path / "runs", tmp_path / "outgoing")
    questions = RunQueries(results.bus, orchestrator, limits, RunIndex(), archives, results.log)
    asked = questions.endpoints()["gw.status"]
    reply = await asked(Message("gw.status", codec.encode(question), {"Gw-Schema": "status_request.v1"}))
    assert codec.decode(reply.data, Error).code == code


@pytest.mark.parametrize(("age", "settled"), [(0.0, [f"nak {RETRY}"]), (WAITED_FOR + 60, ["term"])])
async def test_an_answer_of_another_version_waits_for_a_limited_time(
    broken: ResultConsumer, age: float, settled: list[str]
) -> None:
    stored_at = SystemClock().now().timestamp() - age
    headers = {"Gw-Schema": "task_result.v2", "Gw-Version": "99.0.0"}
    delivery = Given(Message(result_subject("worker"), b"{}", headers, sequence=7, stored_at=stored_at), attempts=1)
    await broken.handle(delivery)
    assert delivery.settled == settled
