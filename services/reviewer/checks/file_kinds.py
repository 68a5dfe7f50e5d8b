"""Files that nobody can review by reading: binary ones, and very large ones."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from services.reviewer.subject import Subject


def file_kinds(subject: Subject) -> Iterator[Finding]:
    """Blocking: binary content that the contract does not allow; a file that grew beyond the limit. One that was beyond it
    before is only noted."""
    for file in subject.files:
        if file.new is None:
            continue
        if file.is_binary:
            yield file.finding("binary_refused", "is not text", blocking=not subject.opened.allow_binary)
        if len(file.new) > subject.max_file_bytes:
            grew = len(file.old or b"") <= subject.max_file_bytes
            words = f"has {len(file.new)} bytes; more than {subject.max_file_bytes} are not reviewed by reading"
            yield file.finding("file_too_large", words, blocking=grew)
