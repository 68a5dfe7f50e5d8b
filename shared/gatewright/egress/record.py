"""The log of a pull: one line of canonical JSON per request, allowed or refused, with the digest of the line before it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final, Literal

import msgspec

from gatewright.errors import VerificationError
from gatewright.foreign_documents import JsonReader, UnreadableDocumentError

Decision = Literal["allowed", "refused"]


class EgressRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One request.

    ``decision``: ``refused`` if a rule ended it, before or after it was sent. ``reason``: empty if the installer received the
    whole answer. ``bytes`` and ``sha256``: of the content that it received. ``host`` has the port unless it is 443. ``path``
    ends in ``?sha256=`` and a digest if there was a query, which may hold a key. ``sent`` and ``sent_sha256``: of the body that
    the client sent, if it had one. The log sets ``n`` and ``previous``.
    """

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
    sent: int | msgspec.UnsetType = msgspec.UNSET
    sent_sha256: str | msgspec.UnsetType = msgspec.UNSET
    n: int = 0
    previous: str = ""


_READER: Final = JsonReader(EgressRecord)


class EgressLog:
    """Appends lines to the file of one pull. ``head`` is the digest of the last line, "" without any.

    A file that exists is continued. Raises VerificationError if it was changed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        earlier = path.read_bytes() if path.exists() else b""
        self._count = len(parse_egress_log(earlier))
        self.head = _line_digest(earlier.splitlines()[-1]) if earlier else ""

    def append(self, record: EgressRecord) -> None:
        """Write the record as the next line."""
        self._count += 1
        line = _encode(msgspec.structs.replace(record, n=self._count, previous=self.head))
        with self.path.open("ab") as file:
            file.write(line + b"\n")
        self.head = _line_digest(line)


def parse_egress_log(data: bytes, head: str = "") -> tuple[EgressRecord, ...]:
    """Return the records of a log's content.

    Without ``head``, which the inventory of the environment has checked, lines that are missing at the end are not found.

    Raises VerificationError (``egress_log_altered``) for any changed, missing or reordered line.
    """
    *lines, end = data.split(b"\n")
    if end:
        raise _altered(len(lines) + 1)
    records: list[EgressRecord] = []
    previous = ""
    for number, line in enumerate(lines, 1):
        try:
            record = _READER.decode(line)
        except UnreadableDocumentError as error:
            raise _altered(number) from error
        if record.n != number or record.previous != previous or _encode(record) != line:
            raise _altered(number)
        records.append(record)
        previous = _line_digest(line)
    if head and previous != head:
        raise _altered(len(lines))
    return tuple(records)


def _encode(record: EgressRecord) -> bytes:
    return msgspec.json.encode(record, order="sorted")


def _line_digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _altered(number: int) -> VerificationError:
    words = f"line {number} of the egress log was changed, removed or moved: do not trust the pull, and repeat it"
    return VerificationError(words, code="egress_log_altered")
