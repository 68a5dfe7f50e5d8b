"""Answers as documents: an error is an ``error.v1``, and is the exception of its family again at the other end."""

from __future__ import annotations

from typing import TypeVar

from gatewright.bus.port import SCHEMA_HEADER, Message, Reply
from gatewright.contracts import Error, codec
from gatewright.contracts.reports import ErrorFault
from gatewright.contracts.vocabulary import Document
from gatewright.errors import DeniedError, Fault, GatewrightError, LimitError, MalformedError, UnavailableError
from gatewright.reasons import Family, family_of

D = TypeVar("D", bound=Document)

#: Reasons after which a retry is worthwhile: the gatekeeper is starting or restarting; or it reports that its own bus did not
#: answer in time, for example while a cluster elects a leader.
UNANSWERED = frozenset({"bus_no_responders", "bus_no_answer"})


def error_of(answer: Error) -> GatewrightError:
    """Return the exception for an error answer, by its family; faults keep their JSON pointers.

    An answer of an older version has no family: the code is then looked up, and an unknown code is a refusal.
    """
    family = family_of(answer.code, answer.family)
    error = _exception(answer, family)
    error.family = family
    return error


def _exception(answer: Error, family: Family) -> GatewrightError:
    faults = tuple(Fault(fault.pointer, fault.code, fault.message) for fault in answer.faults)
    match family:
        case "bad_input":
            return MalformedError(answer.message, faults=faults, code=answer.code)
        case "refused" | "failed":
            return DeniedError(answer.message, faults=faults, code=answer.code)
        case "infrastructure" if answer.retry_after_seconds is not None:
            return LimitError(answer.message, retry_after=answer.retry_after_seconds, code=answer.code)
        case "infrastructure":
            return UnavailableError(answer.message, code=answer.code)


def decode_answer(answer: Message, kind: type[D]) -> D:
    """Return the document of an answer; raises the exception of an ``error.v1``."""
    if answer.headers.get(SCHEMA_HEADER) == "error.v1":
        raise error_of(codec.decode(answer.data, Error))
    return codec.decode(answer.data, kind)


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
