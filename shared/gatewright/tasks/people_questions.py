"""Puts what an agent asks leave for to the people of an operator's rule, by way of the gatekeeper: this once, or not.

The gatekeeper has the question in its ledger and is asked again and again until a person has decided it, so another gatekeeper
may go on with it. Silence refuses, and so does a gatekeeper that is not heard for too long; no further question is put then.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

from gatewright.bus.port import SCHEMA_HEADER, TASK_TOKEN_HEADER, Bus, Message
from gatewright.bus.topology import LEAVE_SUBJECT
from gatewright.contracts import AgentLeave, AgentQuestion, Error, codec
from gatewright.errors import BusError, MalformedError
from gatewright.tasks.protocol import TaskRef
from gatewright.tasks.questions import MOST_SUBJECT, AnsweredBy, Leave

#: Seconds between two looks at how a question stands; that one look may take; and that no gatekeeper may be heard.
LOOK: Final = 2.0
PATIENCE: Final = 10.0
LOST: Final = 120.0
#: Maximum seconds that a question may wait, by its schema.
_LONGEST: Final = 3600.0
#: Why the gatekeeper asked no person, in the words of an agent's events.
_UNASKED: Final[dict[str, AnsweredBy]] = {
    "too_many_agent_questions": "too_many",
    "agent_question_unreadable": "too_long",
    "message_too_large": "too_long",
    "secret_found": "secret",
}


class PeopleQuestions:
    """What the agents of one task ask, by its ``delivery`` of that number. ``seconds``: its time limit, which begins now."""

    def __init__(
        self, bus: Bus, ref: TaskRef, message: Message, *, delivery: int, seconds: float, look: float = LOOK, lost: float = LOST
    ) -> None:
        self._bus = bus
        self._ref = ref
        self._token = message.headers.get(TASK_TOKEN_HEADER, "")
        self._until = asyncio.get_running_loop().time() + seconds
        self._delivery = delivery
        self._look = look
        self._lost = lost
        self._silent = False

    async def ask(self, agent: str, subject: str) -> Leave:
        """One question; see the module."""
        left = min(_LONGEST, self._until - asyncio.get_running_loop().time())
        if self._silent or left <= 0:
            return Leave(allow=False, by="silence")
        if len(subject) >= MOST_SUBJECT:
            return Leave(allow=False, by="too_long")
        question = AgentQuestion(
            question_id=secrets.token_hex(16),
            run_id=self._ref.run_id,
            task_id=self._ref.task_id,
            agent=agent,
            subject=subject,
            seconds=left,
            delivery=self._delivery,
        )
        try:
            async with asyncio.timeout(left):
                leave = await self._await_leave(question)
        except (TimeoutError, BusError):
            leave = Leave(allow=False, by="silence")
        self._silent = leave.by == "silence"
        return leave

    async def _await_leave(self, question: AgentQuestion) -> Leave:
        """Return the gatekeeper's final answer. Raises BusError after too long without any answer."""
        loop = asyncio.get_running_loop()
        heard = loop.time()
        while True:
            try:
                answer = await self._ask_once(question)
            except BusError:
                if loop.time() - heard > self._lost:
                    raise
            else:
                heard = loop.time()
                if isinstance(answer, Leave):
                    return answer
            await asyncio.sleep(self._look)

    async def _ask_once(self, question: AgentQuestion) -> Leave | None:
        """How it stands; None: it waits. What cannot be read is no answer. Raises BusError."""
        headers = {TASK_TOKEN_HEADER: self._token}
        data, schema = codec.encode(question), codec.schema_of(question)
        answer = await self._bus.request(LEAVE_SUBJECT, data, schema=schema, timeout=PATIENCE, headers=headers)
        try:
            document = codec.decode_named(answer.data, answer.headers.get(SCHEMA_HEADER, ""))
        except MalformedError as error:
            raise BusError(f"an answer that cannot be read: {error.message}") from error
        if isinstance(document, Error):
            if document.family == "infrastructure":
                raise BusError(document.message)
            return Leave(allow=False, by=_UNASKED.get(document.code, "unreachable"))
        about = (question.question_id, question.run_id, question.task_id)
        if not isinstance(document, AgentLeave) or (document.question_id, document.run_id, document.task_id) != about:
            raise BusError("an answer to something else")
        if document.standing == "pending":
            return None
        decided = document.status in {"approved", "rejected"}
        return Leave(allow=document.standing == "allowed", by="person" if decided else "silence", person=document.person)
