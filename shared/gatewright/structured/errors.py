"""What can go wrong when a model is asked for a document."""

from __future__ import annotations

from gatewright.errors import DeniedError, Fault, GatewrightError


class StructuredOutputError(DeniedError):
    """The model gave no answer of the form that was asked for, as often as it may be asked. Name another model for the role."""

    code = "structured_output_invalid"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message, faults=faults)


class ModelCallError(GatewrightError):
    """A model could not be asked, after all that the gateway may try. The reason is the gateway's; the message says more."""

    code = "model_unavailable"


#: A question that came to nothing; what was asked is kept all the same. A budget that is used up ends the run instead.
UNANSWERED = (StructuredOutputError, ModelCallError)
