"""JSON documents that are given on the command line: a file or standard input, and what schema they keep."""

from __future__ import annotations

import sys
from pathlib import Path

from gatewright.contracts import RunRequest, TaskContract, codec, forms, schemas
from gatewright.errors import Fault, MalformedError
from gatewright.foreign_documents import UnreadableDocumentError, read_json


def read_document(name: str) -> bytes:
    """The bytes of a file, or of standard input for ``-``. Raises MalformedError (code ``invalid_input``)."""
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise MalformedError(f"{name} cannot be read: {error.strerror}", code="invalid_input") from error


def submittable_schema(data: bytes) -> str:
    """``task_contract.v1`` or ``run_request.v1``: a request has ``request``, a contract ``task_id``.

    Raises MalformedError for what is neither.
    """
    fields = _fields(data)
    if "request" in fields:
        return "run_request.v1"
    if "task_id" in fields:
        return "task_contract.v1"
    raise MalformedError("neither a run request (it has `request`) nor a task contract (it has `task_id`)")


def recognised_schema(data: bytes) -> str:
    """The schema that requires the most fields of those that a document has all of; else what it would be submitted as.

    One field alone tells a schema only where it knows all others: a contract that lacks a field is no small request.

    Raises MalformedError for what no schema can be told of.
    """
    fields = _fields(data)
    fitting = {
        name: most
        for name, forms_of_it in forms.required_fields().items()
        if (most := max((len(required) for required in forms_of_it if required <= fields), default=0))
    }
    best = [name for name, most in fitting.items() if most == max(fitting.values())]
    if len(best) == 1 and (fitting[best[0]] > 1 or fields <= schemas.load(best[0])["properties"].keys()):
        return best[0]
    try:
        return submittable_schema(data)
    except MalformedError as error:
        raise MalformedError("no schema is told by the fields of this document: name it with --schema") from error


def _fields(data: bytes) -> frozenset[str]:
    """The names at the top of a document; none when it is no object. Raises MalformedError (``not_json``)."""
    try:
        loaded = read_json(data)
    except UnreadableDocumentError as error:
        raise MalformedError(f"not JSON: {error}", faults=(Fault("", "not_json", str(error)),), code="not_json") from error
    return frozenset(loaded) if isinstance(loaded, dict) else frozenset()


def read_submittable(name: str) -> RunRequest | TaskContract:
    """A request or contract from a file or standard input. Raises MalformedError with every fault."""
    data = read_document(name)
    if submittable_schema(data) == "run_request.v1":
        return codec.decode(data, RunRequest)
    return codec.decode(data, TaskContract)
