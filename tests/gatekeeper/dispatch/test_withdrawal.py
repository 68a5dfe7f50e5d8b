"""Tasks of a run that has ended leave their queues, whichever gatekeeper gave them out; other runs' tasks stay."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.topology import STREAMS, consumers, task_subject
from gatewright.contracts.records import CommandRef
from gatewright.run.state import Run, RunTask
from gatewright.services.gatekeeper.dispatch.dispatcher import TASK_QUEUES, TASKS, Dispatcher
from tests.factories import BASELINE, BASELINE_TREE, make_contract
from tests.gatekeeper.recorded import make_open_run

RUN, OTHER = "run-0123456789", "run-9876543210"


def make_bus() -> MemoryBus:
    server = MemoryServer()
    server.ensure(STREAMS, consumers())
    return MemoryBus(server)


@pytest.fixture
async def bus() -> AsyncIterator[MemoryBus]:
    made = make_bus()
    yield made
    await made.close()


def run_with_a_task(run_id: str) -> Run:
    contract = make_contract(run_id, task_id="same-id")
    run = make_open_run(run_id, contract, BASELINE, BASELINE_TREE)
    task = RunTask("same-id", "worker", "default", "RUNNING", 1, contract)
    return Run(run.run_id, run.trace_id, run.accepted, state="S2", contract=contract, tasks={"same-id": task})


async def given(dispatcher: Dispatcher, run: Run) -> None:
    await dispatcher.give(run, [CommandRef(role="worker", pool="default", task_id="same-id")])


async def queued(bus: MemoryBus) -> list[bytes]:
    return [message.data async for message in bus.unsettled(TASK_QUEUES)]


async def test_a_task_is_withdrawn_although_a_role_has_it_in_hand(bus: MemoryBus) -> None:
    dispatcher, run = Dispatcher(bus), run_with_a_task(RUN)
    await given(dispatcher, run)
    await dispatcher.withdraw(run)
    await dispatcher.withdraw(run)
    assert await queued(bus) == []


async def test_another_gatekeeper_withdraws_only_the_tasks_of_its_run(bus: MemoryBus) -> None:
    run, other = run_with_a_task(RUN), run_with_a_task(OTHER)
    # Under ids of their own: the queue's memory of ids is not what is tried here.
    for each in (other, run):
        await bus.publish(task_subject("worker"), await _document(each), schema="task_contract.v1", message_id=each.run_id)
    await Dispatcher(bus).withdraw(run)
    assert await queued(bus) == [await _document(other)]
    assert await bus.stored(TASKS, 1) is not None


async def _document(run: Run) -> bytes:
    bus = make_bus()
    await given(Dispatcher(bus), run)
    (document,) = await queued(bus)
    await bus.close()
    return document
