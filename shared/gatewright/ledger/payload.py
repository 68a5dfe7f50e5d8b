"""The base of event payloads."""

from __future__ import annotations

from typing import ClassVar

from gatewright.contracts.vocabulary import Document


class Payload(Document, frozen=True):
    """Base of event payloads; ``event_type`` is the name on the wire."""

    event_type: ClassVar[str]
