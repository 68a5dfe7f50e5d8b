"""What can go wrong with an answer that a model has to give in a form."""

from __future__ import annotations

from gatewright.errors import DeniedError, Fault


class StructuredOutputError(DeniedError):
    """The model gave no answer of the form that was asked for, as often as it may be asked. Name another model for the role."""

    code = "structured_output_invalid"

    def __init__(self, message: str, *, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message, faults=faults)
