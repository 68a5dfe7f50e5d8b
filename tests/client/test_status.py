"""Asking how a run stands: once, and until it has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import NO_ANSWER, NO_RESPONDERS, Message, Reply
from gatewright.client import Client
from gatewright.client.histories import ServedHistory
from gatewright.contracts import Error, RunEvents, RunStatus, StatusRequest, codec
from gatewright.contracts.run_status import SealedBundle
from gatewright.errors import BusError, MalformedError, UnavailableError
from tests.client.conftest import make_run
from tests.gatekeeper.simulated_run import RUN_ID
from tests.waiting import PATIENCE

OPEN = RunStatus(
    run_id=RUN_ID,
    publisher="default",
    requested_by="tests",
    status="RUNNING",
    state="S2",
    since="2026-01-05T09:30:00Z",
    created_at="2026-01-05T09:30:00Z",
    attempt=1,
    tasks=(),
    gates=(),
)
ENDED = replace(OPEN, status="SUCCESS", state="S6", code="ok")
SEALED = replace(ENDED, bundle=SealedBundle(manifest_sha256="0" * 64, signer="key", location="/runs/x"))


async def answer_with(bus: MemoryBus, answers: Sequence[RunStatus | Error]) -> list[str]:
    """Serve ``gw.status``: one answer after the other, the last one for ever."""
    asked: list[str] = []

    async def status(message: Message) -> Reply:
        asked.append(codec.decode(message.data, StatusRequest).run_id)
        document = answers[min(len(asked), len(answers)) - 1]
        return Reply(codec.encode(document), codec.schema_of(document))

    await bus.serve("gw-gatekeeper", {"gw.status": status})
    return asked


@pytest.mark.parametrize(("reason", "asked"), [(NO_ANSWER, 2), (NO_RESPONDERS, 1)])
async def test_a_question_whose_answer_is_lost_is_asked_once_more(
    bus: MemoryBus, monkeypatch: pytest.MonkeyPatch, reason: str, asked: int
) -> None:
    questions: list[str] = []

    async def lose(subject: str, *_: object, **__: object) -> Message:
        questions.append(subject)
        raise BusError("no answer", code=reason)

    monkeypatch.setattr(bus, "request", lose)
    with pytest.raises(BusError, match="no answer"):
        await Client(bus).status(RUN_ID)
    assert len(questions) == asked


async def test_status_is_what_the_gatekeeper_reports(client: Client, bus: MemoryBus) -> None:
    asked = await answer_with(bus, [OPEN])
    assert await client.status(RUN_ID) == OPEN
    assert asked == [RUN_ID]


async def test_an_unknown_run_is_an_error_of_the_input(client: Client, bus: MemoryBus) -> None:
    await answer_with(bus, [Error(code="run_unknown", message="there is no run")])
    with pytest.raises(MalformedError) as unknown:
        await client.status(RUN_ID)
    assert unknown.value.reason == "run_unknown"


async def test_the_end_is_asked_for_through_refusals_and_silence(client: Client, bus: MemoryBus) -> None:
    waiting = asyncio.create_task(client.ended(RUN_ID, timeout=PATIENCE))
    await asyncio.sleep(0.1)
    limit = Error(code="rate_exceeded", message="slower", retry_after_seconds=0.1)
    asked = await answer_with(bus, [OPEN, limit, ENDED, SEALED])
    assert await waiting == SEALED
    assert len(asked) == 4, "ended is not yet sealed"


async def test_waiting_for_the_end_ends_with_its_patience(client: Client, bus: MemoryBus) -> None:
    await answer_with(bus, [OPEN])
    with pytest.raises(UnavailableError) as late:
        await client.ended(RUN_ID, timeout=0.3)
    assert late.value.reason == "run_not_ended"


@pytest.mark.parametrize("run_id", ["*", ">", "run-*", "a.b"])
async def test_a_run_id_that_is_a_pattern_is_not_sent(client: Client, run_id: str) -> None:
    with pytest.raises(MalformedError) as refused:
        await client.status(run_id)
    assert refused.value.reason == "run_id_invalid"


NO_LEADER = Error(
    code="bus_no_answer", message="request on gw.js.CONSUMER.CREATE.RUNS: no answer in time", family="infrastructure"
)


async def test_waiting_for_the_end_survives_a_leader_election(client: Client, bus: MemoryBus) -> None:
    asked = await answer_with(bus, [NO_LEADER, OPEN, NO_LEADER, SEALED])
    assert await client.ended(RUN_ID, timeout=PATIENCE) == SEALED
    assert len(asked) == 4


async def test_a_publisher_follows_on_while_the_gatekeepers_own_bus_elects_a_leader(bus: MemoryBus) -> None:
    transitions = [each.events for each in make_run().transitions]
    told: list[RunEvents | Error] = [NO_LEADER]
    for number, written in enumerate(transitions):
        told += [RunEvents(run_id=RUN_ID, events=written, more=number + 1 < len(transitions)), NO_LEADER]
    answers = iter(told)

    async def events(_: Message) -> Reply:
        document = next(answers)
        return Reply(codec.encode(document), codec.schema_of(document))

    await bus.serve("gw-gatekeeper", {"gw.events": events})
    history = ServedHistory(bus, {"events": "gw.events"})
    seen = [event async for event in history.events(RUN_ID, follow=True)]
    assert [event.seq for event in seen] == list(range(1, sum(map(len, transitions)) + 1))


async def test_what_is_no_passing_trouble_of_the_bus_ends_the_following(bus: MemoryBus) -> None:
    async def events(_: Message) -> Reply:
        document = Error(code="bus_storage_full", message="no room", family="infrastructure")
        return Reply(codec.encode(document), codec.schema_of(document))

    await bus.serve("gw-gatekeeper", {"gw.events": events})
    with pytest.raises(UnavailableError) as ended:
        await anext(ServedHistory(bus, {"events": "gw.events"}).events(RUN_ID, follow=True))
    assert ended.value.reason == "bus_storage_full"
