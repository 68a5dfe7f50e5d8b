"""Errors in the shape of each API: those that clients are sent, which hold the reason code, and names in those of providers."""

from __future__ import annotations

import json
import re
from typing import Any

from gatewright.foreign_documents import UnreadableDocumentError, read_json
from gatewright.models.policy import Api

_MESSAGES = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error"} | {
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_GEMINI = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"} | {
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
#: Only a name is repeated: other text of a provider may quote its input.
_ERROR_NAME = re.compile(r"[A-Za-z][A-Za-z_]{2,47}")  # noqa: TID251 - linear: one class after another
_NAME_FIELDS = ("code", "type", "status")


def error_name(body: bytes) -> str:
    """Return the provider's name of the error in ``body``, for example ``insufficient_quota``; empty without a name."""
    try:
        document = read_json(body)
    except UnreadableDocumentError:
        return ""
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict):
        return ""
    values = (error.get(name) for name in _NAME_FIELDS)
    return next((value for value in values if isinstance(value, str) and _ERROR_NAME.fullmatch(value)), "")


def error_body(api: Api | None, status: int, code: str, message: str) -> bytes:
    """The body of an answer with ``status``; of no API in particular for a request to an unknown endpoint."""
    words = f"{code}: {message}"
    body: dict[str, Any]
    match api:
        case "messages":
            body = {"type": "error", "error": {"type": _MESSAGES.get(status, "api_error"), "message": words, "code": code}}
        case "gemini":
            reason = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code, "domain": "gatewright"}
            known = _GEMINI.get(status, "INTERNAL")
            body = {"error": {"code": status, "message": words, "status": known, "details": [reason]}}
        case _:
            kind = "invalid_request_error" if status < 429 else "rate_limit_error" if status == 429 else "server_error"
            body = {"error": {"message": words, "type": kind, "param": None, "code": code}}
    return json.dumps(body).encode()
