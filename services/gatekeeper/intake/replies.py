"""Replies to publishers: documents, and errors as documents."""

from __future__ import annotations

from gatewright.bus.port import Reply
from gatewright.contracts import Error, codec
from gatewright.contracts.reports import ErrorFault
from gatewright.contracts.vocabulary import Document
from gatewright.errors import DeniedError, Fault, GatewrightError, LimitError, MalformedError


def reply(document: Document) -> Reply:
    return Reply(codec.encode(document), codec.schema_of(document))


def error_document(error: GatewrightError) -> Error:
    """Convert an error to the document that a publisher receives."""
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
