"""The log of a pull: one line per request, allowed or refused, each with the digest of the line before."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

Decision = Literal["allowed", "refused"]


class EgressRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request. ``reason``: empty if the client got the whole answer. ``n`` and ``previous`` are set by the log."""

    source: str
    host: str
    method: str
    path: str
    decision: Decision
    at: str
    reason: str = ""
    ip: str = ""
    status: int = 0
    bytes: int = 0
    sha256: str = ""
    n: int = 0
    previous: str = ""


class EgressLog:
    """Appends the lines of one pull to a new file. ``head``: the digest of the last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head = ""

    def append(self, record: EgressRecord) -> None:
        """Write the record as the next line."""
        raise NotImplementedError


def read_egress_log(path: Path, head: str = "") -> tuple[EgressRecord, ...]:
    """Return the records of a log. Raises VerificationError for any changed, missing or reordered line."""
    raise NotImplementedError
