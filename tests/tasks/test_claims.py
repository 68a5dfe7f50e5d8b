"""A role claims its task every beat that came with it, and says no word of an agent in it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from gatewright.bus.memory.bus import MemoryBus
from gatewright.bus.port import BEAT_HEADER, TASK_TOKEN_HEADER, Message
from gatewright.bus.topology import claim_subject
from gatewright.contracts import StatusClaim, TaskContract, codec
from gatewright.contracts.vocabulary import Document
from gatewright.tasks.beats.claims import beat_of
from gatewright.tasks.runner import TaskContext
from tests.factories import make_contract
from tests.tasks.role_at_work import Handler, RoleAtWork, make_result
from tests.waiting import PATIENCE

TOKEN = "a" * 64


class Heard:
    """The claims that the gatekeepers' side of the bus is sent."""

    def __init__(self) -> None:
        self.claims: asyncio.Queue[tuple[StatusClaim, Mapping[str, str]]] = asyncio.Queue()

    async def listen(self, role: RoleAtWork) -> None:
        await role.bus.listen(claim_subject(role.role), self._hear)

    async def _hear(self, message: Message) -> None:
        self.claims.put_nowait((codec.decode(message.data, StatusClaim), message.headers))


async def test_a_claim_repeats_with_its_token_and_without_agent_text() -> None:
    role, heard, done = RoleAtWork(), Heard(), asyncio.Event()

    async def work(task: TaskContract, context: TaskContext) -> Document:
        context.report_activity("command", "rm -rf / --please")
        await done.wait()
        return make_result(task)

    bus = MemoryBus(role.server)
    await bus.serve("gw-worker", {})
    async with role.working(Handler(work), bus=bus):
        await heard.listen(role)
        contract = make_contract()
        await role.give(contract, **{BEAT_HEADER: "1", TASK_TOKEN_HEADER: TOKEN})
        async with asyncio.timeout(PATIENCE):
            (first, headers), (second, _) = await heard.claims.get(), await heard.claims.get()
        done.set()
        await role.result()
        await asyncio.sleep(0)
    assert (first.run_id, first.task_id, first.role) == (contract.log_refs.run_id, contract.task_id, "worker")
    assert (first.beat, second.beat, first.beat_seconds, first.phase, first.activity) == (0, 1, 1, "working", "command")
    assert first.since == second.since
    assert first.window is not None
    assert second.window in {first.window, first.window + 1, first.window + 2}
    assert first.process == second.process == bus.process != ""
    assert headers[TASK_TOKEN_HEADER] == TOKEN
    assert b"please" not in codec.encode(first)


@pytest.mark.parametrize("beat", [{}, {BEAT_HEADER: "900"}])
async def test_quick_tasks_and_those_without_a_beat_are_unclaimed(beat: dict[str, str]) -> None:
    role, heard = RoleAtWork(), Heard()
    async with role.working(Handler()):
        await heard.listen(role)
        await role.give(make_contract(), **beat)
        await role.result()
    assert heard.claims.empty()


async def test_one_that_another_process_had_before_is_claimed_at_once() -> None:
    role, heard, begun, done = RoleAtWork(), Heard(), asyncio.Event(), asyncio.Event()

    async def work(task: TaskContract, context: TaskContext) -> Document:
        begun.set()
        if context.attempts > 1:
            await done.wait()
            return make_result(task)
        await asyncio.Event().wait()
        raise AssertionError

    async with role.working(Handler(work)):
        await heard.listen(role)
        await role.give(make_contract(), **{BEAT_HEADER: "900"})
        await begun.wait()
    # The first process has left, and gave the task back.
    async with role.working(Handler(work)):
        async with asyncio.timeout(PATIENCE):
            claim, _ = await heard.claims.get()
        done.set()
        await role.result()
    assert (claim.delivery, claim.beat) == (2, 0)


NO_BEATS = ("86401", "0", "-1", "1.5", "", "٣", "9" * 4000, "1e3")


@pytest.mark.parametrize(("words", "beat"), [("900", 900), ("1", 1), ("86400", 86_400), *((words, None) for words in NO_BEATS)])
def test_what_is_no_beat_is_taken_for_none(words: str, beat: int | None) -> None:
    assert beat_of(Message("gw.task.worker.default.normal", b"", {BEAT_HEADER: words})) == beat
