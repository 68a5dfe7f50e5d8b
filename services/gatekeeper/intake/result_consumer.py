"""Settles what the gatekeeper's queues deliver: stored requests go to the submission service, answers of roles become inputs.

Decides nothing about a run. A message that cannot be read is dead-lettered with its reason and never blocks the queue.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from gatewright.bus.port import Bus, Delivery, Message
from gatewright.bus.versions import OTHER_VERSION, WAITED_FOR, read_version
from gatewright.errors import GatewrightError, LimitError, UnavailableError
from gatewright.host_errors import host_errors
from gatewright.secrets.documents import redact_document, redact_message, redact_words
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.inputs import RoleReplied, UsageReceived
from gatewright.services.gatekeeper.dispatch.task_tokens import check_held
from gatewright.services.gatekeeper.intake.crashed_answers import end_its_run
from gatewright.services.gatekeeper.intake.endpoint import SubmissionService
from gatewright.services.gatekeeper.intake.exhausted_tasks import EXHAUSTED, give_up
from gatewright.services.gatekeeper.intake.reading import read
from gatewright.services.gatekeeper.intake.role_replies import answer_of, run_of
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.tasks.settlement import put_aside, settle
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

#: Seconds after which an input that met a silent bus is brought again.
RETRY = 1.0
#: Deliveries after which a message that meets a defect is put aside.
MOST_CRASHES = 5
#: Further ones in which ending its run meets a defect, too: then it is put aside all the same.
MOST_ENDINGS = 3
INTAKE = "gw.intake."
#: Bytes of a publisher's message that are kept when it is put aside: they are kept for good, and its sender chose how many.
KEPT_BYTES = 65_536


@dataclass(frozen=True)
class ResultConsumer:
    """Handles each message of INTAKE, of RESULTS and of the exhausted tasks, and settles its delivery."""

    bus: Bus
    orchestrator: Orchestrator
    submissions: SubmissionService
    log: Logger
    metrics: Metrics
    scanner: SecretScanner = field(default_factory=SecretScanner)

    @property
    def background(self) -> set[asyncio.Task[None]]:
        """What is done for no message: it is waited for when the process leaves."""
        return self.orchestrator.background

    async def handle(self, delivery: Delivery) -> None:
        """One message of INTAKE or RESULTS, settled in every case.

        A defect of ours ends the process, and the message comes again; one that has brought that about time and again is put
        aside first, so that it cannot keep the gatekeeper from everybody else's work. Its run is ended before that.
        """
        try:
            await self._settle(delivery)
        except Exception as defect:
            if delivery.attempts >= MOST_CRASHES:
                if delivery.attempts < MOST_CRASHES + MOST_ENDINGS:
                    await end_its_run(delivery.message, defect, self.bus, self.orchestrator, self.log)
                await self._bury(delivery, GatewrightError(f"{type(defect).__name__}: {defect}"))
            raise

    async def _settle(self, delivery: Delivery) -> None:
        message = delivery.message
        try:
            with host_errors():
                await self._advance(message, first=delivery.attempts == 1)
        except LimitError as error:
            await self._hold(delivery, error)
        except UnavailableError as error:
            if error.reason == OTHER_VERSION and self.orchestrator.clock.now().timestamp() > message.stored_at + WAITED_FOR:
                await self._bury(delivery, error)
                return
            self.log.warning("input_given_back", subject=message.subject, code=error.reason, cause=error.message)
            await settle(delivery.nak(RETRY), self.log)
        except GatewrightError as error:
            self.log.warning("input_refused", subject=message.subject, code=error.reason, cause=error.message)
            await self._bury(delivery, error)
        else:
            await settle(delivery.ack(), self.log)

    async def _hold(self, delivery: Delivery, error: LimitError) -> None:
        """A stored message waits for its publisher's limits, as long as there is room for it in the queue."""
        wait = self.submissions.wait_for_limits(delivery.message, error)
        await (settle(delivery.nak(wait), self.log) if wait is not None else self._bury(delivery, error))

    async def _bury(self, delivery: Delivery, error: GatewrightError) -> None:
        message, reason = await self._presentable(delivery.message, error)
        code, metrics, log = error.reason, self.metrics, self.log
        await put_aside(self.bus, "gatekeeper", delivery, message, code=code, reason=reason, metrics=metrics, log=log)

    async def _presentable(self, message: Message, error: GatewrightError) -> tuple[Message, str]:
        """What is put aside, and why, is kept for people to look at: it may not hold what the ledger may not hold."""
        try:
            data = await asyncio.to_thread(redact_message, message.data, self.scanner)
            reason = await asyncio.to_thread(redact_words, error.message, self.scanner)
        except GatewrightError as failed:
            self.log.warning("dead_letter_without_body", code=failed.reason, cause=failed.message)
            return replace(message, data=b""), error.reason
        if message.subject.startswith(INTAKE) and len(data) > KEPT_BYTES:
            reason = f"(of {len(data)} bytes the first {KEPT_BYTES} are kept) {reason}"
            data = data[:KEPT_BYTES]
        return replace(message, data=data), reason

    async def _advance(self, message: Message, *, first: bool) -> None:
        if message.subject.startswith(EXHAUSTED):
            await give_up(message, self.bus, self.orchestrator, self.log, self.metrics)
        elif message.subject.startswith(INTAKE):
            await self.submissions.take_stored(message, first=first)
        else:
            await self._take_reply(message)

    async def _take_reply(self, message: Message) -> None:
        answered = await read(message, lambda: read_version(message, lambda: answer_of(message)))
        if (run := await self.orchestrator.current(run_of(answered))) is not None:
            check_held(self.bus, run, answered, message)
        await self.orchestrator.advance(run_of(answered), await self._clean(answered))

    async def _clean(self, answered: RoleReplied | UsageReceived) -> RoleReplied | UsageReceived:
        """A role's document as it may be kept: what looks like a secret in it is replaced by the name of its rule."""
        if isinstance(answered, UsageReceived):
            if answered.document.interrupted is None:
                return answered  # nothing of it is kept but numbers
            report, _ = await asyncio.to_thread(redact_document, answered.document, self.scanner)
            return replace(answered, document=report)
        document, redactions = await asyncio.to_thread(redact_document, answered.document, self.scanner)
        if redactions:
            self.log.warning("answer_redacted", role=answered.role, places=redactions)
        return replace(answered, document=document)
