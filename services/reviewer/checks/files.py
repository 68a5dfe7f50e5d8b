"""Every changed file is a plain one inside the contract, and can be judged by reading. The gatekeeper judged its path too."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright import scope
from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import ChangeKind
from gatewright.git.modes import SUBMODULE, SYMLINK
from gatewright.rules.file_growth import file_growth
from gatewright.services.reviewer.subject import Subject

OUT_OF_SCOPE = "path_out_of_scope"
#: By mode: the kind that a contract must allow.
_LINKS: dict[str, ChangeKind] = {SYMLINK: "symlink", SUBMODULE: "submodule"}


def paths(subject: Subject) -> Iterator[Finding]:
    """Blocking: a path outside ``allowed_paths``; a symbolic link or a submodule that comes or changes
    without the contract's leave."""
    allowed = subject.contract.allowed_paths
    # An order for a review limits no paths.
    outside = set(scope.outside(allowed, [file.path for file in subject.files])) if allowed else frozenset()
    for file in subject.files:
        if file.path in outside:
            yield file.finding(OUT_OF_SCOPE, "lies outside the contract's paths", blocking=True)
        if file.change.new_mode in _LINKS:
            blocking = _LINKS[file.change.new_mode] not in subject.opened.allow
            if file.change.new_mode == SYMLINK:
                yield file.finding("symlink_refused", "is a symbolic link", blocking=blocking)
            else:
                yield file.finding("submodule_refused", "is a submodule", blocking=blocking)


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
