"""What an ``error.v1`` answer means: which of the three families of errors a stable reason code belongs to.

The one table of codes that speak of the input and of codes that speak of the surroundings; every other code is a gate's no.
"""

from __future__ import annotations

from typing import Literal, TypeVar

from gatewright.bus.port import SCHEMA_HEADER, Message
from gatewright.contracts import Error, codec
from gatewright.contracts.vocabulary import Document
from gatewright.errors import (
    DeniedError,
    Fault,
    GatewrightError,
    HostError,
    LimitError,
    MalformedError,
    UnavailableError,
)
from gatewright.host_errors import BUS_FULL, HOST_CODES, WAITED_FOR

Family = Literal["malformed", "denied", "unavailable"]
D = TypeVar("D", bound=Document)

#: Reasons of a BusError after which it is worth asking again: the gatekeeper is being started, or started again.
NOBODY_THERE = frozenset({"bus_no_responders", "bus_no_answer"})

#: What was sent is not valid, or names something that does not exist: correct it and send it again.
INPUT_CODES = frozenset(
    {"malformed", "nested_too_deeply", "unknown_schema", "not_json", "not_submittable", "invalid_input", "message_too_large"}
    | {"cortexpilot_form", "request_incomplete", "paths_word_missing", "artifact_invalid", "artifact_too_large"}
    | {
        "bad_ref",
        "ref_not_found",
        "target_missing",
        "target_elsewhere",
        "bad_url",
        "repository_unavailable",
        "repository_partial",
        "repository_missing",
        "repository_empty",
    }
    | {"run_unknown", "run_ambiguous", "run_id_invalid", "document_too_large", "idempotency_key_invalid"}
    | {
        "cloud_event_invalid",
        "cloud_event_version",
        "cloud_event_type_unknown",
        "cloud_event_type_mismatch",
        "cloud_event_batch",
    }
    | {
        "cloud_event_binary_data",
        "cloud_event_binary_mode",
        "cloud_event_format",
        "cloud_event_data_not_json",
        "cloud_event_without_data",
    }
)
#: What the policy on publishers says no to, and where in the document.
PUBLISHER_CODES = frozenset(
    {"publisher_unknown", "kind_not_allowed", "priority_not_allowed", "repository_not_allowed", "ref_not_allowed"}
    | {"idempotency_key_reused"}
)
#: A publisher sends too often, or has too much going on.
LIMIT_CODES = frozenset({"rate_exceeded", "too_many_open_runs", "daily_runs_exhausted"})
#: Something that is needed cannot be had: nothing is wrong with what was sent.
SURROUNDINGS_CODES = frozenset(
    LIMIT_CODES
    | {"unavailable", "internal_error", "configuration_invalid", "home_in_use", "role_keeps_dying", "ledger_conflict"}
    | {"bus_unavailable", "bus_no_answer", "bus_no_responders", "artifact_unavailable", "sandbox_unavailable"}
    | {"evidence_unwritable", "bundle_unwritable", "bundle_not_sealed"}
    | {"workspace_unavailable", "git_failed", "git_timeout", "git_killed", "mirror_busy"}
    | HOST_CODES
    | {HostError.code, BUS_FULL, "service_busy", "service_stopping", "ledger_being_read"}
)


#: What passes by itself or with an operator's help: the same submission is sent again, under the same key.
PASSING_CODES = (
    WAITED_FOR
    | {"bus_unavailable", "bus_no_answer", "bus_no_responders", "bundle_unwritable", "unavailable"}
    | {
        "service_busy",
        "service_stopping",
    }
)


def family_of(code: str) -> Family:
    """The family of a stable reason code."""
    if code in INPUT_CODES:
        return "malformed"
    return "unavailable" if code in SURROUNDINGS_CODES else "denied"


def error_of(answer: Error) -> GatewrightError:
    """The exception that an error answer stands for; faults keep their JSON pointers."""
    faults = tuple(Fault(fault.pointer, fault.code, fault.message) for fault in answer.faults)
    if answer.code in LIMIT_CODES:
        return LimitError(answer.message, retry_after=answer.retry_after_seconds, code=answer.code)
    if answer.code in PUBLISHER_CODES:
        return DeniedError(answer.message, faults=faults, code=answer.code)
    if faults or family_of(answer.code) == "malformed":
        return MalformedError(answer.message, faults=faults, code=answer.code)
    if family_of(answer.code) == "unavailable":
        return UnavailableError(answer.message, code=answer.code)
    return DeniedError(answer.message, code=answer.code)


def answered(answer: Message, kind: type[D]) -> D:
    """The document of an answer; raises the exception that an ``error.v1`` stands for."""
    if answer.headers.get(SCHEMA_HEADER) == "error.v1":
        raise error_of(codec.decode(answer.data, Error))
    return codec.decode(answer.data, kind)
