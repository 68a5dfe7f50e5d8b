"""Faults of a forge and of the way to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

FaultKind = Literal["answer", "hang", "cut", "huge", "endless"]


@dataclass
class Fault:
    """A fault of the next calls with this ``method`` (all if empty) whose path contains ``path``.

    ``answer``: this answer. ``hang``: no answer. ``cut``: the connection ends in the middle of the answer. ``huge``: a body
    without an end. ``endless``: each page of a list announces another. ``performed``: the call has its effect all the same.
    ``times``: calls that it meets.
    """

    kind: FaultKind = "answer"
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b'{"message": "Server Error"}'
    method: str = ""
    path: str = ""
    times: int = 1_000_000
    performed: bool = False

    def meets(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in ("", method) and self.path in path
