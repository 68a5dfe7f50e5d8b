"""What publishers leave for the gatekeeper: one that fills its part is refused, and takes nothing from any other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from gatewright.bus import identities
from gatewright.bus.identities import PROVISIONER
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.server_config import accounts
from gatewright.bus.topology import INTAKE_CONSUMER, RUNS_SUBJECT, intake_consumer
from gatewright.clock import SystemClock
from gatewright.contracts import codec
from gatewright.contracts.vocabulary import Repository
from gatewright.errors import BusError
from gatewright.service.process import Readiness, Service
from gatewright.services.gatekeeper import publisher_queues
from gatewright.services.gatekeeper.service import serve
from gatewright.services.gatekeeper.settings import Settings
from gatewright.telemetry.logs import make_logger
from gatewright.telemetry.metrics import Metrics
from tests.factories import make_request
from tests.faults.bus_parties import NAMED, Bus, open_bus
from tests.faults.test_identity_changes import House, house
from tests.git.repositories import MakeRepository
from tests.waiting import PATIENCE, until

__all__ = ["house"]

#: As large as a message can be.
LARGE = bytes(8_000_000)
#: More than any stream of publishers holds.
ENOUGH = 140


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Bus]:
    async with open_bus(tmp_path) as opened:
        yield opened


async def leave(bus: JetStreamBus, subject: str, data: bytes, number: int = 0) -> None:
    await bus.publish(subject, data, schema="run_request.v1", message_id=f"{subject}-{number}")


async def fill(bus: JetStreamBus, subject: str) -> BusError:
    """Leave messages until one is refused."""
    try:
        for number in range(ENOUGH):
            await leave(bus, subject, LARGE, number)
    except BusError as refused:
        return refused
    raise AssertionError(f"{ENOUGH} messages were taken")


@pytest.mark.long
async def test_a_full_publisher_queue_blocks_no_other_publisher(
    server: Bus,
) -> None:
    greedy, other, operator, gatekeeper = [
        await JetStreamBus.connect(server.server.address(identity), name="bus", patience=5)
        for identity in (NAMED, identities.PUBLISHER, identities.OPERATOR, "gatekeeper")
    ]
    refused = await fill(greedy, "gw.intake.request.ci")
    assert refused.reason == "queue_full"
    assert "INTAKE_ci" in refused.message
    assert "when the gatekeeper has processed part" in refused.message
    assert greedy.streams.failing() == {}
    for bus, ending in ((other, ""), (operator, ".operator")):
        for kind in ("request", "contract", "abort"):
            await leave(bus, f"gw.intake.{kind}{ending}", bytes(4_000_000))
    # Nor is there room for the aborts of the one itself, until the gatekeeper has taken from its queue.
    with pytest.raises(BusError):
        await leave(greedy, "gw.intake.abort.ci", LARGE)
    subscription = await gatekeeper.consume(intake_consumer("ci"))
    taken = await subscription.next(10)
    assert taken is not None
    await taken.ack()
    await subscription.close()
    await leave(greedy, "gw.intake.abort.ci", b"{}")
    for bus in (greedy, other, operator, gatekeeper):
        await bus.close()


async def test_an_older_shared_stream_is_migrated_to_publisher_queues(
    tmp_path: Path,
) -> None:
    from gatewright.app.stack.nats_server import NatsServer

    identities.make(tmp_path / "bus", (*identities.STANDING, NAMED))
    table = accounts(identities.public_keys(tmp_path / "bus"))
    async with await NatsServer.launch(tmp_path / "nats", table, tmp_path / "bus") as server:
        provisioner = await JetStreamBus.connect(server.address(PROVISIONER), name="setup")
        old = {
            "name": "INTAKE",
            "subjects": ["gw.intake.>"],
            "retention": "workqueue",
            "storage": "file",
            "discard": "new",
            "max_bytes": 1 << 30,
        }
        await provisioner.connection.request("$JS.API.STREAM.CREATE.INTAKE", msgspec.json.encode(old), timeout=PATIENCE)
        client = (await JetStreamBus.connect(server.address(NAMED), name="ci")).connection
        for number in range(3):
            await client.request("gw.intake.request.ci", b"old %d" % number, timeout=PATIENCE)
        await ensure_topology(server.address(PROVISIONER))
        await client.request("gw.intake.request.ci", b"new", timeout=PATIENCE)
        gatekeeper = await JetStreamBus.connect(server.address("gatekeeper"), name="gatekeeper")
        for queue, wanted in ((INTAKE_CONSUMER, [b"old 0", b"old 1", b"old 2"]), (intake_consumer("ci"), [b"new"])):
            subscription = await gatekeeper.consume(queue)
            found: list[bytes] = []
            while len(found) < len(wanted) and (delivery := await subscription.next(5)) is not None:
                found.append(delivery.message.data)
                await delivery.ack()
            assert found == wanted
            await subscription.close()
        for opened in (provisioner.connection, client, gatekeeper.connection):
            await opened.close()


@contextlib.asynccontextmanager
async def gatekeeping(bus: JetStreamBus, home: Path, *publishers: str) -> AsyncIterator[Metrics]:
    stop, log, metrics = asyncio.Event(), make_logger(level="error"), Metrics("gatekeeper")
    readiness = Readiness({"registration": "no"})
    service = Service("gatekeeper", bus, SystemClock(), log, metrics, readiness, stop)
    serving = asyncio.create_task(serve(service, Settings(home=home, publishers=publishers, drain_seconds=0.1)))
    try:
        while readiness.missing:
            assert not serving.done(), serving.exception()
            await asyncio.sleep(0.01)
        yield metrics
    finally:
        stop.set()
        await asyncio.wait_for(serving, PATIENCE)


@pytest.mark.long
async def test_the_queue_of_a_publisher_is_read_until_its_revocation(
    house: House, make_repository: MakeRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_queues, "LOOK", 0.1)
    gatekeeper = await house.connect("gatekeeper")
    request = make_request(repository=Repository(url=make_repository().url), baseline_ref="HEAD")
    async with gatekeeping(gatekeeper, house.folder / "home", "payments") as metrics, asyncio.timeout(PATIENCE):
        assert (await house.command("add", "publisher-payments"))["confirmed"] is True
        payments = await house.connect("publisher-payments")
        await leave(payments, "gw.intake.request.payments", codec.encode(request))
        while True:
            answer = await payments.request(f"{RUNS_SUBJECT}.payments", b"{}", schema="runs_request.v1", timeout=PATIENCE)
            if b"run-" in answer.data:
                break
            await asyncio.sleep(0.05)
        shown = {"publisher": "payments", "room": "intake"}
        await until(lambda: metrics.registry.get_sample_value("gatewright_publisher_room_used", shown) is not None)
        await house.command("revoke", "publisher-payments")
        await until(lambda: metrics.registry.get_sample_value("gatewright_publisher_room_used", shown) is None)
        assert "gatekeeper" not in house.lost
    for bus in (payments, gatekeeper):
        await bus.close()
