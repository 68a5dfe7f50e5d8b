"""``gw.summon``: publishers ask roles about open runs and read the answers. The questions never change a run's state."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from msgspec.structs import replace

from gatewright.bus.port import Handler, Message, Reply
from gatewright.bus.topology import SUMMON_SUBJECT
from gatewright.client.refusals import error_document, reply
from gatewright.contracts import SummonsList, SummonsRequest, codec
from gatewright.contracts.people.summons import SummonsStanding
from gatewright.errors import DeniedError, GatewrightError, MalformedError
from gatewright.host_errors import host_errors
from gatewright.rules.summons import most_of, number_asked, summons_id, summons_orders
from gatewright.run.state import AskedSummons, Run
from gatewright.secrets.documents import check_document
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.inputs import SummonsReceived
from gatewright.services.gatekeeper.intake import publishers
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.publishers import Publisher
from gatewright.telemetry.logs import Logger


@dataclass(frozen=True)
class SummonsService:
    """The endpoint. A request consumes a question of its publisher's ``limits``."""

    orchestrator: Orchestrator
    limits: PublisherLimits
    log: Logger
    scanner: SecretScanner

    def endpoints(self) -> dict[str, Handler]:
        """Return the handlers by plain subject."""
        return {SUMMON_SUBJECT: self._answer_message}

    async def _answer_message(self, message: Message) -> Reply:
        try:
            _, rule = publishers.sender(message, self.orchestrator.policies.publishers)
            self.limits.take(rule, "questions")
            with host_errors():
                return reply(await self.ask(message.data, rule))
        except GatewrightError as error:
            self.log.info("summons_refused", subject=message.subject, code=error.reason, cause=error.message)
            return reply(error_document(error))

    async def ask(self, data: bytes, rule: Publisher) -> SummonsList:
        """Dispatch all questions of a request or none, and return the status of all questions about the run.

        1. The request contains no secret, because it is stored permanently.
        2. The publisher may see and end the run.
        3. The rules of ``summons_orders`` allow the questions.

        Raises:
            MalformedError: ``run_unknown``, ``secret_found``.
            DeniedError: the publisher or the rules do not allow a question.
        """
        request = codec.decode(data, SummonsRequest)
        await asyncio.to_thread(check_document, request, self.scanner)  # 1
        run = await self._visible_run(request.run_id, rule)  # 2
        bounds = self.orchestrator.policies.summons
        asked = [summons_id(run.run_id, request, rule.name, number) for number in range(len(request.questions))]
        if request.questions:
            if not publishers.may_abort(run, rule):
                raise DeniedError(f"{rule.name} may not ask about a run of {run.publisher}", code="summons_not_allowed")
            if summons_orders(run, request, bounds, rule.name):  # 3
                name = f"summons:{asked[0]}"
                await self.orchestrator.advance(run.run_id, SummonsReceived(request, name, rule.name, bounds))
                run = await self._visible_run(request.run_id, rule)
                self._check_taken(run, request, asked, rule)
        listed = tuple(_summons_standing(each) for each in run.summonses.values())
        left = max(0, most_of(bounds) - number_asked(run)) if not run.ended else 0
        return SummonsList(run_id=run.run_id, summonses=listed, asked=tuple(asked), left=left)

    def _check_taken(self, run: Run, request: SummonsRequest, asked: list[str], rule: Publisher) -> None:
        """Check that the questions were recorded. Others may have asked, or the run may have ended, at the same moment."""
        missing = [task_id for task_id in asked if task_id not in run.summonses]
        if missing:
            summons_orders(run, request, self.orchestrator.policies.summons, rule.name)
            raise DeniedError(f"{run.run_id} is being landed at this moment", code="summons_after_end")
        words = {"run_id": run.run_id, "trace_id": run.trace_id, "publisher": rule.name}
        self.log.info("summons_recorded", questions=asked, **words)

    async def _visible_run(self, run_id: str, rule: Publisher) -> Run:
        run = await self.orchestrator.reload(run_id)
        if not publishers.may_see(run, rule):
            raise MalformedError(f"there is no run {run_id}", code="run_unknown")
        return run


def _summons_standing(asked: AskedSummons) -> SummonsStanding:
    """Return a question as publishers see it.

    The prompts of the role's model are of unbounded size: events and bundle have them.
    """
    answer = replace(asked.answer, consultation=None) if asked.answer is not None else None
    return SummonsStanding(task=replace(asked.task, transfer=None), asked_at=asked.at, answer=answer)
