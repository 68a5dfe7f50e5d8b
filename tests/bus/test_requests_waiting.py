"""Requests that a busy service has not come to yet: each is answered, also when the service is closed or has too many."""

from __future__ import annotations

import asyncio

import pytest

from gatewright.bus.jetstream import micro as services
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.port import Message, Reply
from gatewright.errors import BusError
from tests.unauthenticated_nats import OpenServer
from tests.waiting import PATIENCE


async def refusals(asking: list[asyncio.Task[Message]]) -> list[str]:
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    return [outcome.reason for outcome in outcomes if isinstance(outcome, BusError)]


async def ask_a_stuck_service(
    server: OpenServer, number: int
) -> tuple[JetStreamBus, JetStreamBus, list[asyncio.Task[Message]]]:
    """A service that answers nothing, and so many requests to it; all have arrived when this returns."""
    gatekeeper = await JetStreamBus.connect(server.url, name="gatekeeper")
    publisher = await JetStreamBus.connect(server.url, name="publisher")
    arrived = asyncio.Semaphore(0)

    async def never(_message: Message) -> Reply:
        arrived.release()
        await asyncio.Event().wait()
        raise AssertionError

    await gatekeeper.serve("gw-gatekeeper", {"gw.submit": never})
    asking = [asyncio.create_task(publisher.request("gw.submit", b"{}", schema="s", timeout=PATIENCE)) for _ in range(number)]
    for _ in range(min(number, services.CONCURRENT_REQUESTS)):
        await asyncio.wait_for(arrived.acquire(), PATIENCE)
    await gatekeeper.connection.flush()
    return gatekeeper, publisher, asking


async def test_waiting_requests_receive_a_refusal_when_the_service_stops(bare_server: OpenServer) -> None:
    number = services.CONCURRENT_REQUESTS + 16
    gatekeeper, publisher, asking = await ask_a_stuck_service(bare_server, number)
    await gatekeeper.close()
    told = await asyncio.wait_for(refusals(asking), PATIENCE)
    assert len(told) == number
    assert told.count("service_stopping") == 16
    await publisher.close()


async def test_one_request_too_many_is_refused_at_once(bare_server: OpenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "WAITING_REQUESTS", 3)
    gatekeeper, publisher, asking = await ask_a_stuck_service(bare_server, services.CONCURRENT_REQUESTS + 5)
    while sum(task.done() for task in asking) < 2:
        await asyncio.wait([task for task in asking if not task.done()], timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
    await gatekeeper.close()
    told = await asyncio.wait_for(refusals(asking), PATIENCE)
    assert (told.count("service_busy"), told.count("service_stopping")) == (2, 3)
    await publisher.close()


async def test_headers_count_to_the_bytes_in_hand(bare_server: OpenServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "HELD_BYTES", 1000)
    gatekeeper, publisher, asking = await ask_a_stuck_service(bare_server, 1)
    for headers in ({"X-Large": "x" * 1000}, {f"X-{number:040}": "x" for number in range(25)}):
        with pytest.raises(BusError) as refused:
            await publisher.request("gw.submit", b"{}", schema="s", timeout=30, headers=headers)
        assert refused.value.reason == "service_busy"
    await gatekeeper.close()
    await asyncio.gather(*asking, return_exceptions=True)
    await publisher.close()
