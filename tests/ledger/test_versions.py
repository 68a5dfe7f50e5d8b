"""A ledger that a gatekeeper of another version goes on with: what this one cannot read is neither damaged nor over."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from gatewright.bus.jetstream.setup import ensure_topology
from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.topology import run_subject
from gatewright.contracts import Transition, codec
from gatewright.errors import GatewrightError, MalformedError, UnavailableError
from gatewright.ledger import chain
from gatewright.ledger.store import Ledger
from gatewright.version import __version__
from tests.client.conftest import make_run
from tests.gatekeeper.simulated_run import RUN_ID


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    bus = MemoryBus(MemoryServer())
    await ensure_topology(bus)
    yield bus
    await bus.close()


def of_the_next_version(transition: Transition) -> bytes:
    """The same with an event of a kind that this version does not know, in an unbroken chain."""
    document = msgspec.json.decode(codec.encode(transition))
    document["events"][-1]["event_type"] = "thought_of_later"
    records = codec.decode(msgspec.json.encode(document), Transition).events
    document["events"][-1]["hash"] = chain.digest(records[-1])
    return msgspec.json.encode(document)


async def written(bus: MemoryBus, version: str) -> Ledger:
    transitions = make_run().transitions
    ledger = Ledger(bus)
    await ledger.append(await ledger.load(RUN_ID), transitions[0])
    await bus.publish(
        run_subject(RUN_ID),
        of_the_next_version(transitions[1]),
        schema="transition.v1",
        message_id="next",
        headers={"Gw-Version": version},
    )
    return Ledger(bus)


async def test_an_entry_of_another_version_makes_a_run_unavailable_and_not_damaged(bus: MemoryBus) -> None:
    ledger = await written(bus, "99.0.0")
    with pytest.raises(UnavailableError) as refused:
        await ledger.load(RUN_ID)
    assert refused.value.reason == "other_version"


async def test_an_unreadable_entry_of_the_same_version_is_damage(bus: MemoryBus) -> None:
    ledger = await written(bus, __version__)
    with pytest.raises(MalformedError):
        await ledger.load(RUN_ID)


async def test_a_run_of_another_version_stands_in_the_way_of_no_listing(bus: MemoryBus) -> None:
    ledger = await written(bus, "99.0.0")
    told: list[tuple[str, str]] = []

    def unreadable(run_id: str, error: GatewrightError) -> None:
        told.append((run_id, error.reason))

    assert [position async for position in ledger.everything(unreadable)] == []
    assert told == [(RUN_ID, "other_version")]
