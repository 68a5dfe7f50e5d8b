"""Translation of an ``error.v1`` answer to the exception of its family."""

from __future__ import annotations

from typing import TypeVar

from gatewright.bus.port import SCHEMA_HEADER, Message
from gatewright.contracts import Error, codec
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
