"""Bytes to typed documents and back, by schema name.

The struct's strict decoding answers the accept path; a drift test proves that it agrees with the JSON Schema. When it
refuses, the schema itself writes the error report, so that every fault is named by JSON pointer.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gatewright import contracts
from gatewright.contracts.common import Document
from gatewright.contracts.schemas import fault_report
from gatewright.errors import Fault, MalformedError, UnknownSchemaError

D = TypeVar("D", bound=Document)

#: Schema name -> type. The files in shared/schemas are in bijection with this table (a test says so).
DOCUMENTS: dict[str, type[Document]] = {
    "abort_request.v1": contracts.AbortRequest,
    "agent_registry.v1": contracts.AgentRegistry,
    "error.v1": contracts.Error,
    "evidence_bundle.v1": contracts.EvidenceBundle,
    "evidence_report.v1": contracts.EvidenceReport,
    "gate_report.v1": contracts.GateReport,
    "orchestrator_event.v1": contracts.OrchestratorEvent,
    "plan.v1": contracts.Plan,
    "reexec_report.v1": contracts.ReexecReport,
    "request_task.v1": contracts.RequestTask,
    "review_report.v1": contracts.ReviewReport,
    "run_manifest.v1": contracts.RunManifest,
    "run_request.v1": contracts.RunRequest,
    "submit_reply.v1": contracts.SubmitReply,
    "task_contract.v1": contracts.TaskContract,
    "task_result.v1": contracts.TaskResult,
    "test_report.v1": contracts.TestReport,
    "transition.v1": contracts.Transition,
    "work_report.v1": contracts.WorkReport,
}
_NAMES = {document: name for name, document in DOCUMENTS.items()}
_DECODERS: dict[type[Document], msgspec.json.Decoder[Document]] = {
    document: msgspec.json.Decoder(document) for document in DOCUMENTS.values()
}
_CANONICAL = msgspec.json.Encoder(order="sorted")


def schema_of(document: Document) -> str:
    """The schema name (``task_contract.v1``) of a document."""
    return _NAMES[type(document)]


def encode(document: Document) -> bytes:
    """Canonical JSON: UTF-8, keys sorted, no white space. Equal documents give equal bytes."""
    return _CANONICAL.encode(document)


def decode(data: bytes, kind: type[D]) -> D:
    """``data`` as a document of type ``kind``.

    Raises MalformedError, with one Fault for everything that the JSON Schema finds wrong.
    """
    try:
        document = _DECODERS[kind].decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        name = _NAMES[kind]
        faults = fault_report(name, data) or (Fault("", "invalid", str(error)),)
        raise MalformedError(f"not a valid {name}: {faults[0].pointer or '/'}: {faults[0].message}", faults=faults) from error
    assert isinstance(document, kind)  # noqa: S101 - narrows the type for the checker; the decoder guarantees it
    return document


def decode_named(data: bytes, name: str) -> Document:
    """``data`` as the document that the schema ``name`` describes. Raises UnknownSchemaError, MalformedError."""
    try:
        kind = DOCUMENTS[name]
    except KeyError:
        raise UnknownSchemaError(f"unknown schema {name!r}") from None
    return decode(data, kind)
