"""Settles deliveries of the gatekeeper's queues: stored requests go to the submission service, role answers become inputs.

Decides nothing about a run. An unreadable message is dead-lettered with its reason and never blocks the queue.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import msgspec

from gatewright.bus.port import SCHEMA_HEADER, Bus, Delivery, Message
from gatewright.bus.topology import TASK_ROLES, result_subject
from gatewright.bus.versions import OTHER_VERSION, WAITED_FOR, read_version
from gatewright.contracts import (
    Error,
    Plan,
    ReviewReport,
    SummonsAnswer,
    TaskContract,
    TaskResult,
    TestReport,
    UsageReport,
    codec,
)
from gatewright.contracts.vocabulary import RunId
from gatewright.errors import DeniedError, GatewrightError, LimitError, MalformedError, UnavailableError
from gatewright.host_errors import host_errors
from gatewright.queue.commands import read_run_id_of_test
from gatewright.reasons import family_of
from gatewright.secrets.documents import redact_document, redact_message, redact_words
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.gate_checks import expected_task
from gatewright.services.gatekeeper.decider.inputs import RoleReplied, UsageReceived
from gatewright.services.gatekeeper.decider.summons import question_of
from gatewright.services.gatekeeper.dispatch.task_tokens import check_claimed, check_held
from gatewright.services.gatekeeper.intake.endpoint import SubmissionService, read
from gatewright.services.gatekeeper.intake.exhausted_tasks import EXHAUSTED, give_up
from gatewright.services.gatekeeper.intake.submission import message_id
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.queue.merge_queues import MergeQueues
from gatewright.tasks.settlement import put_aside, settle
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

#: Seconds after which an input is redelivered when the bus did not answer.
RETRY = 1.0
#: Number of deliveries that hit a defect before the message is dead-lettered.
MOST_CRASHES = 5
#: Further deliveries when ending its run hits a defect too; then the message is dead-lettered anyway.
MOST_ENDINGS = 3
INTAKE = "gw.intake."
#: Bytes kept of a publisher's message in a dead letter. They are stored permanently, and the sender chose their number.
KEPT_BYTES = 65_536


@dataclass(frozen=True)
class ResultConsumer:
    """Handler of each message of INTAKE, of RESULTS and of exhausted tasks; settles its delivery."""

    bus: Bus
    orchestrator: Orchestrator
    submissions: SubmissionService
    log: Logger
    metrics: Metrics
    scanner: SecretScanner = field(default_factory=SecretScanner)
    queues: MergeQueues | None = None

    @property
    def background(self) -> set[asyncio.Task[None]]:
        """Background work that belongs to no message; shutdown waits for it."""
        return self.orchestrator.background

    async def handle(self, delivery: Delivery) -> None:
        """Handle one message of INTAKE or RESULTS and settle it in every case.

        A defect ends the process, and the message is redelivered. A message that causes this repeatedly is dead-lettered first,
        so that it cannot block all other work. Its run is ended before that.
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
        """Let a stored message wait for its publisher's limits, as long as the queue has space."""
        wait = self.submissions.wait_for_limits(delivery.message, error)
        await (settle(delivery.nak(wait), self.log) if wait is not None else self._bury(delivery, error))

    async def _bury(self, delivery: Delivery, error: GatewrightError) -> None:
        message, reason = await self._presentable(delivery.message, error)
        code, metrics, log = error.reason, self.metrics, self.log
        await put_aside(self.bus, "gatekeeper", delivery, message, code=code, reason=reason, metrics=metrics, log=log)

    async def _presentable(self, message: Message, error: GatewrightError) -> tuple[Message, str]:
        """Return a message and its error as they may be stored for people: without anything that the ledger may not contain."""
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
            await give_up(message, self.bus, self.orchestrator, self.log, self.metrics, self.queues)
        elif message.subject.startswith(INTAKE):
            await self.submissions.take_stored(message, first=first)
        else:
            await self._take_reply(message)

    async def _take_reply(self, message: Message) -> None:
        answered = await read(message, lambda: read_version(message, lambda: answer_of(message)))
        if read_run_id_of_test(run_of(answered)) is not None:
            await self._take_test(answered, message)
            return
        if (run := await self.orchestrator.current(run_of(answered))) is not None:
            check_held(self.bus, run, answered, message)
        await self.orchestrator.advance(run_of(answered), await self._clean(answered))

    async def _take_test(self, answered: RoleReplied | UsageReceived, message: Message) -> None:
        """Take a test runner's answer to a part of a merge queue's test."""
        document = answered.document
        if not isinstance(document, TestReport | Error):
            return  # usage counts for runs only
        if answered.role != "testrunner":
            raise MalformedError(f"a {answered.role} answers no test of a merge queue", code="unexpected_document")
        check_claimed(self.bus, document.run_id or "", document.task_id or "", message)
        cleaned = (await self._clean(answered)).document
        if self.queues is not None and isinstance(cleaned, TestReport | Error):
            await self.queues.take_answer(cleaned)

    async def _clean(self, answered: RoleReplied | UsageReceived) -> RoleReplied | UsageReceived:
        """Return a role's document with each suspected secret replaced by the name of its rule."""
        if isinstance(answered, UsageReceived):
            if answered.document.interrupted is None:
                return answered  # only numbers of it are stored
            report, _ = await asyncio.to_thread(redact_document, answered.document, self.scanner)
            return replace(answered, document=report)
        document, redactions = await asyncio.to_thread(redact_document, answered.document, self.scanner)
        if redactions:
            self.log.warning("answer_redacted", role=answered.role, places=redactions)
        return replace(answered, document=document)


# Ends the run that waits for an answer which crashes the gatekeeper each time: the answer is dead-lettered, and no other answer
# would come. Only the answer of a task in progress, from the process that holds it, ends its run.
CODE = "answer_crashes_gatekeeper"


async def end_its_run(message: Message, defect: Exception, bus: Bus, orchestrator: Orchestrator, log: Logger) -> None:
    """End the run, or the question beside it, with an Error in place of the answer in ``message``. It may be repeated.

    Raises:
        UnavailableError: deliver the message again.
        Exception: what the defect raises when it is in the run itself.
    """
    try:
        answered = await read(message, lambda: answer_of(message))
        run = await orchestrator.current(run_of(answered)) if isinstance(answered, RoleReplied) else None
        if run is None or not isinstance(answered, RoleReplied):
            return
        check_held(bus, run, answered, message)
    except (MalformedError, DeniedError) as error:
        log.warning("answer_ends_no_run", code=error.reason, cause=error.message)
        return
    in_hand = expected_task(run, answered)
    question = question_of(run, answered)
    task_id = in_hand.task_id if in_hand is not None else question.task.task_id if question is not None else None
    if task_id is None:
        return
    words = f"the gatekeeper failed with {type(defect).__name__} each time it took the answer; see its log"
    ending = Error(code=CODE, message=words, run_id=run.run_id, task_id=task_id, role=answered.role, family=family_of(CODE))
    log.error("answer_given_up", code=CODE, run_id=run.run_id, task_id=task_id, cause=words)
    await orchestrator.advance(run.run_id, RoleReplied(answered.role, ending, f"crashed:{message.sequence}"))


def answer_of(message: Message) -> RoleReplied | UsageReceived:
    """Convert a message of RESULTS to an input. The subject identifies the role.

    Raises:
        MalformedError: the message cannot be read.
    """
    role = next((role for role in TASK_ROLES if message.subject == result_subject(role)), None)
    if role is None or role == "gatekeeper":
        raise MalformedError(f"no role answers on {message.subject}", code="unknown_subject")
    document = codec.decode_named(message.data, message.headers.get(SCHEMA_HEADER, ""))
    if isinstance(document, UsageReport):
        return UsageReceived(role, document, message_id(message))
    if not isinstance(document, TaskContract | Plan | TaskResult | ReviewReport | TestReport | SummonsAnswer | Error):
        raise MalformedError(f"a {role} does not answer with {codec.schema_of(document)}", code="unexpected_document")
    return RoleReplied(role, document, message_id(message))


def run_of(answered: RoleReplied | UsageReceived) -> str:
    """Return the run that an answer refers to.

    Raises:
        MalformedError: the answer names no run.
    """
    document = answered.document
    run_id = document.log_refs.run_id if isinstance(document, TaskContract) else document.run_id
    try:
        return msgspec.convert(run_id, RunId)
    except msgspec.ValidationError as error:
        raise MalformedError(f"the answer names no run: {error}", code="unexpected_document") from error
