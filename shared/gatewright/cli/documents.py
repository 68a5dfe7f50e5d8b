"""JSON documents that are given on the command line: a file or standard input, a request or a contract."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from gatewright.contracts import RunRequest, TaskContract, codec
from gatewright.errors import Fault, MalformedError


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
    try:
        loaded = msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"not JSON: {error}", faults=(Fault("", "not_json", str(error)),), code="not_json") from error
    if isinstance(loaded, dict):
        if "request" in loaded:
            return "run_request.v1"
        if "task_id" in loaded:
            return "task_contract.v1"
    raise MalformedError("neither a run request (it has `request`) nor a task contract (it has `task_id`)")


def read_submittable(name: str) -> RunRequest | TaskContract:
    """A request or contract from a file or standard input. Raises MalformedError with every fault."""
    data = read_document(name)
    if submittable_schema(data) == "run_request.v1":
        return codec.decode(data, RunRequest)
    return codec.decode(data, TaskContract)
