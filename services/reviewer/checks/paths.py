"""Every changed path lies inside the contract, and is a plain file. A second look: the gatekeeper has judged it before."""

from __future__ import annotations

from collections.abc import Iterator

from gatewright import scope
from gatewright.contracts.reports import Finding
from gatewright.contracts.vocabulary import ChangeKind
from gatewright.git.modes import SUBMODULE, SYMLINK
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
