"""``gw.leave``: workers forward permission requests of agents and repeat them until people have answered.

The server lets only workers publish here, and each answer goes to the inbox of the asking connection. A request must carry the
token of its task. It is in the ledger before it is answered, so any gatekeeper can continue with it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gatewright.bus.port import Handler, Message, Reply
from gatewright.bus.topology import LEAVE_SUBJECT
from gatewright.client.refusals import error_document, reply
from gatewright.contracts import AgentLeave, AgentQuestion, codec
from gatewright.errors import DeniedError, GatewrightError, MalformedError
from gatewright.host_errors import host_errors
from gatewright.rules.blocked.agent_questions import known_question, leave_of, question_request
from gatewright.run.state import AskedApproval, Run
from gatewright.secrets.documents import check_document
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.inputs import QuestionReceived
from gatewright.services.gatekeeper.dispatch.task_tokens import check_claimed
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.telemetry.logs import Logger

#: Maximum bytes of a request. Apart from the agent's text, task ids from outside are its longest part.
MOST_BYTES = 32_768


@dataclass(frozen=True)
class AgentQuestionService:
    """Endpoint of workers."""

    orchestrator: Orchestrator
    log: Logger
    scanner: SecretScanner

    def endpoints(self) -> dict[str, Handler]:
        """Return the handlers by subject."""
        return {LEAVE_SUBJECT: self._answer_message}

    async def _answer_message(self, message: Message) -> Reply:
        try:
            with host_errors():
                return reply(await self.ask(message))
        except GatewrightError as error:
            self.log.warning("agent_question_refused", code=error.reason, cause=error.message)
            return reply(error_document(error))

    async def ask(self, message: Message) -> AgentLeave:
        """Forward a permission request to people, once, and return its status.

        1. It comes from the process that holds the task.
        2. It contains no secret, because it is stored permanently.
        3. The rules of ``question_request`` allow it.

        Raises:
            MalformedError: ``run_unknown``, ``secret_found``.
            DeniedError: the sender does not hold the task, or the rules refuse the request.
        """
        if message.size > MOST_BYTES:
            words = f"a question of {message.size} bytes; {MOST_BYTES} are allowed"
            raise MalformedError(words, code="message_too_large")
        question = codec.decode(message.data, AgentQuestion)
        check_claimed(self.orchestrator.bus, question.run_id, question.task_id, message)  # 1
        run = await self.orchestrator.reload(question.run_id)
        asked = known_question(run, question)
        if asked is None:
            await asyncio.to_thread(check_document, question, self.scanner)  # 2
            question_request(run, question, self.orchestrator.clock.now())  # 3
            name = f"question:{question.question_id}"
            await self.orchestrator.advance(question.run_id, QuestionReceived(question, name))
            asked = self._taken_question(await self.orchestrator.reload(question.run_id), question)
        return leave_of(await self.orchestrator.reload(question.run_id), asked, self.orchestrator.clock.now())

    def _taken_question(self, run: Run, question: AgentQuestion) -> AskedApproval:
        """Return the recorded request. The task may have ended at the same moment."""
        asked = known_question(run, question)
        if asked is None:
            question_request(run, question, self.orchestrator.clock.now())
            raise DeniedError("the task is over", code="agent_question_out_of_turn")
        words = {"run_id": run.run_id, "trace_id": run.trace_id, "request": asked.request.request_id}
        self.log.info("agent_question_recorded", task_id=question.task_id, **words)
        return asked
