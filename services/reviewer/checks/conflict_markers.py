"""A merge that was never finished."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from services.reviewer.subject import ChangedFile, Subject

_BEGIN, _MIDDLE, _END = b"<<<<<<<", b"=======", b">>>>>>>"


def conflict_markers(subject: Subject) -> Iterator[Finding]:
    """Blocking: added lines that begin, part and end a conflict, in this order. A heading underlined with ``=`` is none."""
    for file in subject.files:
        line = _first_marker(file)
        if line is not None:
            yield file.finding("conflict_markers", "has an unresolved merge conflict", blocking=True, line=line)


def _first_marker(file: ChangedFile) -> int | None:
    """The number of the line on which an added conflict begins."""
    begun, parted = 0, False
    for number, text in file.added_lines:
        line = text.rstrip(b"\r")
        if _is_marker(line, _BEGIN):
            begun, parted = number, False
        elif begun and line == _MIDDLE:
            parted = True
        elif parted and _is_marker(line, _END):
            return begun
    return None


def _is_marker(line: bytes, marker: bytes) -> bool:
    return line == marker or line.startswith(marker + b" ")
