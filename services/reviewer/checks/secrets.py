"""Credentials in new content: a second look by the rules of the patterns alone; the gatekeeper has judged it before."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from gatewright.secrets.earlier_values import EarlierValues
from gatewright.secrets.scanner import SecretScanner
from gatewright.services.reviewer.subject import Subject

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
