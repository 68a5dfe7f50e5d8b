"""Where the bus meets the gatekeeper: requests from outside and results of roles become inputs; refusals become answers.

Decides nothing about a run. A message that cannot be read is dead-lettered with its reason and never blocks the queue.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, field, replace

import msgspec

from gatewright.bus.dead_letter import publish_dead_letter
from gatewright.bus.port import MESSAGE_ID_HEADER, SCHEMA_HEADER, TRACE_HEADER, Bus, Delivery, Message, Reply
from gatewright.bus.topology import ABORT_SUBJECT, CONTRACT_SUBJECT, REQUEST_SUBJECT, TASK_ROLES, result_subject
from gatewright.clock import new_id
from gatewright.contracts import (
    AbortRequest,
    Error,
    Plan,
    ReviewReport,
    RunRequest,
    SubmitReply,
    TaskContract,
    TaskResult,
    TestReport,
    codec,
    strict_json,
)
from gatewright.contracts.reports import ErrorFault
from gatewright.contracts.vocabulary import RunId
from gatewright.errors import Fault, GatewrightError, MalformedError, UnavailableError
from gatewright.ledger.run import run_id_of, trace_id_of
from gatewright.secrets.documents import check_document, redact_document, redact_message, redact_words
from gatewright.secrets.scanner import SecretScanner
from gatewright.telemetry.logs import Logger
from gatewright.telemetry.metrics import Metrics
from services.gatekeeper.conductor import Conductor
from services.gatekeeper.decider.inputs import AbortAsked, Answered, Submitted

#: Seconds after which a run that waits for locks, or an input that met a silent bus, is brought again.
COME_BACK = 0.2
RETRY = 1.0
#: Deliveries after which a message that meets a defect is put aside.
MOST_CRASHES = 5
SUBJECT_SCHEMAS = {
    REQUEST_SUBJECT: "run_request.v1",
    CONTRACT_SUBJECT: "task_contract.v1",
    ABORT_SUBJECT: "abort_request.v1",
}


@dataclass(frozen=True)
class Desk:
    """Reads messages for the conductor."""

    bus: Bus
    conductor: Conductor
    log: Logger
    metrics: Metrics
    scanner: SecretScanner = field(default_factory=SecretScanner)
    background: set[asyncio.Task[None]] = field(default_factory=set)

    async def submit(self, message: Message) -> Reply:
        """The endpoint ``gw.submit``: a run id, once the run is in the ledger, or an error that names each fault."""
        try:
            item = submission(message, durable_key=None)
            await asyncio.to_thread(check_document, item.document, self.scanner)
            new = await self.conductor.accept(item)
        except GatewrightError as error:
            self.log.warning("submission_refused", code=error.reason, cause=error.message)
            return _reply(error_document(error))
        if new:
            self._later(item)
        return _reply(SubmitReply(run_id=item.run_id, existing=not new))

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
            done = await self._advance(message)
        except UnavailableError as error:
            self.log.warning("input_given_back", subject=message.subject, code=error.reason, cause=error.message)
            await delivery.nak(RETRY)
        except GatewrightError as error:
            self.log.warning("input_refused", subject=message.subject, code=error.reason, cause=error.message)
            await self._bury(delivery, error)
        else:
            await (delivery.ack() if done else delivery.nak(COME_BACK))

    async def _bury(self, delivery: Delivery, error: GatewrightError) -> None:
        message, reason = await self._presentable(delivery.message, error)
        stream = "INTAKE" if message.subject.startswith("gw.intake.") else "RESULTS"
        await publish_dead_letter(
            self.bus,
            "gatekeeper",
            stream,
            message,
            attempts=delivery.attempts,
            code=error.reason,
            reason=reason,
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

    async def _advance(self, message: Message) -> bool:
        if message.subject == ABORT_SUBJECT:
            request, _ = await asyncio.to_thread(redact_document, codec.decode(message.data, AbortRequest), self.scanner)
            return await self.conductor.advance(request.run_id, AbortAsked(request, _message_id(message)))
        if message.subject in SUBJECT_SCHEMAS:
            item = submission(message, durable_key=_message_id(message))
            await asyncio.to_thread(check_document, item.document, self.scanner)
            return await self.conductor.advance(item.run_id, item)
        answered = await self._clean(answer_of(message))
        return await self.conductor.advance(run_of(answered), answered)

    async def _clean(self, answered: Answered) -> Answered:
        """A role's document as it may be kept: what looks like a secret in it is replaced by the name of its rule."""
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
            await self.conductor.advance(item.run_id, item)
        except UnavailableError as error:
            self.log.warning("run_left_for_later", run_id=item.run_id, code=error.reason, cause=error.message)


def submission(message: Message, *, durable_key: str | None) -> Submitted:
    """A message from outside as an input. Raises MalformedError with the faults of the document."""
    name = message.headers.get(SCHEMA_HEADER) or SUBJECT_SCHEMAS.get(message.subject) or _guess(message.data)
    document = codec.decode_named(message.data, name)
    if not isinstance(document, RunRequest | TaskContract):
        raise MalformedError(f"a {name} cannot be submitted", code="not_submittable")
    key = document.idempotency_key if isinstance(document, RunRequest) else None
    run_id = run_id_of(key or message.headers.get(MESSAGE_ID_HEADER) or durable_key or new_id())
    return Submitted(
        run_id=run_id,
        trace_id=_trace_id(message) or trace_id_of(run_id),
        document=document,
        submitted_sha256=hashlib.sha256(message.data).hexdigest(),
        message_id=durable_key or f"submit:{run_id}",
    )


def answer_of(message: Message) -> Answered:
    """A message of RESULTS as an input; the subject says whose it is. Raises MalformedError."""
    role = next((role for role in TASK_ROLES if message.subject == result_subject(role)), None)
    if role is None or role == "gatekeeper":
        raise MalformedError(f"no role answers on {message.subject}", code="unknown_subject")
    document = codec.decode_named(message.data, message.headers.get(SCHEMA_HEADER, ""))
    if not isinstance(document, TaskContract | Plan | TaskResult | ReviewReport | TestReport | Error):
        raise MalformedError(f"a {role} does not answer with {codec.schema_of(document)}", code="unexpected_document")
    return Answered(role, document, _message_id(message))


def run_of(answered: Answered) -> str:
    """The run that an answer is about. Raises MalformedError when it names none."""
    document = answered.document
    run_id = document.log_refs.run_id if isinstance(document, TaskContract) else document.run_id
    try:
        return msgspec.convert(run_id, RunId)
    except msgspec.ValidationError as error:
        raise MalformedError(f"the answer names no run: {error}", code="unexpected_document") from error


def error_document(error: GatewrightError) -> Error:
    """What a publisher is told."""
    faults = error.faults if isinstance(error, MalformedError) else ()
    return Error(code=error.reason, message=error.message, faults=tuple(_fault(fault) for fault in faults))


def _fault(fault: Fault) -> ErrorFault:
    return ErrorFault(pointer=fault.pointer, code=fault.code, message=fault.message)


def _reply(document: Error | SubmitReply) -> Reply:
    return Reply(codec.encode(document), codec.schema_of(document))


def _message_id(message: Message) -> str:
    return message.headers.get(MESSAGE_ID_HEADER) or f"{message.subject}:{message.sequence}"


def _trace_id(message: Message) -> str | None:
    """The trace id of a W3C ``traceparent``: ``00-<32 hex>-<16 hex>-<2 hex>``."""
    parts = message.headers.get(TRACE_HEADER, "").split("-")
    hexadecimal = len(parts) == 4 and len(parts[1]) == 32 and set(parts[1]) <= set("0123456789abcdef")
    return parts[1] if hexadecimal else None


def _guess(data: bytes) -> str:
    """The schema of an unlabelled submission: only a contract has a ``task_id``, only a request a ``request``."""
    value = strict_json.parse(data)
    is_contract = isinstance(value, dict) and "task_id" in value and "request" not in value
    return "task_contract.v1" if is_contract else "run_request.v1"
