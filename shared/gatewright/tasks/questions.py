"""Sends an agent's permission request to the run's publisher, and receives its answer: once, or not.

The task's header, written by the gatekeeper, names the permitted publisher; the subject, enforced by the server, identifies who
answers. The number of questions and the time for each are limited, and a timeout refuses: after one unanswered question, no
further one of the task is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Literal

from gatewright.bus.port import PUBLISHER_HEADER, Bus, Message
from gatewright.bus.topology import answer_subject, question_subject
from gatewright.contracts import AgentAnswer, AgentQuestion, codec
from gatewright.errors import BusError
from gatewright.tasks.protocol import TaskRef

#: Seconds that a person has for an answer, and questions of one task.
QUESTION_SECONDS: Final = 120.0
MOST_QUESTIONS: Final = 50
#: A subject that is as long may have been cut, and no person allows what they have not read to its end.
MOST_SUBJECT: Final = 2_000

#: Why it was answered so: by a person; or none answered, too many or too long ones were asked, it
#: holds what looks like a secret, none can be asked.
AnsweredBy = Literal["person", "silence", "too_many", "too_long", "secret", "unreachable"]


@dataclass(frozen=True, slots=True)
class Leave:
    """The answer to one question. ``person``: the publisher, and the person it names."""

    allow: bool
    by: AnsweredBy
    person: str = ""


#: Given the agent's name and what it wants to run.
AskPublisher = Callable[[str, str], Awaitable[Leave]]


async def refuse_question(agent: str, subject: str) -> Leave:
    """For tasks that no publisher can be asked about."""
    del agent, subject
    return Leave(allow=False, by="unreachable")


class PublisherQuestions:
    """How the tasks of one process ask."""

    def __init__(self, bus: Bus, *, seconds: float = QUESTION_SECONDS) -> None:
        self._bus = bus
        self.seconds = seconds

    def of(self, ref: TaskRef, message: Message) -> AskPublisher:
        """Return the function with which an agent of the task in ``message`` asks."""
        publisher = message.headers.get(PUBLISHER_HEADER, "")
        return _TaskQuestions(self, publisher, ref).ask if publisher else refuse_question

    async def put(self, publisher: str, question: AgentQuestion) -> AgentAnswer:
        """The answer of ``publisher``, heard on a connection of its own while it is waited for. Raises TimeoutError, BusError.

        What a publisher sends without being asked reaches no worker, and what it sends too much of takes away no other's task.
        """
        answered: asyncio.Future[AgentAnswer] = asyncio.get_running_loop().create_future()

        async def hear(message: Message) -> None:
            """Only the publisher of the run is believed, only about this question, and only the first time."""
            answer = codec.decode(message.data, AgentAnswer)
            about = (answer.question_id, answer.run_id, answer.task_id)
            if about == (question.question_id, question.run_id, question.task_id) and not answered.done():
                answered.set_result(answer)

        async with asyncio.timeout(question.seconds), contextlib.AsyncExitStack() as stack:
            hearing = await self._bus.another()
            stack.push_async_callback(hearing.close)
            await hearing.listen(answer_subject(publisher), hear)
            await self._bus.broadcast(question_subject(publisher), codec.encode(question))
            return await answered


class _TaskQuestions:
    def __init__(self, questions: PublisherQuestions, publisher: str, ref: TaskRef) -> None:
        self._questions = questions
        self._publisher = publisher
        self._ref = ref
        self._asked = 0
        self._silent = False

    async def ask(self, agent: str, subject: str) -> Leave:
        """One question; see the module."""
        if self._silent:
            return Leave(allow=False, by="silence")
        if len(subject) >= MOST_SUBJECT:
            return Leave(allow=False, by="too_long")
        self._asked += 1
        if self._asked > MOST_QUESTIONS:
            return Leave(allow=False, by="too_many")
        question = AgentQuestion(
            question_id=secrets.token_hex(16),
            run_id=self._ref.run_id,
            task_id=self._ref.task_id,
            agent=agent,
            subject=subject,
            seconds=self._questions.seconds,
        )
        try:
            answer = await self._questions.put(self._publisher, question)
        except (TimeoutError, BusError):
            self._silent = True
            return Leave(allow=False, by="silence")
        who = " ".join(word for word in (self._publisher, answer.answered_by) if word)
        return Leave(allow=answer.allow, by="person", person=who)
