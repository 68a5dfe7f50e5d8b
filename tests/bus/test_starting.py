"""Starts and set-up commands on a server that is too busy to answer: they wait, log each attempt and go on by themselves."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gatewright.app.cli import topology
from gatewright.app.cli.context import CommandContext
from gatewright.bus.identities import BusAddress
from gatewright.bus.jetstream import connection as connections
from gatewright.bus.jetstream import setup, starting
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.starting import repeat_until_answered
from gatewright.bus.port import NO_ANSWER, Message, Reply
from gatewright.bus.topology import DEFAULT_POOL, INTAKE_CONSUMER
from gatewright.errors import BusError
from tests.unauthenticated_nats import OpenServer


class Attempts(logging.Handler):
    """Counts the attempts that were logged as failed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.failed = asyncio.Semaphore(0)
        self.words: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.words.append(record.getMessage())
        self.failed.release()


@pytest.fixture
def attempts() -> Iterator[Attempts]:
    found = Attempts()
    starting.log.addHandler(found)
    yield found
    starting.log.removeHandler(found)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[OpenServer]:
    async with await OpenServer.open(tmp_path) as running:
        yield running


@contextmanager
def starved(server: OpenServer) -> Iterator[None]:
    """The server takes connections and gets no time to answer."""
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def test_a_set_up_waits_for_a_server_that_does_not_answer(
    server: OpenServer, attempts: Attempts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topology, "_PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(setup, "_PATIENCE_SECONDS", 0.3)
    address = BusAddress(server.url)
    place = CommandContext(tmp_path, tmp_path / "home", address, tmp_path / "key")
    with starved(server):
        applying = asyncio.create_task(topology.apply_topology(place, (DEFAULT_POOL,), None))
        await attempts.failed.acquire()
        await attempts.failed.acquire()
        assert not applying.done()
    assert await applying == server.url
    assert "retry in" in attempts.words[0]
    bus = await JetStreamBus.connect(server.url, name="tests")
    await (await bus.consume(INTAKE_CONSUMER)).close()
    await bus.close()


async def test_a_service_registers_once_a_starved_server_answers(
    server: OpenServer, attempts: Attempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(message: Message) -> Reply:
        return Reply(message.data, "s")

    gatekeeper = await JetStreamBus.connect(server.url, name="gatekeeper")
    asker = await JetStreamBus.connect(server.url, name="publisher")
    monkeypatch.setattr(connections, "_FLUSH_SECONDS", 0.2)
    with starved(server):
        registering = asyncio.create_task(gatekeeper.serve("gw-gatekeeper", {"gw.status": answer}))
        await attempts.failed.acquire()
        await attempts.failed.acquire()
        assert not registering.done()
    await registering
    reply = await asker.request("gw.status", b"question", schema="s", timeout=30)
    assert reply.data == b"question"
    await gatekeeper.close()
    await asker.close()


async def test_a_refusal_ends_a_start_at_once() -> None:
    async def refuse() -> None:
        raise BusError("no such identity", code="credential_refused")

    with pytest.raises(BusError, match="no such identity"):
        await repeat_until_answered(refuse)


async def test_a_start_gives_up_after_its_time_and_when_it_is_useless(attempts: Attempts) -> None:
    async def silent() -> None:
        raise BusError("no answer", code=NO_ANSWER)

    for limits in ({"seconds": 0.0}, {"useless": lambda: True}):
        with pytest.raises(BusError, match="no answer"):
            await repeat_until_answered(silent, **limits)
    assert attempts.words == []


async def test_a_reason_that_the_caller_takes_as_passing_is_waited_out() -> None:
    asked: list[str] = []

    async def attempt() -> str:
        asked.append("asked")
        if len(asked) < 3:
            raise BusError("the server reads its configuration", code="credential_refused")
        return "done"

    assert await repeat_until_answered(attempt, passing=starting.PASSING | {"credential_refused"}) == "done"
    asked.clear()
    with pytest.raises(BusError):
        await repeat_until_answered(attempt)
