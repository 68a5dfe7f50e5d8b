"""Files that no reviewer can judge by reading: binary ones, and very large ones."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from gatewright.services.reviewer.subject import Subject


def file_kinds(subject: Subject) -> Iterator[Finding]:
    """Blocking: binary content, and a file that grew beyond the limit, where the contract does not allow it. One that was
    beyond the limit before is only noted."""
    for file in subject.files:
        if file.new is None:
            continue
        if file.is_binary:
            yield file.finding("binary_refused", "is not text", blocking="binary" not in subject.opened.allow)
        if len(file.new) > subject.max_file_bytes:
            grew = len(file.old or b"") <= subject.max_file_bytes and "large_file" not in subject.opened.allow
            words = f"has {len(file.new)} bytes; more than {subject.max_file_bytes} are not reviewed by reading"
            yield file.finding("file_too_large", words, blocking=grew)
