"""Errors of structured calls."""

from __future__ import annotations

from gatewright.errors import DeniedError, Fault, GatewrightError


class StructuredOutputError(DeniedError):
    """The model gave no valid answer within the maximum number of attempts. Name another model for the role."""

    code = "structured_output_invalid"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message, faults=faults)


class ModelCallError(GatewrightError):
    """A model call failed after all retries of the gateway. The reason code is the gateway's; the message has details."""

    code = "model_unavailable"


#: Errors of an unanswered question, which is recorded anyway. An exhausted budget ends the run instead.
UNANSWERED = (StructuredOutputError, ModelCallError)
