"""A gatekeeper that answers as it was told, and runs that the real decider has written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

import pytest

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import Bus, Message, Reply
from gatewright.bus.topology import SUBMIT_SUBJECT, run_subject
from gatewright.client import Client
from gatewright.contracts import Error, SubmitReply, Transition, codec
from tests.gatekeeper.simulated_run import Script, SimulatedRun


def make_run(script: Script | None = None) -> SimulatedRun:
    """A run that has ended and is sealed."""
    run = SimulatedRun(script or Script())
    while run.under_way:
        run.deliver(run.under_way.pop(0))
    return run


async def write_run(bus: Bus, transitions: Sequence[Transition]) -> None:
    """Put transitions into the ledger."""
    for transition in transitions:
        await bus.publish(
            run_subject(transition.run_id),
            codec.encode(transition),
            schema="transition.v1",
            message_id=f"{transition.run_id}:{transition.number}",
        )


@dataclass
class ScriptedGatekeeper:
    """Answers every submission with ``answer`` and remembers what came."""

    bus: MemoryBus
    answer: SubmitReply | Error = field(default_factory=lambda: SubmitReply(run_id="run-0123456789"))
    received: list[Message] = field(default_factory=list)

    async def serve(self) -> None:
        await self.bus.serve("gw-gatekeeper", {SUBMIT_SUBJECT: self._submit})

    async def _submit(self, message: Message) -> Reply:
        self.received.append(message)
        return Reply(codec.encode(self.answer), codec.schema_of(self.answer))


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    server = MemoryServer()
    connected = MemoryBus(server)
    await ensure_topology(connected)
    yield connected
    await connected.close()


@pytest.fixture
async def gatekeeper(bus: MemoryBus) -> ScriptedGatekeeper:
    scripted = ScriptedGatekeeper(bus)
    await scripted.serve()
    return scripted


@pytest.fixture
async def client(bus: MemoryBus) -> Client:
    return Client(bus, requested_by="tests")
