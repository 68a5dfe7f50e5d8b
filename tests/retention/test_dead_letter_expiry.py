"""Letting dead letters expire from a real NATS server: those of runs that are open, not sealed or on hold stay."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from gatewright.app.retention.dead_letter_expiry import DeadLetterExpiry, LetterPlan
from gatewright.app.retention.references import read_references
from gatewright.bus.jetstream.bus import JetStreamBus
from gatewright.bus.jetstream.queue_depths import open_dead_letters
from gatewright.bus.jetstream.removal import dead_letters, remove_letter
from gatewright.bus.port import Message
from gatewright.contracts import codec
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.dead_letters import DeadLetters
from tests.retention.conftest import Installation, StoppedClock

MONTH = 30


def expiry(installation: Installation, days: float = MONTH + 1) -> DeadLetterExpiry:
    clock = StoppedClock(datetime.now(UTC) + timedelta(days=days))
    return DeadLetterExpiry(installation.bus, installation.provisioner, MONTH, clock)


async def planned(installation: Installation, days: float = MONTH + 1) -> LetterPlan:
    references = await read_references(installation.bus, installation.provisioner)
    return await expiry(installation, days).plan(references, installation.evidence.held())


async def put_aside(installation: Installation, number: int, run_id: str) -> None:
    message = Message("gw.result.worker", f'{{"task_id": "{run_id}.plan.w01"}}'.encode(), sequence=number)
    await publish_dead_letter(installation.bus, "gatekeeper", "RESULTS", message, attempts=1, code="a_code", reason="words")


async def left(installation: Installation) -> list[int]:
    return [message.seq async for message in dead_letters(installation.provisioner)]


async def test_letters_of_sealed_runs_go_when_they_are_old_enough(installation: Installation) -> None:
    sealed, held = await installation.seal(1), await installation.seal(2)
    installation.hold(held)
    (first, *_) = installation.house.recorded(3).transitions
    await installation.bus.publish(f"gw.run.{first.run_id}", codec.encode(first), schema="transition.v1", message_id="open")
    for number, run_id in enumerate((sealed, held, first.run_id, "run-ffffffffffffffffffff", "no run at all"), 1):
        await put_aside(installation, number, run_id)
    assert await planned(installation, MONTH - 0.1) == LetterPlan((), 0, 5)
    plan = await planned(installation)
    assert [item.sequence for item in plan.items] == [1, 4, 5]
    assert (plan.needed, plan.young) == (2, 0)
    assert await left(installation) == [1, 2, 3, 4, 5]
    assert [done.code for done in await expiry(installation).carry_out(plan.items)] == ["", "", ""]
    assert await left(installation) == [2, 3]


async def test_decisions_expire_with_their_letters(installation: Installation) -> None:
    for number in (1, 2, 3):
        await put_aside(installation, number, "no run")
    operator = await JetStreamBus.connect(replace(installation.address, seed=installation.seed("operator")), name="operator")
    try:
        await DeadLetters(operator).drop(2, "of no use")
        assert await open_dead_letters(operator.connection) == 2
        plan = await planned(installation)
        assert [(item.sequence, item.decisions) for item in plan.items] == [(1, ()), (2, (4,)), (3, ())]
        await expiry(installation).carry_out(plan.items[:2])
        assert await open_dead_letters(operator.connection) == 1
    finally:
        await operator.close()
    assert await left(installation) == [3]
    await remove_letter(installation.provisioner, 1)  # it is gone
    assert await left(installation) == [3]


async def test_a_letter_that_mentions_an_open_run_among_others_stays(installation: Installation) -> None:
    (first, *_) = installation.house.recorded(3).transitions
    await installation.bus.publish(f"gw.run.{first.run_id}", codec.encode(first), schema="transition.v1", message_id="open")
    await put_aside(installation, 1, f"run-ffffffffffffffffffff {first.run_id}")
    assert (await planned(installation)).items == ()
