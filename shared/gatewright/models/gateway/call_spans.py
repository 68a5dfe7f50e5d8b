"""Tells each model call as a span, under the conventions for generative AI. No word of what was said is in it."""

from __future__ import annotations

from typing import Final

from gatewright.models.apis.endpoints import Endpoint
from gatewright.models.records import CallRecord
from gatewright.tracing import conventions as c
from gatewright.tracing.spans import AttributeValue, open_span

#: By the API that was spoken; which company answers at the address, only the operator knows.
_PROVIDERS: Final = {
    "responses": "openai",
    "chat_completions": "openai",
    "messages": "anthropic",
    "gemini": "gcp.gemini",
}
_OPERATIONS: Final = {"generate": "chat", "count": "count_tokens"}
_FAILED: Final = 400


def tell_call(record: CallRecord, endpoint: Endpoint, begun: int) -> None:
    """Say that a call is over which began at ``begun``, in nanoseconds since 1970, as a part of the span that is open."""
    outer = open_span()
    if outer is None:
        return
    operation, model = _OPERATIONS[endpoint.action], record.model or ""
    attributes: dict[str, AttributeValue] = {
        c.GEN_AI_OPERATION: operation,
        c.GEN_AI_PROVIDER: _PROVIDERS[endpoint.api],
        c.GEN_AI_REQUEST_MODEL: model,
        c.GEN_AI_INPUT_TOKENS: record.input_tokens,
        c.GEN_AI_OUTPUT_TOKENS: record.output_tokens,
        c.GEN_AI_CACHED_TOKENS: record.cached_tokens,
        c.HTTP_STATUS: record.status,
        c.PLAYED: record.played,
    }
    if record.model_used:
        attributes[c.GEN_AI_RESPONSE_MODEL] = record.model_used
    if record.cost_usd is not None:
        attributes[c.COST] = record.cost_usd
    error = record.refused or (str(record.status) if record.status >= _FAILED else "")
    outer.ended(f"{operation} {model}".strip(), begun, "client", attributes=attributes, error=error)
