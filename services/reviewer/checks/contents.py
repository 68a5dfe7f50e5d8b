"""New content: credentials, a second look by the patterns alone; and markers of a merge that was never finished."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from gatewright.secrets.earlier_values import EarlierValues
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.reviewer.subject import ChangedFile, Subject

#: How a block of code begins and ends, by the ending of the file's name (CommonMark 0.31, section 4.5; AsciiDoc).
_MARKDOWN = re.compile(rb"[ \t]*(`{3,}|~{3,})")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_ASCIIDOC = re.compile(rb"(-{4,}|\.{4,})")  # noqa: TID251 - linear: anchored, and no repetition can give to the next
_FENCES = {b".md": _MARKDOWN, b".markdown": _MARKDOWN, b".mdx": _MARKDOWN, b".adoc": _ASCIIDOC, b".asciidoc": _ASCIIDOC}
_BEGIN, _MIDDLE, _END = b"<<<<<<<", b"=======", b">>>>>>>"


def conflict_markers(subject: Subject) -> Iterator[Finding]:
    """Blocking: added lines that begin, part and end a conflict, in this order.

    A heading underlined with ``=`` is none, and neither is what documentation shows in a block of code.
    """
    for file in subject.files:
        line = _first_marker(file)
        if line is not None:
            yield file.finding("conflict_markers", "has an unresolved merge conflict", blocking=True, line=line)


def _first_marker(file: ChangedFile) -> int | None:
    """The number of the line on which an added conflict begins."""
    begun, parted = 0, False
    shown = _shown_lines(file)
    for number, text in file.added_lines:
        if number in shown:
            continue
        line = text.rstrip(b"\r")
        if _is_marker(line, _BEGIN):
            begun, parted = number, False
        elif begun and line == _MIDDLE:
            parted = True
        elif parted and _is_marker(line, _END):
            return begun
    return None


def _shown_lines(file: ChangedFile) -> frozenset[int]:
    """The numbers of the lines in blocks of code, where ``file`` is documentation that marks them by fences."""
    opening = next((fence for ending, fence in _FENCES.items() if file.path.lower().endswith(ending)), None)
    if opening is None or _BEGIN not in (file.new or b""):
        return frozenset()
    shown: set[int] = set()
    fence = b""
    for number, text in enumerate((file.new or b"").split(b"\n"), start=1):
        found = opening.match(text)
        if fence:
            shown.add(number)
            if found is not None and found[1].startswith(fence) and not text[found.end() :].strip():
                fence = b""
        elif found is not None:
            fence = found[1]
    return frozenset(shown)


def _is_marker(line: bytes, marker: bytes) -> bool:
    return line == marker or line.startswith(marker + b" ")


_SCANNER = SecretScanner()


def secrets(subject: Subject) -> Iterator[Finding]:
    """Yield blocking findings: new private keys, and new tokens with a recognisable form. They are never quoted."""
    before = EarlierValues(other.old or b"" for other in subject.files)
    for file in subject.files:
        content = file.new or b""
        line, counted = 1, 0
        for hit in _SCANNER.find(content):
            line, counted = line + content.count(b"\n", counted, hit.start), hit.start
            if not before.held(content[hit.start : hit.end]):
                yield file.finding("secret", f"looks like a {hit.rule.replace('_', ' ')}", blocking=True, line=line)
