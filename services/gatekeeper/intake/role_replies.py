"""Converts messages of the stream RESULTS to inputs of the decider, with their role and run. Nothing is judged here."""

from __future__ import annotations

import msgspec

from gatewright.bus.port import SCHEMA_HEADER, Message
from gatewright.bus.topology import TASK_ROLES, result_subject
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
from gatewright.errors import MalformedError
from gatewright.services.gatekeeper.decider.inputs import RoleReplied, UsageReceived
from gatewright.services.gatekeeper.intake.submission import message_id


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
