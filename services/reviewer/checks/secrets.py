"""Credentials in new content: a second look by the rules of the patterns alone; the gatekeeper has judged it before."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from gatewright.secrets.scanner import SecretScanner
from services.reviewer.subject import Subject

_SCANNER = SecretScanner()


def secrets(subject: Subject) -> Iterator[Finding]:
    """Blocking: a private key, or a token whose form says what it is, that no changed file held before. It is never quoted."""
    before: bytes | None = None
    for file in subject.files:
        for hit in _SCANNER.find(file.new or b""):
            content = file.new or b""
            if before is None:
                before = b"\n".join(other.old or b"" for other in subject.files)
            if content[hit.start : hit.end] not in before:
                line = content.count(b"\n", 0, hit.start) + 1
                yield file.finding("secret", f"looks like a {hit.rule.replace('_', ' ')}", blocking=True, line=line)
