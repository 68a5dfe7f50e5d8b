"""What an agent says it does is told to those who look on while the task is done, and kept nowhere."""

from __future__ import annotations

import asyncio

import pytest

from gatewright.bus.port import Message
from gatewright.bus.topology import LIVE_SUBJECT
from gatewright.contracts import AgentActivity, TaskContract, TaskResult, codec
from gatewright.contracts.vocabulary import Document
from gatewright.tasks.runner import TaskContext
from tests.factories import make_contract
from tests.tasks.role_at_work import Handler, RoleAtWork, Work, make_result
from tests.waiting import PATIENCE


@pytest.fixture
def role() -> RoleAtWork:
    return RoleAtWork()


def saying(*words: str, then: asyncio.Event) -> Work:
    async def work(task: TaskContract, context: TaskContext) -> Document:
        for word in words:
            context.report_activity("message", word)
        await then.wait()
        return make_result(task)

    return work


async def test_activity_is_sent_during_the_task_and_is_no_result(role: RoleAtWork) -> None:
    heard: asyncio.Queue[AgentActivity] = asyncio.Queue()
    done = asyncio.Event()

    async def hear(message: Message) -> None:
        heard.put_nowait(codec.decode(message.data, AgentActivity))

    async with role.working(Handler(saying("first", "x" * 5000, then=done))):
        await role.bus.listen(LIVE_SUBJECT, hear)
        contract = make_contract()
        await role.give(contract)
        async with asyncio.timeout(PATIENCE):
            first, second = await heard.get(), await heard.get()
        done.set()
        async with asyncio.timeout(PATIENCE):
            while not await role.results():
                await role.server.wait(0.01)
    assert (first.run_id, first.task_id, first.text) == (contract.log_refs.run_id, contract.task_id, "first")
    assert len(second.text) == 2000
    assert [type(document) for document in await role.results()] == [TaskResult]


async def test_an_agent_with_too_many_messages_delays_nothing(role: RoleAtWork) -> None:
    done = asyncio.Event()
    done.set()
    async with role.working(Handler(saying(*("word",) * 100_000, then=done))):
        await role.give(make_contract())
        async with asyncio.timeout(PATIENCE):
            while not (found := await role.results()):
                await role.server.wait(0.01)
    assert [type(document) for document in found] == [TaskResult]
