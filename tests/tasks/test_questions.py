"""What a worker puts to the publisher of a run, and which answers it believes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import PUBLISHER_HEADER, Message
from gatewright.bus.topology import answer_subject, question_subject
from gatewright.contracts import AgentAnswer, AgentQuestion, codec
from gatewright.tasks.protocol import TaskRef
from gatewright.tasks.questions import MOST_QUESTIONS, MOST_SUBJECT, AskPublisher, Leave, PublisherQuestions
from tests.waiting import PATIENCE

REF = TaskRef("run-0123456789", "run-0123456789.plan.w01")
Answering = Callable[[AgentQuestion], Awaitable[None]]


@dataclass
class Channel:
    """A worker and the publisher ``ci`` on one bus; ``put`` are the questions that arrived."""

    worker: MemoryBus
    publisher: MemoryBus
    questions: PublisherQuestions
    put: list[AgentQuestion] = field(default_factory=list)
    answering: Answering | None = None

    def ask(self, headers: dict[str, str] | None = None) -> AskPublisher:
        return self.questions.of(REF, Message("gw.task", b"", {PUBLISHER_HEADER: "ci"} if headers is None else headers))

    async def answer(self, question: AgentQuestion, *, publisher: str = "ci", allow: bool = True, **changed: str) -> None:
        answer = AgentAnswer(
            question_id=question.question_id, run_id=question.run_id, task_id=question.task_id, allow=allow, answered_by="anna"
        )
        await self.publisher.broadcast(answer_subject(publisher), codec.encode(replace(answer, **changed)))


@pytest.fixture
async def channel() -> AsyncIterator[Channel]:
    server = MemoryServer()
    worker, publisher = MemoryBus(server), MemoryBus(server)
    made = Channel(worker, publisher, PublisherQuestions(worker, seconds=0.2))

    async def hear(message: Message) -> None:
        question = codec.decode(message.data, AgentQuestion)
        made.put.append(question)
        if made.answering is not None:
            await made.answering(question)

    await publisher.listen(question_subject("ci"), hear)
    yield made
    await worker.close()
    await publisher.close()


@pytest.mark.parametrize("allow", [True, False])
async def test_the_publisher_of_the_run_is_asked_and_believed(channel: Channel, *, allow: bool) -> None:
    channel.answering = lambda question: channel.answer(question, allow=allow)
    assert await channel.ask()("codex", "make test") == Leave(allow=allow, by="person", person="ci anna")
    assert [(question.agent, question.subject) for question in channel.put] == [("codex", "make test")]


@pytest.mark.parametrize("change", ["publisher", "run_id", "task_id", "question_id"])
async def test_an_answer_from_elsewhere_or_about_something_else_is_not_believed(channel: Channel, change: str) -> None:
    other = {"publisher": "default", "run_id": "run-9999999999", "task_id": "other", "question_id": "f" * 32}[change]

    async def forge(question: AgentQuestion) -> None:
        await channel.answer(question, **{change: other})  # type: ignore[arg-type] # one of them is a word of the method's

    channel.answering = forge
    assert await channel.ask()("codex", "make test") == Leave(allow=False, by="silence")


async def test_an_answer_after_its_time_or_a_second_one_changes_nothing(channel: Channel) -> None:
    assert await channel.ask()("codex", "make test") == Leave(allow=False, by="silence")
    await channel.answer(channel.put[0])
    channel.answering = lambda question: channel.answer(question, allow=False)
    ask = channel.ask()
    leave = await ask("codex", "make test")
    await channel.answer(channel.put[1])
    assert not leave.allow


async def test_after_a_silence_no_further_question_of_the_task_is_put(channel: Channel) -> None:
    ask = channel.ask()
    assert await ask("codex", "one") == Leave(allow=False, by="silence")
    channel.answering = channel.answer
    assert await ask("codex", "two") == Leave(allow=False, by="silence")
    assert len(channel.put) == 1


async def test_a_flood_of_questions_is_refused_without_a_person(channel: Channel) -> None:
    channel.answering = channel.answer
    ask = channel.ask()
    leaves = [await ask("codex", f"command {number}") for number in range(MOST_QUESTIONS + 20)]
    assert [leave.by for leave in leaves] == ["person"] * MOST_QUESTIONS + ["too_many"] * 20
    assert len(channel.put) == MOST_QUESTIONS


async def test_a_command_that_is_too_long_to_be_read_is_refused_unasked(channel: Channel) -> None:
    channel.answering = channel.answer
    assert await channel.ask()("codex", "x" * MOST_SUBJECT) == Leave(allow=False, by="too_long")
    assert channel.put == []


async def test_without_a_publisher_to_ask_it_is_refused(channel: Channel) -> None:
    assert await channel.ask({})("codex", "make test") == Leave(allow=False, by="unreachable")
    assert channel.put == []


async def test_garbage_among_the_answers_does_not_end_the_listening(channel: Channel) -> None:
    async def garbage_first(question: AgentQuestion) -> None:
        await channel.publisher.broadcast(answer_subject("ci"), b"[1]")
        await channel.answer(question)

    channel.answering, channel.questions.seconds = garbage_first, 30.0  # the answer is what ends it
    assert (await asyncio.wait_for(channel.ask()("codex", "make test"), PATIENCE)).allow
