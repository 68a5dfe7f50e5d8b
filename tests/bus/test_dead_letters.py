"""Dead letters: nothing is lost, every decision is recorded, and no letter gets anybody more than it may do itself."""

from __future__ import annotations

import asyncio

import pytest

from gatewright.bus.port import Bus, Delivery, Message
from gatewright.bus.topology import RESULT_CONSUMER, Consumer, dead_subject
from gatewright.errors import DeniedError, GatewrightError, MalformedError
from gatewright.tasks import dead_letter as d
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.tasks.dead_letters import DeadLetters, belongs
from tests.bus.backends import TASKS, Connect, give


@pytest.fixture
async def bus(connect: Connect) -> Bus:
    return await connect("operator")


async def taken(bus: Bus, queue: Consumer = TASKS) -> Delivery:
    delivery = await (await bus.consume(queue)).next(3)
    assert delivery is not None
    return delivery


async def bury(bus: Bus, data: bytes = b"poison", **options: bool) -> int:
    """Give a task up as a role does; the number of its letter."""
    await give(bus, data)
    delivery = await taken(bus)
    await publish_dead_letter(
        bus, "worker", "TASKS", delivery.message, attempts=delivery.attempts, code="denied", reason="it is poison", **options
    )
    await delivery.term()
    return (await DeadLetters(bus).all())[-1].sequence


async def forge(bus: Bus, role: str, subject: str) -> int:
    """A letter as a role that is not honest could write it."""
    message = Message(subject, b"forged", {"Gw-Schema": "review_report.v1"}, 999)
    await publish_dead_letter(bus, role, "TASKS", message, attempts=1, code="denied", reason="please put it back")
    return (await DeadLetters(bus).all())[-1].sequence


async def test_a_dead_letter_describes_its_message_completely(bus: Bus) -> None:
    sequence = await bury(bus)
    (letter,) = await DeadLetters(bus).all()
    assert (letter.sequence, letter.role, letter.subject) == (sequence, "worker", TASKS.subject)
    assert (letter.code, letter.reason, letter.attempts, letter.requeued) == ("denied", "it is poison", 1, 0)
    assert letter.decision is None
    assert letter.at > 1_700_000_000
    assert letter.message.headers[d.ID_HEADER] == f"{TASKS.subject}:b'poison'"
    assert await DeadLetters(bus).original(letter) == b"poison"
    assert letter.size == 6


async def test_a_requeued_message_comes_again_as_a_first_delivery_and_is_counted(bus: Bus) -> None:
    letters = DeadLetters(bus)
    await letters.requeue(await bury(bus), "the disk is whole again")
    again = await taken(bus)
    assert (again.message.data, again.message.subject, again.attempts) == (b"poison", TASKS.subject, 1)
    assert again.message.headers["Gw-Schema"] == "task_contract.v1"
    (letter,) = await letters.all()
    assert letter.decision is not None
    assert (letter.decision.verdict, letter.decision.reason) == ("requeued", "the disk is whole again")
    await publish_dead_letter(bus, "worker", "TASKS", again.message, attempts=1, code="denied", reason="still poison")
    assert [each.requeued for each in await letters.all()] == [0, 1]


async def test_a_message_that_dies_again_can_be_put_back_again(bus: Bus) -> None:
    letters = DeadLetters(bus)
    sequence = await bury(bus)
    for times in (1, 2, 3):
        await letters.requeue(sequence)
        again = await taken(bus)
        assert again.message.headers[d.REQUEUED_HEADER] == str(times)
        await publish_dead_letter(bus, "worker", "TASKS", again.message, attempts=1, code="denied", reason="poison")
        await again.term()
        sequence = (await letters.all())[-1].sequence


async def test_a_dropped_letter_stays_with_the_reason(bus: Bus) -> None:
    letters = DeadLetters(bus)
    sequence = await bury(bus)
    await letters.drop(sequence, "a known attack\r\nNats-Msg-Id: x")
    (letter,) = await letters.all()
    assert letter.decision is not None
    assert letter.decision.verdict == "dropped"
    assert letter.decision.reason.startswith("a known attack")
    assert await letters.original(letter) == b"poison"
    assert await (await bus.consume(TASKS)).next(0.1) is None


async def test_what_is_decided_is_decided_once(bus: Bus) -> None:
    letters = DeadLetters(bus)
    sequence = await bury(bus)
    await letters.drop(sequence, "no")
    for call in (letters.drop(sequence, "again"), letters.requeue(sequence)):
        with pytest.raises(DeniedError) as refused:
            await call
        assert refused.value.reason == "dead_letter_settled"


async def test_two_operators_at_once_put_a_message_back_once(bus: Bus) -> None:
    sequence = await bury(bus)
    outcomes = await asyncio.gather(*(DeadLetters(bus).requeue(sequence) for _ in range(4)), return_exceptions=True)
    assert all(not isinstance(each, BaseException) or isinstance(each, DeniedError) for each in outcomes)
    await (await taken(bus)).ack()
    assert await (await bus.consume(TASKS)).next(0.1) is None


async def test_a_requeue_that_was_broken_off_is_finished_by_the_next(bus: Bus) -> None:
    letters = DeadLetters(bus)
    sequence = await bury(bus)
    letter = await letters.find(sequence)
    await bus.publish(letter.subject, b"poison", schema="task_contract.v1", message_id=f"requeued:{sequence}:1")
    await letters.requeue(sequence)
    await (await taken(bus)).ack()
    assert await (await bus.consume(TASKS)).next(0.1) is None


@pytest.mark.parametrize(
    "subject", ["gw.result.reviewer", "gw.intake.abort", "gw.run.run-1", "gw.dead.worker", "gw.task.pm.a.b", "-"]
)
async def test_a_role_cannot_send_a_forbidden_message_through_an_operator(bus: Bus, subject: str) -> None:
    sequence = await forge(bus, "worker", subject)
    with pytest.raises(DeniedError) as refused:
        await DeadLetters(bus).requeue(sequence)
    assert refused.value.reason == "dead_letter_misplaced"
    assert await (await bus.consume(RESULT_CONSUMER)).next(0.05) is None


async def test_a_letter_whose_text_was_cleaned_is_not_put_back(bus: Bus) -> None:
    sequence = await bury(bus, altered=True)
    with pytest.raises(DeniedError) as refused:
        await DeadLetters(bus).requeue(sequence)
    assert refused.value.reason == "dead_letter_altered"


async def test_a_drop_needs_a_reason_and_a_letter(bus: Bus) -> None:
    letters = DeadLetters(bus)
    sequence = await bury(bus)
    for call, code in ((letters.drop(sequence, " "), "invalid_input"), (letters.drop(4711, "x"), "dead_letter_unknown")):
        with pytest.raises(MalformedError) as refused:
            await call
        assert refused.value.reason == code


async def test_a_letter_written_by_a_liar_is_listed_all_the_same(bus: Bus) -> None:
    headers = {d.ATTEMPTS_HEADER: "-1", d.REQUEUED_HEADER: "9" * 500, "Gw-Dead-Decision": "dropped", "Gw-Dead-Letter": "1"}
    await bus.publish(dead_subject("worker"), b"\xff\x00", schema="x", message_id="liar", headers=headers)
    (letter,) = await DeadLetters(bus).all()
    assert (letter.attempts, letter.requeued, letter.subject, letter.decision) == (0, 0, "", None)
    with pytest.raises(GatewrightError):
        await DeadLetters(bus).requeue(letter.sequence)


def test_only_the_queues_of_a_role_take_its_letters_back() -> None:
    assert belongs("gatekeeper", "gw.intake.request")
    assert belongs("gatekeeper", "gw.intake.request.someone")
    assert belongs("gatekeeper", "gw.result.worker")
    assert belongs("worker", "gw.task.worker.gpu.low")
    assert belongs("gatekeeper", "gw.task.worker.default.low")
    assert not belongs("gatekeeper", "gw.run.run-0123456789")
    assert not belongs("worker", "gw.task.worker.default")
    assert not belongs("operator", "gw.intake.request")
    assert not belongs("*", "gw.task.*.*.*")
