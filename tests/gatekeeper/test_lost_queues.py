"""Servers that lost a gatekeeper's queues, or its place in the ledger, as they were all started anew: it goes on by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import cast

import pytest

from gatewright.bus.jetstream.api import ApiReply
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.setup import ensure_queues, ensure_topology
from gatewright.bus.ledger_layout import Seen
from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import Delivery, Message
from gatewright.bus.topology import RESULT_CONSUMER
from gatewright.errors import BusError
from gatewright.services.gatekeeper import consumer
from gatewright.services.gatekeeper.consumer import InputConsumer
from gatewright.services.gatekeeper.intake.result_consumer import ResultConsumer
from gatewright.services.gatekeeper.projections import follower
from gatewright.services.gatekeeper.projections.follower import LedgerFollower
from gatewright.telemetry.logs import make_logger
from tests.attacks.whole_gatekeeper import open_gatekeeper
from tests.git.repositories import MakeRepository
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE


class Acknowledging:
    """A results that acknowledges whatever comes."""

    def __init__(self) -> None:
        self.background: set[asyncio.Task[None]] = set()
        self.had: asyncio.Queue[bytes] = asyncio.Queue()

    async def handle(self, delivery: Delivery) -> None:
        await delivery.ack()
        self.had.put_nowait(delivery.message.data)


async def test_a_queue_that_the_servers_lost_is_made_anew_and_read_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer, "MEND_PAUSE", 0.05)
    async with await OpenServer.open(tmp_path / "nats") as server:
        await ensure_topology(server.url)
        bus = await JetStreamBus.connect(server.url, name="gatekeeper")
        results, stop = Acknowledging(), asyncio.Event()

        async def mend() -> None:
            await ensure_queues(bus, [RESULT_CONSUMER])

        fed = InputConsumer(cast("ResultConsumer", results), stop, make_logger(), places=2, drain=1.0, mend=mend)
        running = asyncio.create_task(fed.run([(RESULT_CONSUMER, await bus.consume(RESULT_CONSUMER))]))
        for number in range(3):
            await bus.publish("gw.result.pm", b"%d" % number, schema="error.v1", message_id=f"m{number}")
            # What was acknowledged just before the queue was lost comes once more.
            had = [await asyncio.wait_for(results.had.get(), PATIENCE)]
            while had[-1] != b"%d" % number:
                had.append(await asyncio.wait_for(results.had.get(), PATIENCE))
            assert set(had) <= {b"%d" % number, b"%d" % (number - 1)}
            await bus.connection.api(f"CONSUMER.DELETE.RESULTS.{RESULT_CONSUMER.durable}", {}, ApiReply)
        stop.set()
        await asyncio.wait_for(running, PATIENCE)
        await bus.close()


async def test_a_ledger_that_cannot_be_read_for_a_while_is_followed_on(
    make_repository: MakeRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "LOOK", 0.01)
    async with open_gatekeeper(make_repository(), tmp_path) as gatekeeper:
        failures = iter([BusError("stream not found", code="jetstream_10059")] * 3)
        plain, asked = MemoryBus.replay, []

        def replay(self: MemoryBus, subject: str, *, follow: bool = False, after: Seen = 0) -> AsyncGenerator[Message, None]:
            asked.append(after)
            failure = next(failures, None)
            return _failing(failure) if failure else plain(self, subject, follow=follow, after=after)

        monkeypatch.setattr(MemoryBus, "replay", replay)
        looking = LedgerFollower(gatekeeper.orchestrator)
        following = asyncio.create_task(looking.follow())
        await gatekeeper.bus.publish("gw.run.run-0123456789", b"{}", schema="transition.v1", message_id="m")
        async with asyncio.timeout(PATIENCE):
            while not looking.seen:  # noqa: ASYNC110 - it is the follower's own
                await asyncio.sleep(0.01)
        assert not following.done()
        assert asked[:3] == [(), (), ()]
        following.cancel()


async def _failing(failure: BusError) -> AsyncGenerator[Message, None]:
    for each in (failure,):
        raise each
    yield Message("", b"", {})
