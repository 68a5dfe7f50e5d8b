"""How a worker puts an agent's question to the gatekeeper, and which answers it believes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from gatewright.bus.memory.bus import MemoryBus, MemoryServer
from gatewright.bus.port import TASK_TOKEN_HEADER, Message, Reply
from gatewright.bus.topology import LEAVE_SUBJECT
from gatewright.contracts import AgentLeave, AgentQuestion, Error, codec
from gatewright.contracts.vocabulary import Document
from gatewright.tasks.people_questions import PeopleQuestions
from gatewright.tasks.protocol import TaskRef
from gatewright.tasks.questions import MOST_SUBJECT, Leave

REF = TaskRef("run-0123456789", "run-0123456789.plan.w01")
MESSAGE = Message("gw.task", b"", {TASK_TOKEN_HEADER: "t" * 64})


@dataclass
class Keeper:
    """A gatekeeper that gives the ``answers`` in turn, the last one again and again; ``brought`` is what it was asked."""

    bus: MemoryBus
    worker: MemoryBus
    answers: list[Document | bytes] = field(default_factory=list)
    brought: list[tuple[AgentQuestion, str]] = field(default_factory=list)

    async def hear(self, message: Message) -> Reply:
        question = codec.decode(message.data, AgentQuestion)
        self.brought.append((question, message.headers.get(TASK_TOKEN_HEADER, "")))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, bytes):
            return Reply(answer, "agent_leave.v1")
        if isinstance(answer, AgentLeave) and answer.question_id == "0" * 32:
            answer = replace(answer, question_id=question.question_id)
        return Reply(codec.encode(answer), codec.schema_of(answer))

    def questions(self, seconds: float = 60.0, lost: float = 60.0) -> PeopleQuestions:
        return PeopleQuestions(self.worker, REF, MESSAGE, delivery=3, seconds=seconds, look=0.01, lost=lost)


def leave(standing: str, status: str, **changes: str) -> AgentLeave:
    """Of the question that was asked, unless it is changed."""
    words = {"question_id": "0" * 32, "run_id": REF.run_id, "task_id": REF.task_id, "request_id": "run-0123456789.ask.1"}
    return codec.decode(_json({**words, "standing": standing, "status": status, **changes}), AgentLeave)


def _json(words: dict[str, str]) -> bytes:
    return ("{" + ",".join(f'"{name}":"{value}"' for name, value in words.items()) + "}").encode()


@pytest.fixture
async def keeper() -> AsyncIterator[Keeper]:
    server = MemoryServer()
    keeper = Keeper(MemoryBus(server), MemoryBus(server))
    await keeper.bus.serve("gatekeeper", {LEAVE_SUBJECT: keeper.hear})
    yield keeper
    await keeper.worker.close()
    await keeper.bus.close()


async def test_the_same_question_is_asked_until_a_person_approves(keeper: Keeper) -> None:
    pending = leave("pending", "pending")
    keeper.answers = [pending, pending, leave("allowed", "approved", person="ana")]
    assert await keeper.questions().ask("codex", "make test") == Leave(allow=True, by="person", person="ana")
    (asked, token), *more = keeper.brought
    assert more == [(asked, token)] * 2
    assert (asked.agent, asked.subject, asked.delivery, token) == ("codex", "make test", 3, "t" * 64)


@pytest.mark.parametrize(("status", "by"), [("rejected", "person"), ("expired", "silence"), ("withdrawn", "silence")])
async def test_whatever_is_no_yes_refuses(keeper: Keeper, status: str, by: str) -> None:
    keeper.answers = [leave("refused", status)]
    answer = await keeper.questions().ask("codex", "make test")
    assert (answer.allow, answer.by) == (False, by)


@pytest.mark.parametrize(
    ("code", "by"),
    [
        ("too_many_agent_questions", "too_many"),
        ("agent_question_unreadable", "too_long"),
        ("message_too_large", "too_long"),
        ("secret_found", "secret"),
        ("agent_question_out_of_turn", "unreachable"),
        ("task_not_held", "unreachable"),
    ],
)
async def test_what_the_gatekeeper_does_not_ask_is_refused_with_the_reason(keeper: Keeper, code: str, by: str) -> None:
    keeper.answers = [Error(code=code, message="no", family="refused")]
    answer = await keeper.questions().ask("codex", "make test")
    assert (answer.allow, answer.by) == (False, by)


async def test_what_the_gatekeeper_cannot_do_now_is_asked_again(keeper: Keeper) -> None:
    trouble = Error(code="bus_unavailable", message="later", family="infrastructure")
    keeper.answers = [trouble, b"[1]", leave("allowed", "approved", person="ana")]
    assert (await keeper.questions().ask("codex", "make test")).allow


@pytest.mark.parametrize("change", ["question_id", "run_id", "task_id"])
async def test_a_yes_to_something_else_is_not_believed(keeper: Keeper, change: str) -> None:
    other = {"question_id": "f" * 32, "run_id": "run-9999999999", "task_id": "other"}[change]
    keeper.answers = [leave("allowed", "approved", **{change: other})]
    assert await keeper.questions(seconds=0.3).ask("codex", "make test") == Leave(allow=False, by="silence")


async def test_an_unreachable_gatekeeper_refuses_and_ends_further_questions(keeper: Keeper) -> None:
    keeper.answers = [b"[1]"]
    questions = keeper.questions(lost=0.0)
    assert await questions.ask("codex", "one") == Leave(allow=False, by="silence")
    put = len(keeper.brought)
    assert await questions.ask("codex", "two") == Leave(allow=False, by="silence")
    assert len(keeper.brought) == put


async def test_late_questions_and_oversized_commands_reach_no_person(keeper: Keeper) -> None:
    assert (await keeper.questions(seconds=0.0).ask("codex", "make test")).by == "silence"
    assert (await keeper.questions().ask("codex", "x" * MOST_SUBJECT)).by == "too_long"
    assert keeper.brought == []
