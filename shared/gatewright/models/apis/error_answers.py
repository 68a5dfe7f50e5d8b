"""Errors in the shape of each API, so that clients understand them; each holds the reason code."""

from __future__ import annotations

import json
from typing import Any

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
