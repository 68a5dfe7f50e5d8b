"""Converts a message from outside to an input: its document, its idempotency key, and so the id of its run. Pure."""

from __future__ import annotations

import hashlib

from gatewright.bus.identities import DEFAULT_PUBLISHER
from gatewright.bus.port import KEY_HEADER, MESSAGE_ID_HEADER, SCHEMA_HEADER, TRACE_HEADER, Message
from gatewright.bus.topology import ABORT_SUBJECT, CONTRACT_SUBJECT, REQUEST_SUBJECT, SUBMIT_SUBJECT
from gatewright.clock import new_id
from gatewright.contracts import AbortRequest, RunRequest, TaskContract, codec, strict_json
from gatewright.contracts.run_request import KEY_LENGTHS
from gatewright.errors import Fault, MalformedError
from gatewright.run.state import run_id_of, trace_id_of
from gatewright.services.gatekeeper.decider.inputs import Submitted
from gatewright.services.gatekeeper.intake.cloud_events import IncomingDocument, is_event, open_event, within
from gatewright.tracing.spans import read_traceparent

SUBJECT_SCHEMAS = {REQUEST_SUBJECT: "run_request.v1", CONTRACT_SUBJECT: "task_contract.v1", ABORT_SUBJECT: "abort_request.v1"}


def letter_in(message: Message, subject: str) -> IncomingDocument:
    """Return the document of ``message``. ``subject`` is the plain subject, without a publisher.

    Raises:
        MalformedError: the message is no submission.
    """
    if is_event(message):
        letter = open_event(message)
        wanted = SUBJECT_SCHEMAS.get(subject)
        if wanted is not None and letter.schema != wanted:
            words = f"must be gatewright.{wanted} on {subject}"
            fault = Fault("/type", "cloud_event_type_mismatch", words)
            raise MalformedError(f"/type: {words}", faults=(fault,), code=fault.code)
        return letter
    schema = message.headers.get(SCHEMA_HEADER) or SUBJECT_SCHEMAS.get(subject) or _guess(message.data)
    return IncomingDocument(schema, message.data, trace=message.headers.get(TRACE_HEADER, ""))


def submission(
    message: Message, subject: str = SUBMIT_SUBJECT, publisher: str = DEFAULT_PUBLISHER, *, durable_key: str | None = None
) -> Submitted:
    """Decode a request or a contract from ``publisher``.

    The key of the run is the first of: the request's own key, the header ``Gw-Idempotency-Key``, the event's key, the message
    id, the position in the queue.

    Raises:
        MalformedError: has the faults of the document.
    """
    letter = letter_in(message, subject)
    try:
        document = codec.decode_named(letter.data, letter.schema)
    except MalformedError as error:
        raise within(letter, error) from error
    if not isinstance(document, RunRequest | TaskContract):
        raise MalformedError(f"a {letter.schema} cannot be submitted", code="not_submittable")
    own = document.idempotency_key if isinstance(document, RunRequest) else None
    key = own or _header_key(message) or letter.key or message.headers.get(MESSAGE_ID_HEADER) or durable_key or new_id()
    run_id = run_id_of(key, publisher)
    caller = read_traceparent(letter.trace)
    return Submitted(
        run_id=run_id,
        trace_id=caller.trace_id if caller else trace_id_of(run_id),
        document=document,
        submitted_sha256=hashlib.sha256(message.data).hexdigest(),
        message_id=durable_key or f"submit:{run_id}",
        publisher=publisher,
        document_sha256=hashlib.sha256(codec.encode(document)).hexdigest(),
        caller_span=caller.span_id if caller else "",
        key=key,
    )


def abort_request(message: Message) -> AbortRequest:
    """Decode a message of ``gw.intake.abort``.

    Raises:
        MalformedError: the message is no abort request.
    """
    letter = letter_in(message, ABORT_SUBJECT)
    try:
        return codec.decode(letter.data, AbortRequest)
    except MalformedError as error:
        raise within(letter, error) from error


def message_id(message: Message) -> str:
    return message.headers.get(MESSAGE_ID_HEADER) or f"{message.subject}:{message.sequence}"


def _header_key(message: Message) -> str | None:
    key = message.headers.get(KEY_HEADER)
    if key is not None and len(key) not in KEY_LENGTHS:
        raise MalformedError(
            f"{KEY_HEADER} has {KEY_LENGTHS[0]} to {KEY_LENGTHS[-1]} characters", code="idempotency_key_invalid"
        )
    return key


def _guess(data: bytes) -> str:
    """Guess the schema of an unlabelled submission: only a contract has a ``task_id``, only a request a ``request``."""
    value = strict_json.parse(data)
    is_contract = isinstance(value, dict) and "task_id" in value and "request" not in value
    return "task_contract.v1" if is_contract else "run_request.v1"
