"""Files that no reviewer can judge by reading: binary ones, and very large ones."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright.contracts.reports import Finding
from gatewright.rules.file_growth import file_growth
from gatewright.services.reviewer.subject import Subject


def file_kinds(subject: Subject) -> Iterator[Finding]:
    """Blocking: binary content, and a file to which more is added than the limit, where the contract does not allow it.

    One that is beyond the limit and grows by less is only noted.
    """
    sizes = {file.change.new_id: len(file.new) for file in subject.files if file.new is not None}
    sizes |= {file.change.old_id: len(file.old) for file in subject.files if file.old is not None}
    growth: dict[bytes, int] | None = None
    for file in subject.files:
        if file.new is None:
            continue
        if file.is_binary:
            yield file.finding("binary_refused", "is not text", blocking="binary" not in subject.opened.allow)
        if len(file.new) > subject.max_file_bytes:
            if growth is None:
                growth = file_growth([each.change for each in subject.files], sizes)
            grew = growth.get(file.path, 0) > subject.max_file_bytes and "large_file" not in subject.opened.allow
            words = f"has {len(file.new)} bytes; more than {subject.max_file_bytes} are not reviewed by reading"
            yield file.finding("file_too_large", words, blocking=grew)
