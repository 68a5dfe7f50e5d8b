"""Following runs: live, to the end, and only genuine histories."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.topology import INTAKE_CONSUMER
from gatewright.client import Client
from gatewright.contracts import AbortRequest, codec
from gatewright.errors import MalformedError, UnavailableError, VerificationError
from tests.client.conftest import make_run, write_run
from tests.gatekeeper.simulated_run import RUN_ID, Script
from tests.waiting import PATIENCE


async def test_events_come_in_order_and_end_with_the_seal(client: Client, bus: MemoryBus) -> None:
    run = make_run()
    await write_run(bus, run.transitions)
    events = [event async for event in client.follow(RUN_ID)]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert (events[0].event_type, events[-1].event_type) == ("run_accepted", "bundle_sealed")


async def test_run_that_does_not_exist_yet_is_waited_for(client: Client, bus: MemoryBus) -> None:
    waiting = asyncio.create_task(client.wait(RUN_ID, timeout=PATIENCE))
    await asyncio.sleep(0.05)
    await write_run(bus, make_run().transitions)
    run = await waiting
    assert (run.status, run.sealed is not None) == ("SUCCESS", True)


async def test_wait_gives_the_failure_of_a_failed_run(client: Client, bus: MemoryBus) -> None:
    await write_run(bus, make_run(Script(refused_shard=1)).transitions)
    run = await client.wait(RUN_ID, timeout=PATIENCE)
    assert run.status == "FAILED"
    assert run.failure is not None
    assert run.failure.code == "path_out_of_scope"


async def test_wait_ends_with_its_patience(client: Client, bus: MemoryBus) -> None:
    await write_run(bus, make_run().transitions[:2])
    with pytest.raises(UnavailableError) as late:
        await client.wait(RUN_ID, timeout=0.05)
    assert late.value.reason == "run_not_ended"


async def test_altered_event_is_noticed(client: Client, bus: MemoryBus) -> None:
    transitions = make_run().transitions
    forged = msgspec.structs.replace(transitions[1].events[0], level="WARN")
    transitions[1] = msgspec.structs.replace(transitions[1], events=(forged, *transitions[1].events[1:]))
    await write_run(bus, transitions)
    with pytest.raises(VerificationError):
        await client.wait(RUN_ID, timeout=5.0)
    with pytest.raises(VerificationError):
        await client.events(RUN_ID)


async def test_left_out_transition_is_noticed(client: Client, bus: MemoryBus) -> None:
    transitions = make_run().transitions
    await write_run(bus, [*transitions[:1], *transitions[2:]])
    with pytest.raises(VerificationError):
        await client.wait(RUN_ID, timeout=5.0)


@pytest.mark.parametrize("run_id", ["*", "run-*", ">", "a.b.c.d.e", "", "run 0123456789", "run-\n12345678"])
async def test_run_id_that_would_be_a_pattern_is_refused(client: Client, run_id: str) -> None:
    for ask in (client.get(run_id), client.events(run_id), client.abort(run_id, "because"), client.wait(run_id, timeout=1)):
        with pytest.raises(MalformedError) as refused:
            await ask
        assert refused.value.reason == "run_id_invalid"


async def test_unknown_run_is_named(client: Client) -> None:
    with pytest.raises(MalformedError) as unknown:
        await client.get("run-0000000000")
    assert unknown.value.reason == "run_unknown"
    assert await client.events("run-0000000000") == ()


async def test_runs_are_listed(client: Client, bus: MemoryBus) -> None:
    assert await client.runs() == ()
    await write_run(bus, make_run().transitions)
    assert [(run.run_id, run.status) for run in await client.runs()] == [(RUN_ID, "SUCCESS")]
    assert (await client.get(RUN_ID)).status == "SUCCESS"


async def test_abort_is_asked_for_in_the_name_of_the_publisher(client: Client, bus: MemoryBus) -> None:
    await client.abort(RUN_ID, "enough")
    delivery = await (await bus.consume(INTAKE_CONSUMER)).next(1.0)
    assert delivery is not None
    assert codec.decode(delivery.message.data, AbortRequest) == AbortRequest(
        run_id=RUN_ID, reason="enough", requested_by="tests"
    )
