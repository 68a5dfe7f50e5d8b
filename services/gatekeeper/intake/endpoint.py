"""Where the bus meets the gatekeeper: requests from outside and results of roles become inputs; refusals become answers.

Decides nothing about a run. A message that cannot be read is dead-lettered with its reason and never blocks the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from gatewright.bus.port import SCHEMA_HEADER, Bus, Delivery, Message, Reply
from gatewright.bus.topology import ABORT_SUBJECT, TASK_ROLES, result_subject, stream_of
from gatewright.contracts import (
    Error,
    Plan,
    ReviewReport,
    SubmitReply,
    TaskContract,
    TaskResult,
    TestReport,
    UsageReport,
    codec,
)
from gatewright.contracts.reports import ErrorFault
from gatewright.contracts.vocabulary import Document, RunId
from gatewright.errors import DeniedError, Fault, GatewrightError, LimitError, MalformedError, UnavailableError
from gatewright.host_errors import host_errors
from gatewright.ledger.run import Run
from gatewright.secrets.documents import check_document, redact_document, redact_message, redact_words
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.gatekeeper.decider.inputs import AbortRequested, RoleReplied, Submitted, UsageReceived
from gatewright.services.gatekeeper.dispatch.task_tokens import check_held
from gatewright.services.gatekeeper.intake import publishers
from gatewright.services.gatekeeper.intake.exhausted_tasks import EXHAUSTED, give_up
from gatewright.services.gatekeeper.intake.limits import PublisherLimits
from gatewright.services.gatekeeper.intake.submission import abort_request, message_id, submission
from gatewright.services.gatekeeper.orchestrator import Orchestrator
from gatewright.services.gatekeeper.policies.publishers import Publisher
from gatewright.tasks.dead_letter import publish_dead_letter
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics

#: Seconds after which an input that met a silent bus is brought again.
RETRY = 1.0
#: Deliveries after which a message that meets a defect is put aside.
MOST_CRASHES = 5
INTAKE = "gw.intake."
#: Bytes of a message that is read without letting anything else run meanwhile.
AT_ONCE = 32_768

R = TypeVar("R")


@dataclass(frozen=True)
class Desk:
    """Reads messages for the orchestrator."""

    bus: Bus
    orchestrator: Orchestrator
    limits: PublisherLimits
    log: Logger
    metrics: Metrics
    scanner: SecretScanner = field(default_factory=SecretScanner)
    #: Submissions in hand, by run, publisher and digest of the document.
    accepting: dict[tuple[str, str, str], asyncio.Task[bool]] = field(default_factory=dict)

    @property
    def background(self) -> set[asyncio.Task[None]]:
        """What is done for no message: it is waited for when the process leaves."""
        return self.orchestrator.background

    async def submit(self, message: Message) -> Reply:
        """The endpoint ``gw.submit``: a run id, once the run is in the ledger, or an error that names each fault."""
        try:
            with host_errors():
                item, new = await self._accept(message)
        except GatewrightError as error:
            self.log.warning("submission_refused", subject=message.subject, code=error.reason, cause=error.message)
            self.metrics.submission("refused", error.reason)
            return reply(error_document(error))
        self.metrics.submission("accepted" if new else "existing")
        if new:
            self._later(item)
        return reply(SubmitReply(run_id=item.run_id, existing=not new))

    async def _accept(self, message: Message) -> tuple[Submitted, bool]:
        """The submission, and whether it is new. Asked again while it is in hand, it is answered together with the first."""
        subject, rule = self._publisher(message)
        self.limits.take(rule, "submissions")
        item = await _read(message, lambda: submission(message, subject, rule.name))
        key = (item.run_id, item.publisher, item.document_sha256)
        asked = self.accepting.get(key)
        if asked is not None:
            await asyncio.shield(asked)
            return item, False
        self.log.info("submission_received", run_id=item.run_id, publisher=rule.name, bytes=len(message.data))
        accepting = self.accepting[key] = asyncio.ensure_future(self._accept_new(item, rule))
        try:
            return item, await accepting
        finally:
            del self.accepting[key]

    async def _accept_new(self, item: Submitted, rule: Publisher) -> bool:
        await self._check(item, rule)
        async with self.limits.place(rule, item.run_id, lambda: self._exists(item.run_id)):
            new = await self.orchestrator.accept(item)
            await self._check_same(item)
        return new

    async def handle(self, delivery: Delivery) -> None:
        """One message of INTAKE or RESULTS, settled in every case.

        A defect of ours ends the process, and the message comes again; one that has brought that about time and again is put
        aside first, so that it cannot keep the gatekeeper from everybody else's work.
        """
        try:
            await self._settle(delivery)
        except Exception as defect:
            if delivery.attempts >= MOST_CRASHES:
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
            self.log.warning("input_given_back", subject=message.subject, code=error.reason, cause=error.message)
            await delivery.nak(RETRY)
        except GatewrightError as error:
            self.log.warning("input_refused", subject=message.subject, code=error.reason, cause=error.message)
            await self._bury(delivery, error)
        else:
            await delivery.ack()

    async def _hold(self, delivery: Delivery, error: LimitError) -> None:
        """A stored message waits for its publisher's limits; not so many of them that others' find no room in the queue."""
        _, rule = self._publisher(delivery.message)
        wait = self.limits.hold(rule, delivery.message.sequence, error)
        self.log.warning("input_held_back", publisher=rule.name, code=error.reason, seconds=wait)
        await (delivery.nak(wait) if wait is not None else self._bury(delivery, error))

    async def _bury(self, delivery: Delivery, error: GatewrightError) -> None:
        message, reason = await self._presentable(delivery.message, error)
        stream = stream_of(message.subject)
        await publish_dead_letter(
            self.bus,
            "gatekeeper",
            stream,
            message,
            attempts=delivery.attempts,
            code=error.reason,
            reason=reason,
            altered=message.data != delivery.message.data,
        )
        self.metrics.dead_letter(error.reason)
        await delivery.term()

    async def _presentable(self, message: Message, error: GatewrightError) -> tuple[Message, str]:
        """What is put aside, and why, is kept for people to look at: it may not hold what the ledger may not hold."""
        try:
            data = await asyncio.to_thread(redact_message, message.data, self.scanner)
            reason = await asyncio.to_thread(redact_words, error.message, self.scanner)
        except GatewrightError as failed:
            self.log.warning("dead_letter_without_body", code=failed.reason, cause=failed.message)
            return replace(message, data=b""), error.reason
        return replace(message, data=data), reason

    async def _advance(self, message: Message, *, first: bool) -> None:
        if message.subject.startswith(EXHAUSTED):
            await give_up(message, self.bus, self.orchestrator, self.log, self.metrics)
            return
        if not message.subject.startswith(INTAKE):
            answered = await _read(message, lambda: answer_of(message))
            if (run := await self._run(run_of(answered))) is not None:
                check_held(self.bus, run, answered, message)
            await self.orchestrator.advance(run_of(answered), await self._clean(answered))
            return
        subject, rule = self._publisher(message)
        if first:
            self.limits.take(rule, "submissions")
        if subject == ABORT_SUBJECT:
            await self._abort(message, rule)
            return
        item = await _read(message, lambda: submission(message, subject, rule.name, durable_key=message_id(message)))
        await self._check(item, rule)
        if not await self._exists(item.run_id):
            if not first:
                self.limits.take(rule, "submissions")
            async with self.limits.place(rule, item.run_id, lambda: self._exists(item.run_id)):
                await self.orchestrator.accept(item)
        self.limits.let_go(rule, message.sequence)
        await self._check_same(item)
        await self.orchestrator.advance(item.run_id, item)

    async def _abort(self, message: Message, rule: Publisher) -> None:
        self.limits.let_go(rule, message.sequence)
        request, _ = await asyncio.to_thread(redact_document, abort_request(message), self.scanner)
        run = await self._run(request.run_id)
        if run is not None and not publishers.may_abort(run, rule):
            raise DeniedError(f"{rule.name} may not end a run of {run.publisher}", code="abort_not_allowed")
        await self.orchestrator.advance(request.run_id, AbortRequested(request, message_id(message), rule.name))

    def _publisher(self, message: Message) -> tuple[str, Publisher]:
        return publishers.sender(message, self.orchestrator.gates.policies.publishers)

    async def _check(self, item: Submitted, rule: Publisher) -> None:
        publishers.check_document(item.document, item.run_id, rule)
        await asyncio.to_thread(check_document, item.document, self.scanner)

    async def _check_same(self, item: Submitted) -> None:
        """After the run is in the ledger, whoever put it there: was it made of this document?"""
        run = await self._run(item.run_id)
        if run is not None:
            publishers.check_same(run, item.publisher, item.document_sha256)
            self.limits.runs.note(run)

    async def _exists(self, run_id: str) -> bool:
        return await self._run(run_id) is not None

    async def _run(self, run_id: str) -> Run | None:
        """A run as the ledger has it; one that is over is not remembered, or old keys sent again would fill the memory."""
        run = (await self.orchestrator.ledger.get(run_id)).run
        if run is not None and run.sealed is not None:
            self.orchestrator.left_behind(run_id)
        return run

    async def _clean(self, answered: RoleReplied | UsageReceived) -> RoleReplied | UsageReceived:
        """A role's document as it may be kept: what looks like a secret in it is replaced by the name of its rule."""
        if isinstance(answered, UsageReceived):
            return answered  # nothing of it is kept but numbers
        document, redactions = await asyncio.to_thread(redact_document, answered.document, self.scanner)
        if redactions:
            self.log.warning("answer_redacted", role=answered.role, places=redactions)
        return replace(answered, document=document)

    def _later(self, item: Submitted) -> None:
        """Take the run's own next steps after the publisher has been answered; a crash here is made good by ``resume``."""
        task = asyncio.get_running_loop().create_task(self._carry_on(item))
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def _carry_on(self, item: Submitted) -> None:
        try:
            with host_errors():
                await self.orchestrator.advance(item.run_id, item)
        except UnavailableError as error:
            self.log.warning("run_left_for_later", run_id=item.run_id, code=error.reason, cause=error.message)


async def _read(message: Message, reader: Callable[[], R]) -> R:
    """What ``reader`` makes of ``message``; of a large one beside everything else, since it may be made to take seconds."""
    return reader() if len(message.data) <= AT_ONCE else await asyncio.to_thread(reader)


def answer_of(message: Message) -> RoleReplied | UsageReceived:
    """A message of RESULTS as an input; the subject says whose it is. Raises MalformedError."""
    role = next((role for role in TASK_ROLES if message.subject == result_subject(role)), None)
    if role is None or role == "gatekeeper":
        raise MalformedError(f"no role answers on {message.subject}", code="unknown_subject")
    document = codec.decode_named(message.data, message.headers.get(SCHEMA_HEADER, ""))
    if isinstance(document, UsageReport):
        return UsageReceived(role, document, message_id(message))
    if not isinstance(document, TaskContract | Plan | TaskResult | ReviewReport | TestReport | Error):
        raise MalformedError(f"a {role} does not answer with {codec.schema_of(document)}", code="unexpected_document")
    return RoleReplied(role, document, message_id(message))


def run_of(answered: RoleReplied | UsageReceived) -> str:
    """The run that an answer is about. Raises MalformedError when it names none."""
    document = answered.document
    run_id = document.log_refs.run_id if isinstance(document, TaskContract) else document.run_id
    try:
        return msgspec.convert(run_id, RunId)
    except msgspec.ValidationError as error:
        raise MalformedError(f"the answer names no run: {error}", code="unexpected_document") from error


def error_document(error: GatewrightError) -> Error:
    """What a publisher is told."""
    faults = error.faults if isinstance(error, MalformedError | DeniedError) else ()
    return Error(
        code=error.reason,
        message=error.message,
        faults=tuple(_fault(fault) for fault in faults),
        retry_after_seconds=error.retry_after if isinstance(error, LimitError) else None,
        family=error.family,
    )


def _fault(fault: Fault) -> ErrorFault:
    return ErrorFault(pointer=fault.pointer, code=fault.code, message=fault.message)


def reply(document: Document) -> Reply:
    return Reply(codec.encode(document), codec.schema_of(document))
